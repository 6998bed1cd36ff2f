"""Random encoders with rotary positions, in the forms in which their models are published."""

import json
import pathlib

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    Gemma3TextConfig,
    Gemma3TextModel,
    GemmaTokenizer,
    GteConfig,
    GteForSequenceClassification,
    GteModel,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    ModernBertModel,
    NomicBertConfig,
    NomicBertModel,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    Qwen3Config,
    Qwen3Model,
)

from checkpoints import vocabulary
from checkpoints.networks import MAX_TOKENS, redraw

# Heads of 32 values, which kernels take; those of NomicBERT have 6, which they do not.
WIDE = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 48}
NARROW = {"hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 20}
POSITIONS = {"max_position_embeddings": MAX_TOKENS}
NTK = 2.0


def _trained(special: list[str], pre_tokenizer, trainer_settings: dict) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**trainer_settings.pop("model", {})))
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False, **trainer_settings)
    tokenizer.train_from_iterator(vocabulary.TEXTS, trainer)
    return tokenizer


def _model(tokenizer: Tokenizer) -> tuple[dict, list]:
    """Vocabulary and merges."""
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def modern_bert(max_tokens: int) -> PreTrainedTokenizerFast:
    """BPE over bytes between [CLS] and [SEP], as ModernBERT's `tokenizer.json` has it."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    alphabet = {"initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet())}
    tokenizer = _trained(special, pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    around = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", around)
    names = {f"{name[1:-1].lower()}_token": name for name in special}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_tokens, **names)


def qwen(max_tokens: int) -> Qwen2Tokenizer:
    """BPE over bytes, <|endoftext|> behind the text, padding before it."""
    alphabet = {"initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet())}
    vocab, merges = _model(_trained(["<|endoftext|>", "<|im_end|>"], pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet))
    tokenizer = Qwen2Tokenizer(
        vocab=vocab, merges=merges, model_max_length=max_tokens, padding_side="left", extra_special_tokens=["<|im_end|>"]
    )
    end = "<|endoftext|>"
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        f"$A {end}", f"$A {end} $B {end}", [(end, vocab[end])]
    )
    return tokenizer


def gemma(max_tokens: int) -> GemmaTokenizer:
    """BPE over characters with bytes for what is unknown, between <bos> and <eos>."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *(f"<0x{byte:02X}>" for byte in range(256))]
    space = "\u2581"
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", space)
    trainer = trainers.BpeTrainer(vocab_size=460, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([text.replace("\u4f60", "") for text in vocabulary.TEXTS], trainer)
    vocab, merges = _model(tokenizer)
    made = GemmaTokenizer(vocab=vocab, merges=merges, model_max_length=max_tokens)
    around = [("<bos>", vocab["<bos>"]), ("<eos>", vocab["<eos>"])]
    made.backend_tokenizer.post_processor = processors.TemplateProcessing("<bos> $A <eos>", "<bos> $A <eos> $B <eos>", around)
    return made


def _gte(words: int, rope: dict, **more) -> GteConfig:
    # `rope_parameters` in place of what GTE's own code calls `ntk`: a larger base, and all of it slower.
    return GteConfig(vocab_size=words, pad_token_id=0, rope_parameters=rope, **WIDE, **POSITIONS, **more)


def _modern_bert(words: int, **more) -> ModernBertConfig:
    # Two layers of the four have windows; the longest text has several of them.
    ids = {"pad_token_id": 0, "cls_token_id": 2, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3}
    return ModernBertConfig(vocab_size=words, local_attention=10, **WIDE, **POSITIONS, **ids, **more)


def network(family: str, seed: int):
    """A network and its tokenizer."""
    tokenizers = {"modernbert": modern_bert, "qwen3": qwen, "gemma3": gemma, "gemma3-causal": gemma}
    tokenizer = tokenizers.get(family, vocabulary.bert)(MAX_TOKENS)
    words = len(tokenizer)
    if family == "modernbert":
        model = ModernBertModel(_modern_bert(words))
    elif family == "gte":
        model = GteModel(_gte(words, {"rope_type": "default", "rope_theta": 160_000.0}, type_vocab_size=1))
    elif family == "gte-own-code":
        head = WIDE["hidden_size"] // WIDE["num_attention_heads"]
        rope = {"rope_type": "linear", "factor": NTK ** (2 / head), "rope_theta": 500.0 * NTK}
        model = GteModel(_gte(words, rope, type_vocab_size=0))
    elif family in ("nomic-bert", "nomic-own-code"):
        model = NomicBertModel(NomicBertConfig(vocab_size=words + 3, **NARROW, **POSITIONS))
    elif family == "qwen3":
        keys = {"num_key_value_heads": 2, "head_dim": 32}
        sizes = WIDE | {"num_attention_heads": 4} | keys
        # Heads that do not add up to the hidden size, and windows in the last layer.
        window = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 3}
        model = Qwen3Model(Qwen3Config(vocab_size=words + 5, **sizes, **POSITIONS, **window))
    elif family in ("gemma3", "gemma3-causal"):
        keys = {"num_key_value_heads": 1, "head_dim": 32, "query_pre_attn_scalar": 20}
        pattern = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 9}
        both_ways = {"use_bidirectional_attention": family == "gemma3"}
        model = Gemma3TextModel(Gemma3TextConfig(vocab_size=words, **WIDE, **POSITIONS, **keys, **pattern, **both_ways))
    else:
        raise ValueError(f"family: expected one of those above, got {family!r}")
    redraw(model, seed)
    _rescale(model)
    return model.eval(), tokenizer


