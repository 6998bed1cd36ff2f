#!/usr/bin/env python3
"""Writes small random checkpoints of every family and layout with their vectors by Python: what dyad-encoder is held against.

    .venv/bin/python benches/peers/st_checkpoints.py --out DIR

(`deploy/venv.sh` makes the environment.) Some thousand weights each, drawn with fixed seeds. Every `reference*.json` in a
model's folder is `{"texts": [...], "tower": "question" or "answer", "vectors": [[...]]}`, in f32 whatever the weights are
stored in; a model of two towers has one per tower. Vectors of DPR are not of unit length: it compares by inner product.

| folder | what |
|---|---|
| `bert`, `distilbert`, `roberta`, `mpnet` | plain Hugging Face folders; mean pooling, as sentence-transformers takes them |
| `t5-relu`, `t5-gated` | T5 1.0 and 1.1 encoders, plain; `t5-gated` in shards |
| `dpr/question`, `dpr/answer` | a DPR pair, [CLS] |
| `dpr-projected/question`, `.../answer` | the same with `encode_proj` |
| `st5` | T5 1.0, mean, Dense, Normalize; classic form; weights stored as f16 |
| `gtr` | T5 1.1 in shards, with prompts, else as `st5` |
| `router-shared-dense` | two BERT towers, one Dense id in both routes, Normalize behind |
| `router-shared-all` | both routes name the same modules |
| `router-dense-behind` | two T5 towers, Dense and Normalize behind the Router |
| `router-newer` | two DistilBERT towers and one Dense, as sentence-transformers 6.2 writes it |
| `modernbert`, `gte`, `nomic-bert`, `qwen3`, `gemma3`, `gemma3-causal` | encoders with rotary positions, plain, as transformers writes them |
| `gte-own-code`, `nomic-own-code` | `config.json` as the models' own code has it; vectors by transformers from the same weights |
| `qwen3-embedding` | last token, Normalize, prompts, padding before the text |
| `embeddinggemma` | mean, two Dense, Normalize, prompts by task |
| `cross-gte` | a cross encoder of GTE |
| `cross-modernbert`, `cross-modernbert-cls` | cross encoders of ModernBERT, over the mean and over the first token |
| `cross-bert`, `-distilbert`, `-roberta`, `-mpnet` | cross encoders of one label, plain Hugging Face folders |
| `cross-newer` | one without an activation, as sentence-transformers 6.2 writes it |

A cross encoder has `scores.json` instead: `{"pairs": [[question, answer], ...], "logits": [...], "scores": [...]}`.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers.utils import logging

from checkpoints import layouts, networks, rotary
from checkpoints.vocabulary import TEXTS

SHARD_BYTES = 6_000
PROMPTS = {"query": "query: ", "document": "passage: "}
NO_PROMPTS = {"query": "", "document": ""}


def reference(folder: pathlib.Path, tower: str, vectors: torch.Tensor, name: str = "reference.json") -> None:
    """Writes vectors, and refuses those that would agree with anything."""
    unit = torch.nn.functional.normalize(vectors.double())
    alike = (unit @ unit.T).fill_diagonal_(-1.0).max().item()
    if not alike < 0.9999:
        raise ValueError(f"{folder}: two texts have a cosine of {alike}, so the vectors would prove nothing")
    rows = [[float(f"{value:.8g}") for value in row] for row in vectors.tolist()]
    layouts.write(folder / name, {"texts": TEXTS, "tower": tower, "vectors": rows})


def by_sentence_transformers(folder: pathlib.Path, towers: list[str]) -> None:
    """Vectors of a folder that sentence-transformers reads."""
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    encode = {"question": model.encode_query, "answer": model.encode_document}
    for tower in towers:
        vectors = encode[tower](TEXTS, convert_to_tensor=True)
        name = "reference.json" if tower == towers[0] else f"reference-{tower}.json"
        reference(folder, tower, vectors, name)


def by_dpr(folder: pathlib.Path, tower: str, network) -> None:
    """Vectors of a DPR encoder by transformers, each text alone, so that padding has no part in it."""
    model, tokenizer = network
    with torch.inference_mode():
        vectors = [model(**tokenizer(text, truncation=True, return_tensors="pt")).pooler_output[0] for text in TEXTS]
    reference(folder, tower, torch.stack(vectors))


def plain(out: pathlib.Path) -> None:
    """Hugging Face folders."""
    for at, family in enumerate(["bert", "distilbert", "roberta", "mpnet", "t5-relu", "t5-gated"]):
        shards = {"shard_bytes": SHARD_BYTES} if family == "t5-gated" else {}
        networks.save(out / family, networks.transformer(family, at), **shards)
        by_sentence_transformers(out / family, ["answer"])
    for name, projection in [("dpr", 0), ("dpr-projected", 10)]:
        for at, tower in enumerate(["question", "answer"]):
            network = networks.dpr(tower, projection, 20 + at)
            networks.save(out / name / tower, network)
            by_dpr(out / name / tower, tower, network)


def sentence_transformers(out: pathlib.Path) -> None:
    """Folders with modules.json."""
    layouts.one_tower(out / "st5", "t5-relu", 30, NO_PROMPTS, dtype=torch.float16)
    by_sentence_transformers(out / "st5", ["answer"])
    layouts.one_tower(out / "gtr", "t5-gated", 40, PROMPTS, shard_bytes=SHARD_BYTES)
    separate = ["0_Transformer", "1_Pooling"]
    routes = {route: [f"{route}_{part}" for part in separate] for route in ("query", "document")}
    layouts.two_towers(
        out / "router-shared-dense",
        {"query_0_Transformer": ("bert", 16), "document_0_Transformer": ("bert", 40)},
        {route: [*parts, "shared_2_Dense"] for route, parts in routes.items()},
        ["Normalize"],
        PROMPTS,
    )
    shared = ["shared_0_Transformer", "shared_1_Pooling", "shared_2_Dense"]
    layouts.two_towers(
        out / "router-shared-all",
        {"shared_0_Transformer": ("bert", 40)},
        {"query": shared, "document": shared},
        ["Normalize"],
        PROMPTS,
    )
    layouts.two_towers(
        out / "router-dense-behind",
        {"query_0_Transformer": ("t5-relu", 16), "document_0_Transformer": ("t5-gated", 40)},
        routes,
        ["Dense", "Normalize"],
        NO_PROMPTS,
    )
    with tempfile.TemporaryDirectory() as scratch:
        towers = [pathlib.Path(scratch) / name for name in ("question", "answer")]
        for at, folder in enumerate(towers):
            networks.save(folder, networks.transformer("distilbert", 50 + at))
        layouts.two_towers_newer(out / "router-newer", towers, PROMPTS)
    for name in ["gtr", "router-shared-dense", "router-shared-all", "router-dense-behind", "router-newer"]:
        by_sentence_transformers(out / name, ["question", "answer"])


def by_cross_encoder(folder: pathlib.Path) -> None:
    """Logits and scores of pairs: short and long, one text cut, the other, and both."""
    pairs = [(one, other) for one in TEXTS for other in (TEXTS[0], TEXTS[-2], TEXTS[-1])]
    model = CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    logits = model.predict(pairs, activation_fn=torch.nn.Identity(), convert_to_tensor=True).double()
    if not logits.std() > 0.1:
        raise ValueError(f"{folder}: the logits are alike, so they would prove nothing: {logits.tolist()}")
    scores = model.predict(pairs, convert_to_tensor=True).double()
    rows = {"logits": logits.tolist(), "scores": scores.tolist()}
    rows = {name: [float(f"{value:.8g}") for value in values] for name, values in rows.items()}
    layouts.write(folder / "scores.json", {"pairs": pairs, **rows})


def cross_encoders(out: pathlib.Path) -> None:
    """Folders of cross encoders, in both forms."""
    for at, family in enumerate(["bert", "distilbert", "roberta", "mpnet"]):
        networks.save(out / f"cross-{family}", networks.cross_encoder(family, 60 + at))
        by_cross_encoder(out / f"cross-{family}")
    model = CrossEncoder(str(out / "cross-bert"), device="cpu", activation_fn=torch.nn.Identity())
    model.save_pretrained(str(out / "cross-newer"))
    by_cross_encoder(out / "cross-newer")


def rotary_positions(out: pathlib.Path) -> None:
    """Encoders with rotary positions: plain folders, and two with modules as they are published."""
    families = ["modernbert", "gte", "gte-own-code", "nomic-bert", "nomic-own-code", "qwen3", "gemma3", "gemma3-causal"]
    for at, family in enumerate(families):
        folder = out / family
        networks.save(folder, rotary.network(family, 70 + at))
        by_sentence_transformers(folder, ["answer"])
        if family.endswith("own-code"):
            rotary.as_own_code(folder, family)
    instruction = "Find: it\nQuery:"
    layouts.published(
        out / "qwen3-embedding", rotary.network("qwen3", 80), "lasttoken", [], {"query": instruction, "document": ""}
    )
    prompts = {"query": "task: search result | query: ", "document": "title: none | text: ", "STS": "task: sentence similarity | query: "}
    layouts.published(out / "embeddinggemma", rotary.network("gemma3", 81), "mean_tokens", [96, 48], prompts)
    for name in ["qwen3-embedding", "embeddinggemma"]:
        by_sentence_transformers(out / name, ["question", "answer"])
    for at, family in enumerate(["gte", "modernbert", "modernbert-cls"]):
        networks.save(out / f"cross-{family}", rotary.cross_encoder(family, 82 + at))
        by_cross_encoder(out / f"cross-{family}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the checkpoints, written anew")
    out = parser.parse_args().out
    if out.exists() and not (out / "made-by.json").exists() and any(out.iterdir()):
        parser.error(f"--out {out}: expected a new folder, or one that this script wrote")
    shutil.rmtree(out, ignore_errors=True)
    layouts.write(out / "made-by.json", {"script": pathlib.Path(__file__).name})
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    plain(out)
    sentence_transformers(out)
    cross_encoders(out)
    rotary_positions(out)
    folders = sorted(path.parent.relative_to(out) for path in out.rglob("reference.json"))
    print(json.dumps({"models": [str(folder) for folder in folders]}))


if __name__ == "__main__":
    main()
