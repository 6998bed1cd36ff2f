#!/usr/bin/env python3
"""Writes the tiny checkpoints of encoder/tests/golden/tiny and their vectors by sentence-transformers.

    .venv/bin/python benches/peers/st_tiny.py --out encoder/tests/golden/tiny

(`deploy/venv.sh` makes the environment). A few thousand random weights each, drawn with a fixed seed, so that the whole
reader and network is tested where no model can be fetched. Each folder is a model directory plus `vectors.json`; `cross-classic`, a
cross encoder, has `scores.json`.
"""

import argparse
import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
from transformers import BertConfig, BertForSequenceClassification, BertModel, RobertaConfig, RobertaModel

WORDS = "the a of and who what is was in to query passage : , . ? ! river city mountain king queen water light \u4f60 \u597d"
PIECES = "##s ##ed ##ing ##er ##ly ##a ##e ##i ##o ##u ##n ##r ##t b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2"
TEXTS = [
    "Who was the king of the city?",
    "The queen",
    "water, light and mountain rivers",
    "a",
    "\u4f60\u597d the R\u00edver",
    "\u0001",
    "the river of the city and the mountain of the king and the queen of the water and the light " * 3,
]
MAX_TOKENS = 24
HIDDEN = 12


def vocabulary() -> list[str]:
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split(), *PIECES.split()]


def tokenizer_json() -> dict:
    words = vocabulary()
    special = [
        {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        for i, word in enumerate(words[:5])
    ]
    around = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return {
        "version": "1.0",
        # Left over from another use, as in many published models: must not change anything.
        "truncation": {"direction": "Right", "max_length": 7, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": around,
                           "pair": [*around, {"Sequence": {"id": "B", "type_id": 1}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                           "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}
                                              for i, token in [(2, "[CLS]"), (3, "[SEP]")]}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}},
    }


def write(path: pathlib.Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def draw(name: str, like: torch.Tensor) -> torch.Tensor:
    """Large matrices and small offsets, so that different texts get clearly different vectors."""
    noise = torch.randn_like(like)
    if name.endswith("LayerNorm.weight"):
        return 1.0 + 0.2 * noise
    return noise * (0.1 if like.dim() == 1 else 0.6)


def transformer(folder: pathlib.Path, family: str, dtype: torch.dtype) -> None:
    """config.json, model.safetensors and the tokenizer of a random BERT or RoBERTa."""
    sizes = dict(vocab_size=len(vocabulary()), hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2,
                 intermediate_size=16, max_position_embeddings=28, hidden_act="gelu")
    torch.manual_seed(7)
    if family == "cross":
        model = BertForSequenceClassification(
            BertConfig(**sizes, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0, num_labels=1))
    elif family == "bert":
        model = BertModel(BertConfig(**sizes, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0), add_pooling_layer=True)
    else:
        model = RobertaModel(RobertaConfig(**sizes, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=0), add_pooling_layer=False)
    tensors = {name: draw(name, value) for name, value in model.state_dict().items() if value.is_floating_point()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.to(dtype).contiguous() for name, value in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    config = model.config.to_dict() | {"architectures": [type(model).__name__]}
    write(folder / "config.json", {key: value for key, value in config.items() if key not in ("transformers_version", "dtype")})
    write(folder / "tokenizer.json", tokenizer_json())
    tokenizer = "BertTokenizer" if family in ("bert", "cross") else "PreTrainedTokenizerFast"
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    write(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer, "model_max_length": 512, **names}
          | ({"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None} if family in ("bert", "cross") else {}))


def classic(folder: pathlib.Path, family: str, dtype: torch.dtype, prompts: dict, include_prompt: bool, pooling: dict) -> None:
    """The layout that sentence-transformers up to 5.3 writes."""
    transformer(folder, family, dtype)
    types = ["Transformer", "Pooling", "Normalize"]
    write(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": f"{i}_{name}" if i else "", "type": f"sentence_transformers.models.{name}"}
        for i, name in enumerate(types)
    ])
    write(folder / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS, "do_lower_case": False})
    write(folder / "config_sentence_transformers.json", {
        "__version__": {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"},
        "prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"})
    flags = {"cls_token": False, "mean_tokens": False, "max_tokens": False, "mean_sqrt_len_tokens": False} | pooling
    write(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": HIDDEN, **{f"pooling_mode_{name}": on for name, on in flags.items()}, "include_prompt": include_prompt})


def newer(folder: pathlib.Path, plain: pathlib.Path) -> None:
    """The layout that sentence-transformers 6.2.0 itself writes, with every pooling and two dense modules."""
    model = SentenceTransformer(str(plain), device="cpu")
    torch.manual_seed(8)
    pooling = Pooling(HIDDEN, pooling_mode=("cls", "max", "mean"))
    gelu = Dense(3 * HIDDEN, 20, bias=True, activation_function=torch.nn.GELU())
    tanh = Dense(20, 12, bias=False, activation_function=torch.nn.Tanh())
    for dense in (gelu, tanh):
        torch.nn.init.normal_(dense.linear.weight, std=0.3)
    model = SentenceTransformer(modules=[model[0], pooling, gelu, tanh, Normalize()], device="cpu",
                                prompts={"query": "query: ", "document": ""})
    model.max_seq_length = MAX_TOKENS
    model.save(str(folder), create_model_card=False)
    for name in ("README.md", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)


def vectors(folder: pathlib.Path) -> None:
    # Computed in f32 whatever the weights are stored in, as dyad-encoder does by default.
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})

    def digits(encoded) -> list:
        return [[float(f"{value:.8g}") for value in row] for row in encoded.tolist()]

    towers = {
        "question": digits(model.encode_query(TEXTS, normalize_embeddings=True)),
        "answer": digits(model.encode_document(TEXTS, normalize_embeddings=True)),
    }
    path = folder / "vectors.json"
    path.write_text(json.dumps({"texts": TEXTS, **towers}) + "\n", encoding="utf-8")


def cross(folder: pathlib.Path) -> None:
    """A cross encoder as sentence-transformers 4.0 to 5.3 writes it, and its scores."""
    transformer(folder, "cross", torch.float32)
    config, tokenizer = (json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer_config.json"))
    write(folder / "tokenizer_config.json", tokenizer | {"model_max_length": MAX_TOKENS})
    write(folder / "config.json", config | {"sentence_transformers": {
        "activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"}})
    pairs = [(TEXTS[0], text) for text in TEXTS] + [(text, TEXTS[1]) for text in TEXTS]
    model = CrossEncoder(str(folder), device="cpu")
    scores = [float(f"{value:.8g}") for value in model.predict(pairs).tolist()]
    (folder / "scores.json").write_text(json.dumps({"pairs": pairs, "scores": scores}) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    prompts = {"query": "query: ", "document": "passage: "}
    classic(out / "classic-mean", "bert", torch.float32, {}, True, {"mean_tokens": True})
    classic(out / "classic-prompt-left-out", "bert", torch.float16, prompts, False, {"mean_tokens": True, "cls_token": True, "max_tokens": True})
    classic(out / "roberta-cls", "roberta", torch.bfloat16, prompts, True, {"cls_token": True})
    transformer(out / "plain", "bert", torch.float32)
    newer(out / "newer-dense", out / "plain")
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        vectors(folder)
    cross(out / "cross-classic")


if __name__ == "__main__":
    main()
