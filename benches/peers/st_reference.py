#!/usr/bin/env python3
"""Vectors by Python sentence-transformers: the reference that dyad-encoder is held against.

`deploy/venv.sh` makes the environment. From the root of the repository:

    .venv/bin/python benches/peers/st_reference.py --model MODEL --data "$DYAD_DATA" --out /tmp/st-reference
    DYAD_MODEL=MODEL DYAD_ST_REFERENCE=/tmp/st-reference cargo nextest run -p dyad-encoder parity

writes `vectors.npy` (f32, [1000, dim]) and `keys.jsonl` (one JSON string per line: SET/KIND/KEY) by a fixed selection: 500
documents of scifact, 250 candidates and 250 questions of reqa-squad, evenly spaced in file order; then compares.

    .venv/bin/python benches/peers/st_reference.py --what golden --model MODEL --out encoder/tests/golden

writes the committed vectors of a few short, long and odd texts,

    .venv/bin/python benches/peers/st_reference.py --what prompts --model MODEL --out encoder/tests/golden

those of a few texts with several prompts, in every precision, and

    .venv/bin/python benches/peers/st_reference.py --what speed --model MODEL --data BEIR_FOLDER

times sentence-transformers on a corpus, without loading.
"""

import argparse
import gzip
import json
import pathlib
import time

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util.quantization import quantize_embeddings

GOLDEN_TEXTS = [
    "a",
    "?",
    "Who won Super Bowl 50?",
    "who won super bowl 50?",
    "The Denver Broncos defeated the Carolina Panthers 24-10.",
    "hello   world\twith\nodd \u00a0 whitespace  ",
    "[MASK] and [SEP] are special tokens inside of a text",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u0130stanbul \u00dcber stra\u00dfe",
    "nai\u0308ve cafe\u0301 with combining marks",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u8fd9\u662f\u4e00\u4e2a\u6d4b\u8bd5",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3068 English mixed",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "emoji \U0001f600\U0001f680 and zero\u200bwidth\u200djoiners",
    "control\u0001characters\u0007 and \ufffd replacement",
    "E = mc^2; \u2211_{i=1}^{n} i = n(n+1)/2 \u2260 \u221e",
    "http://example.org/a/very/long/path?with=query&and=more#fragment",
    "supercalifragilisticexpialidocious" * 4,
    "1234567890 3.14159 1,000,000 0x1F 2026-11-21",
    "Marie Curie discovered polonium and radium in 1898 together with her husband Pierre Curie. " * 3,
    "Photosynthesis turns carbon dioxide and water into sugar and oxygen with the energy of light. " * 12,
    "one two three four five six seven eight nine ten " * 40,
    "the end of a long text is cut, whatever it says. " * 400,
]


def open_text(path: pathlib.Path):
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")


def rows(data: pathlib.Path, name: str, kind: str) -> list[tuple[str, str]]:
    """All (key, text) of DATA/NAME/KIND.jsonl[.gz]; documents as BEIR joins them."""
    plain = data / name / f"{kind}.jsonl"
    with open_text(plain if plain.exists() else plain.with_suffix(".jsonl.gz")) as lines:
        read = [json.loads(line) for line in lines]
    return [(row["_id"], f"{row.get('title', '')} {row['text']}".strip()) for row in read]


