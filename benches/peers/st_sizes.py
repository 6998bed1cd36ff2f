#!/usr/bin/env python3
"""Writes encoders of published sizes with random weights: for speed, memory and agreement, where no model can be fetched.

    .venv/bin/python benches/peers/st_sizes.py --tokenizer .models/all-MiniLM-L6-v2 --out DIR [--only NAME ...] [--dtype bfloat16]

(`deploy/venv.sh` makes the environment.) Weights are as transformers initialises them; the tokenizer is that of the given model, whose ids
every table here has rows for. Each folder is a sentence-transformers directory; its pooling is that of the published model.

| name | sizes of | layers | hidden | weights |
|---|---|---|---|---|
| `modernbert-base` | answerdotai/ModernBERT-base, Alibaba-NLP/gte-modernbert-base | 22 | 768 | 149 M |
| `gte-base` | Alibaba-NLP/gte-base-en-v1.5 | 12 | 768 | 137 M |
| `nomic-embed` | nomic-ai/nomic-embed-text-v1.5 | 12 | 768 | 137 M |
| `qwen3-0.6b` | Qwen/Qwen3-Embedding-0.6B | 28 | 1024 | 596 M |
| `embeddinggemma-300m` | google/embeddinggemma-300m, without its Dense modules | 24 | 768 | 303 M |
| `bert-base` | BAAI/bge-base-en-v1.5, intfloat/e5-base-v2, Snowflake/snowflake-arctic-embed-m | 12 | 768 | 109 M |
"""

import argparse
import pathlib
import shutil

import torch
import transformers
from transformers import BertConfig, Gemma3TextConfig, GteConfig, ModernBertConfig, NomicBertConfig, Qwen3Config

from checkpoints import layouts

TOKENIZER = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"]
SIXTH_IS_FULL = ["sliding_attention"] * 5 + ["full_attention"]
MODELS = {
    "modernbert-base": (ModernBertConfig(), "mean_tokens"),
    "gte-base": (GteConfig(vocab_size=30528, type_vocab_size=0, pad_token_id=0), "cls_token"),
    "nomic-embed": (NomicBertConfig(max_position_embeddings=8192), "mean_tokens"),
    "qwen3-0.6b": (
        Qwen3Config(vocab_size=151669, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
            num_key_value_heads=8, head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0}),
        "lasttoken",
    ),
    "embeddinggemma-300m": (
        Gemma3TextConfig(vocab_size=262144, hidden_size=768, intermediate_size=1152, num_hidden_layers=24, num_attention_heads=3,
            num_key_value_heads=1, head_dim=256, sliding_window=512, use_bidirectional_attention=True, layer_types=SIXTH_IS_FULL * 4,
            max_position_embeddings=2048),
        "mean_tokens",
    ),
    "bert-base": (BertConfig(), "cls_token"),
}


def write(folder: pathlib.Path, name: str, tokenizer: pathlib.Path, dtype: torch.dtype) -> None:
    """One model with its modules."""
    config, mode = MODELS[name]
    torch.manual_seed(7)
    model = transformers.AutoModel.from_config(config).to(dtype)
    model.save_pretrained(folder)
    for file in TOKENIZER:
        if (tokenizer / file).exists():
            shutil.copy(tokenizer / file, folder / file)
    longest = min(8192, config.max_position_embeddings)
    layouts.write(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})
    layouts.modules(folder, ["Transformer", "Pooling", "Normalize"])
    layouts.pooling(folder / "1_Pooling", mode, config.hidden_size)
    layouts.settings(folder, {"query": "", "document": ""})
    print(f"{name}: {sum(value.numel() for value in model.parameters()) / 1e6:.0f} million weights")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="folder of the model whose tokenizer all have")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the models")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), help="these models alone")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="number type of the weights")
    given = parser.parse_args()
    for name in given.only:
        write(given.out / name, name, given.tokenizer, getattr(torch, given.dtype))


if __name__ == "__main__":
    main()
