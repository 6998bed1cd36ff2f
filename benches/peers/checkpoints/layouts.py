"""Folders around transformers: sentence-transformers in its classic form, with one tower and with two, and as 6.2 writes it."""

import json
import pathlib

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Router, Transformer

from checkpoints.networks import HIDDEN, MAX_TOKENS, save, transformer

CLASSIC = "sentence_transformers.models."
OUT = 10


def write(path: pathlib.Path, value) -> None:
    """JSON as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def pooling(folder: pathlib.Path, mode: str = "mean_tokens", size: int = HIDDEN) -> None:
    """A Pooling module."""
    modes = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]
    flags = {f"pooling_mode_{name}": name == mode for name in modes}
    write(folder / "config.json", {"word_embedding_dimension": size, **flags, "include_prompt": True})


def dense(folder: pathlib.Path, seed: int, sizes: tuple[int, int] = (HIDDEN, OUT)) -> None:
    """A Dense module without bias or activation, as GTR and Sentence-T5 have it."""
    identity = "torch.nn.modules.linear.Identity"
    size, out = sizes
    write(folder / "config.json", {"in_features": size, "out_features": out, "bias": False, "activation_function": identity})
    weight = torch.randn(out, size, generator=torch.Generator().manual_seed(seed)) * 0.4
    save_file({"linear.weight": weight}, folder / "model.safetensors", {"format": "pt"})


def settings(root: pathlib.Path, prompts: dict) -> None:
    """config_sentence_transformers.json of a version that still wrote the classic form."""
    versions = {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"}
    more = {"prompts": prompts, "default_prompt_name": None, "similarity_fn_name": "cosine"}
    write(root / "config_sentence_transformers.json", {"__version__": versions, **more})


def modules(root: pathlib.Path, kinds: list[str]) -> None:
    """modules.json; the first module lies in the root."""
    write(
        root / "modules.json",
        [
            {"idx": at, "name": str(at), "path": f"{at}_{kind}" if at else "", "type": CLASSIC + kind}
            for at, kind in enumerate(kinds)
        ],
    )


def one_tower(root: pathlib.Path, family: str, seed: int, prompts: dict, **how) -> None:
    """Transformer, mean, Dense, Normalize: GTR and Sentence-T5."""
    save(root, transformer(family, seed), **how)
    write(root / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS - 8, "do_lower_case": False})
    modules(root, ["Transformer", "Pooling", "Dense", "Normalize"])
    pooling(root / "1_Pooling")
    dense(root / "2_Dense", seed + 1)
    settings(root, prompts)


def published(root: pathlib.Path, network, mode: str, sizes: list[int], prompts: dict) -> None:
    """Transformer, a pooling, Dense of these sizes, Normalize: Qwen3-Embedding and EmbeddingGemma."""
    save(root, network)
    write(root / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS - 8, "do_lower_case": False})
    modules(root, ["Transformer", "Pooling", *["Dense"] * len(sizes), "Normalize"])
    hidden = network[0].config.hidden_size
    pooling(root / "1_Pooling", mode, hidden)
    for at, (size, out) in enumerate(zip([hidden, *sizes], sizes)):
        dense(root / f"{at + 2}_Dense", 400 + at, (size, out))
    settings(root, prompts)


def two_towers(root: pathlib.Path, families: dict, structure: dict, behind: list[str], prompts: dict) -> None:
    """A `Router` by hand, as only hand-written ones share modules in every version: one id in both routes is one module.

    `families` gives a family and a length to each Transformer by id; `structure` gives the ids of each route.
    """
    ids = sorted({name for route in structure.values() for name in route})
    for at, name in enumerate(ids):
        folder, kind = root / name, name.rpartition("_")[2]
        if kind == "Transformer":
            family, max_tokens = families[name]
            save(folder, transformer(family, 100 + at))
            write(folder / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
        elif kind == "Pooling":
            pooling(folder)
        elif kind == "Dense":
            dense(folder, 200 + at)
        else:
            raise ValueError(f"{name}: expected a Transformer, Pooling or Dense")
    types = {name: CLASSIC + name.rpartition("_")[2] for name in ids}
    parameters = {"default_route": "document", "allow_empty_key": True}
    write(root / "router_config.json", {"types": types, "structure": structure, "parameters": parameters})
    modules(root, ["Router", *behind])
    for at, kind in enumerate(behind, 1):
        if kind == "Dense":
            dense(root / f"{at}_Dense", 300 + at)
    settings(root, prompts)


def two_towers_newer(root: pathlib.Path, plain: list[pathlib.Path], prompts: dict) -> None:
    """A `Router` as sentence-transformers 6.2 itself writes it, with one Dense object in both routes."""
    generator = torch.Generator().manual_seed(9)
    weight = torch.randn(OUT, HIDDEN, generator=generator) * 0.4
    shared = Dense(HIDDEN, OUT, bias=False, activation_function=None, init_weight=weight)
    question, answer = ([Transformer(str(folder)), Pooling(HIDDEN, pooling_mode="mean"), shared] for folder in plain)
    question[0].max_seq_length, answer[0].max_seq_length = 16, 40
    router = Router.for_query_document(query_modules=question, document_modules=answer)
    model = SentenceTransformer(modules=[router, Normalize()], device="cpu", prompts=prompts)
    model.save(str(root), create_model_card=False)