def _rescale(model: torch.nn.Module) -> None:
    """Norms near one (Gemma's are stored less one), and smaller maps, so that no softmax saturates: rounded weights then
    give vectors that are near those of exact ones, as those of trained models do."""
    gemma_norms = model.config.model_type.startswith("gemma")
    after = model.config.model_type in ("gte", "nomic_bert")
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 1 and name.endswith("weight") and "norm" in name.lower():
                value.copy_(value * 2.0 if gemma_norms else 1.0 + value)
            elif value.dim() == 2 and not any(part in name for part in ("embed", "pooler", "head.dense", "classifier")):
                value.mul_((0.8 if after else 2.0) / value.shape[1] ** 0.5)


def cross_encoder(family: str, seed: int):
    """A network with the head that scores a pair of texts, and its tokenizer; ModernBERT's reads the mean or the first token."""
    if family == "gte":
        tokenizer = vocabulary.bert(MAX_TOKENS)
        rope = {"rope_type": "default", "rope_theta": 10_000.0}
        model = GteForSequenceClassification(_gte(len(tokenizer), rope, type_vocab_size=2, num_labels=1))
    else:
        tokenizer = modern_bert(MAX_TOKENS)
        head = {
            "modernbert": {"classifier_pooling": "mean"},
            "modernbert-cls": {"classifier_pooling": "cls", "classifier_bias": True, "norm_bias": True, "classifier_activation": "tanh"},
        }[family]
        model = ModernBertForSequenceClassification(_modern_bert(len(tokenizer), num_labels=1, **head))
    redraw(model, seed)
    _rescale(model)
    return model.eval(), tokenizer


def as_own_code(folder: pathlib.Path, family: str) -> None:
    """Gives a `config.json` the names that the models' own code has, after vectors were made with transformers' names."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if family == "gte-own-code":
        del config["rope_parameters"]
        config |= {"model_type": "new", "architectures": ["NewModel"], "rope_theta": 500.0, "pack_qkv": True}
        config |= {"rope_scaling": {"type": "ntk", "factor": NTK}, "position_embedding_type": "rope", "unpad_inputs": False}
        config |= {"layer_norm_type": "layer_norm", "logn_attention_scale": False, "use_memory_efficient_attention": False}
        config |= {"auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"}, "tokenizer_class": "BertTokenizer"}
    else:
        names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}
        names |= {"intermediate_size": "n_inner", "max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon"}
        config = {names.get(name, name): value for name, value in config.items()}
        for name in ("rope_parameters", "head_dim", "hidden_act"):
            del config[name]
        config |= {"activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "prenorm": False}
        config |= {"rotary_emb_interleaved": False, "rotary_scaling_factor": None, "qkv_proj_bias": False, "causal": False}
    path.write_text(json.dumps(config, indent=1) + "\n")
