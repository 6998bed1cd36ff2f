"""Random transformers of every family, saved by `save_pretrained` with their tokenizers."""

import pathlib

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    DistilBertModel,
    DPRConfig,
    DPRContextEncoder,
    DPRQuestionEncoder,
    MPNetConfig,
    MPNetForSequenceClassification,
    MPNetModel,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaModel,
    T5Config,
    T5EncoderModel,
)

from checkpoints import vocabulary

HIDDEN = 12
# Tokens that a model reads; the longest text has more.
MAX_TOKENS = 48


def redraw(model: torch.nn.Module, seed: int) -> None:
    """Large matrices and small offsets, so that different texts get clearly different vectors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            noise = torch.randn(value.shape, generator=generator)
            if name.lower().endswith(("layernorm.weight", "layer_norm.weight")):
                value.copy_(1.0 + 0.2 * noise)
            elif "relative_attention_bias" in name:
                value.copy_(noise)
            else:
                value.copy_(noise * (0.1 if value.dim() == 1 else 0.5))


def _bert_sizes(words: int) -> dict:
    return {
        "vocab_size": words,
        "hidden_size": HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": MAX_TOKENS,
    }


def _t5(words: int, feed_forward: str) -> T5EncoderModel:
    # Heads whose widths do not add up to the hidden size, and fewer distances than the longest text has.
    sizes = {"d_model": HIDDEN, "d_kv": 5, "num_heads": 3, "d_ff": 20, "num_layers": 3}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
    # As published: T5 1.1 does not tie the output embedding; the table is longer than the tokenizer.
    tied = feed_forward == "relu"
    config = T5Config(vocab_size=words + 6, feed_forward_proj=feed_forward, tie_word_embeddings=tied, **sizes, **buckets)
    return T5EncoderModel(config)


def transformer(family: str, seed: int):
    """A network and its tokenizer."""
    tokenizers = {"t5-relu": vocabulary.t5, "t5-gated": vocabulary.t5, "roberta": vocabulary.roberta, "mpnet": vocabulary.mpnet}
    tokenizer = tokenizers.get(family, vocabulary.bert)(MAX_TOKENS)
    words = len(tokenizer)
    if family == "bert":
        model = BertModel(BertConfig(**_bert_sizes(words)), add_pooling_layer=True)
    elif family == "distilbert":
        sizes = {"dim": HIDDEN, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": MAX_TOKENS}
        model = DistilBertModel(DistilBertConfig(vocab_size=words, **sizes))
    elif family in ("roberta", "mpnet"):
        # Their positions begin behind the padding id, 1.
        sizes = _bert_sizes(words) | {"max_position_embeddings": MAX_TOKENS + 2}
        if family == "roberta":
            model = RobertaModel(RobertaConfig(**sizes, type_vocab_size=1, layer_norm_eps=1e-5), add_pooling_layer=False)
        else:
            model = MPNetModel(MPNetConfig(**sizes, layer_norm_eps=1e-5), add_pooling_layer=False)
    elif family in ("t5-relu", "t5-gated"):
        model = _t5(words, {"t5-relu": "relu", "t5-gated": "gated-gelu"}[family])
    else:
        raise ValueError(f"family: expected bert, distilbert, roberta, mpnet, t5-relu or t5-gated, got {family!r}")
    redraw(model, seed)
    return model.eval(), tokenizer


def cross_encoder(family: str, seed: int):
    """A transformer with the head that scores a pair of texts, and its tokenizer."""
    network, tokenizer = transformer(family, seed)
    config = network.config
    config.num_labels = 1
    model = {
        "bert": BertForSequenceClassification,
        "distilbert": DistilBertForSequenceClassification,
        "mpnet": MPNetForSequenceClassification,
        "roberta": RobertaForSequenceClassification,
    }[family](config)
    redraw(model, seed)
    return model.eval(), tokenizer


def dpr(kind: str, projection: int, seed: int):
    """A `question` or `answer` encoder of DPR (Karpukhin et al. 2020): [CLS], then a projection unless its size is 0."""
    tokenizer = vocabulary.bert(MAX_TOKENS)
    config = DPRConfig(**_bert_sizes(len(tokenizer)), projection_dim=projection)
    model = {"question": DPRQuestionEncoder, "answer": DPRContextEncoder}[kind](config)
    redraw(model, seed)
    return model.eval(), tokenizer


def save(folder: pathlib.Path, network, dtype: torch.dtype = torch.float32, shard_bytes: int | None = None) -> None:
    """config.json, weights as safetensors (in shards of a given size), tokenizer.json, tokenizer_config.json."""
    model, tokenizer = network
    sharded = {} if shard_bytes is None else {"max_shard_size": shard_bytes}
    model.to(dtype).save_pretrained(folder, **sharded)
    tokenizer.save_pretrained(folder)
