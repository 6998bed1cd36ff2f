#!/usr/bin/env python3
"""Opens models of ours with sentence-transformers and holds them to their own golden vectors.

    .venv/bin/python benches/peers/st_load.py DIR...

(`deploy/venv.sh` makes the environment.) Reads `golden` of DIR/dyad.json, a list of `{"tower": "question" or "answer",
"text": ..., "vector": [...]}`, embeds every text by `encode_query` or `encode_document` in f32, prints the smallest cosine as
a line of JSON per model, and exits with 1 where one is below --least. The entries of a cross encoder are `pair`s, a question and a
text with a tab between them, whose vector is a logit: `CrossEncoder.predict` has to give it within 1e-4.
"""

import argparse
import json
import math
import pathlib
import sys

ENCODE = {"question": "encode_query", "answer": "encode_document"}
PAIR = "pair"
# How far a logit may be off.
MOST_OFF = 1e-4


def golden(path: pathlib.Path) -> list[dict]:
    """The golden vectors of a dyad.json, checked."""
    entries = json.loads(path.read_text(encoding="utf-8")).get("golden")
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{path}: `golden`: expected a list of texts with vectors, got {json.dumps(entries)}")
    for at, entry in enumerate(entries):
        if entry.get("tower") not in (*ENCODE, PAIR):
            raise ValueError(f"{path}: `golden[{at}].tower`: expected question, answer or pair, got {entry.get('tower')!r}")
        if not isinstance(entry.get("text"), str) or not isinstance(entry.get("vector"), list):
            raise ValueError(f"{path}: `golden[{at}]`: expected `text` and `vector`, got {', '.join(entry)}")
    return entries


def cosine(left: list[float], right: list[float]) -> float:
    """Of two vectors of one length; not a number where one has none."""
    if len(left) != len(right):
        raise ValueError(f"expected vectors of one length, got {len(left)} by us and {len(right)} by sentence-transformers")
    lengths = math.sqrt(sum(value * value for value in left)) * math.sqrt(sum(value * value for value in right))
    return sum(a * b for a, b in zip(left, right)) / lengths if lengths > 0 else math.nan


def compare(folder: pathlib.Path) -> dict:
    """The smallest cosine per tower, and of all."""
    entries = golden(folder / "dyad.json")
    if entries[0]["tower"] == PAIR:
        return compare_logits(folder, entries)

    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    towers = {}
    for tower, method in ENCODE.items():
        ours = [entry for entry in entries if entry["tower"] == tower]
        if ours:
            theirs = getattr(model, method)([entry["text"] for entry in ours]).tolist()
            cosines = [cosine(entry["vector"], row) for entry, row in zip(ours, theirs)]
            # A cosine that is not a number is the worst.
            towers[tower] = min(-1.0 if math.isnan(value) else value for value in cosines)
    return {"vectors": len(entries), "towers": towers, "smallest_cosine": min(towers.values())}


def compare_logits(folder: pathlib.Path, entries: list[dict]) -> dict:
    """The largest difference of a cross encoder's logits."""
    import torch
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(folder), device="cpu", model_kwargs={"dtype": torch.float32})
    pairs = [tuple(entry["text"].split("\t")) for entry in entries]
    theirs = model.predict(pairs, activation_fn=torch.nn.Identity()).tolist()
    differences = [abs(entry["vector"][0] - value) for entry, value in zip(entries, theirs)]
    worst = max(math.inf if math.isnan(value) else value for value in differences)
    return {"logits": len(entries), "largest_difference": worst, "smallest_cosine": 1.0 if worst <= MOST_OFF else -1.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dirs", type=pathlib.Path, metavar="DIR", nargs="+")
    parser.add_argument("--least", type=float, default=0.99999, help="smallest cosine that passes (0.99999)")
    arguments = parser.parse_args()
    failed = False
    for folder in arguments.dirs:
        try:
            result = {"model": str(folder)} | compare(folder)
        except (OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
            continue
        print(json.dumps(result), flush=True)
        failed |= result["smallest_cosine"] < arguments.least
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