def evenly(items: list, count: int) -> list:
    return [items[i * len(items) // count] for i in range(count)]


def real(arguments: argparse.Namespace) -> None:
    model = SentenceTransformer(str(arguments.model), device="cpu")
    keys, vectors = [], []
    for name, kind, count in [("scifact", "corpus", 500), ("reqa-squad", "corpus", 250), ("reqa-squad", "queries", 250)]:
        chosen = evenly(rows(arguments.data, name, kind), count)
        keys += [f"{name}/{kind}/{key}" for key, _ in chosen]
        encode = model.encode_query if kind == "queries" else model.encode_document
        vectors.append(encode([text for _, text in chosen], normalize_embeddings=True))
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.save(arguments.out / "vectors.npy", np.concatenate(vectors).astype("<f4"))
    (arguments.out / "keys.jsonl").write_text("".join(json.dumps(key) + "\n" for key in keys), encoding="utf-8")


def write_json(path: pathlib.Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def golden(arguments: argparse.Namespace) -> None:
    """Texts as JSON lines, vectors as .npy beside them."""
    model = SentenceTransformer(str(arguments.model), device="cpu")
    vectors = model.encode_document(GOLDEN_TEXTS, normalize_embeddings=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / arguments.model.resolve().name
    np.save(stem.with_suffix(".npy"), vectors.astype("<f4"))
    stem.with_suffix(".jsonl").write_text("".join(json.dumps(text) + "\n" for text in GOLDEN_TEXTS), encoding="utf-8")


def prompts(arguments: argparse.Namespace) -> None:
    """Texts with prompts of requests, whole and cut, in every precision: a JSON file of one object."""
    named = {"query": "query: ", "document": "passage: ", "clustering": "the king "}
    weights = {"dtype": torch.float32}
    model = SentenceTransformer(str(arguments.model), device="cpu", prompts=named, model_kwargs=weights)
    texts = ["who was the queen in the city", "a mountain of light", "Marie Curie discovered polonium and radium."]
    asked = [
        {"prompt_name": "query"},
        {"prompt_name": "clustering", "dimensions": 20},
        {"prompt": "Instruct: find the river\nQuery: "},
        {"prompt": "", "dimensions": 36},
    ]
    cases = []
    for case in asked:
        options = {key: value for key, value in case.items() if key != "dimensions"}
        options |= {"truncate_dim": case.get("dimensions"), "normalize_embeddings": True}
        vectors = model.encode(texts, **options)
        # The range of each vector, and not those of all texts: see encoder/src/serve/precision.rs.
        def bytes_of(row: np.ndarray, precision: str) -> list[int]:
            most = np.full_like(row, np.abs(row).max())
            return quantize_embeddings(row[None], precision, ranges=np.stack((-most, most)))[0].tolist()

        case |= {name: model.encode(texts, precision=name, **options).tolist() for name in ("binary", "ubinary")}
        case |= {name: [bytes_of(row, name) for row in vectors] for name in ("int8", "uint8")}
        cases.append(case | {"float32": [[round(value, 8) for value in row] for row in vectors.tolist()]})
    path = arguments.out / f"{arguments.model.resolve().name}-prompts.json"
    value = {"prompts": named, "texts": texts, "cases": cases}
    path.write_text(json.dumps(value, separators=(",", ":")).replace(',"', ',\n"') + "\n", encoding="utf-8")


def speed(arguments: argparse.Namespace) -> None:
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    folder = arguments.data.resolve()
    texts = [text for _, text in rows(folder.parent, folder.name, "corpus")][: arguments.limit]
    model = SentenceTransformer(str(arguments.model), device="cpu")
    model.encode_document(texts[:64])
    start, start_cpu = time.perf_counter(), time.process_time()
    model.encode_document(texts, batch_size=arguments.batch_size, normalize_embeddings=True)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    speed = f"{len(texts) / seconds:.1f} texts/s with {torch.get_num_threads()} threads"
    print(f"{len(texts)} texts in {seconds:.2f} s ({cpu:.2f} s of processor time): {speed}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=["real", "golden", "prompts", "speed"], default="real")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, help="$DYAD_DATA for real, a BEIR folder for speed")
    parser.add_argument("--out", type=pathlib.Path, help="folder to write into, but for speed")
    parser.add_argument("--threads", type=int, help="for speed")
    parser.add_argument("--batch-size", type=int, default=32, help="for speed")
    parser.add_argument("--limit", type=int, help="texts at most, for speed")
    arguments = parser.parse_args()
    for option, needed in [("data", arguments.what in ("real", "speed")), ("out", arguments.what != "speed")]:
        if needed and getattr(arguments, option) is None:
            parser.error(f"--what {arguments.what} needs --{option}")
    {"real": real, "golden": golden, "prompts": prompts, "speed": speed}[arguments.what](arguments)


if __name__ == "__main__":
    main()
