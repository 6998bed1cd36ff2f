#!/usr/bin/env python3
"""Vectors of texts by sentence-transformers, as a `.npy` file that datasets.py takes:

    deploy/venv.sh && deploy/model.sh all-MiniLM-L6-v2 .models/all-MiniLM-L6-v2
    .venv/bin/python benches/adapters/embed.py --model .models/all-MiniLM-L6-v2 \\
      --texts "$DYAD_DATA/nq-oracle/queries.jsonl.gz" --out questions.npy

Questions that people ask are other texts than the sentences of `minilm-vectors`, so that their vectors lie elsewhere: as queries of those
sentences they are a set out of distribution. Rows are float32 of length 1, in the order of the file.
"""

import argparse
import gzip
import json
import pathlib

import numpy


def texts(path):
    """Title and text of each line of a JSONL file, which may be gzipped."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return [" ".join(filter(None, (record.get("title"), record["text"]))) for record in records]


def main():
    from sentence_transformers import SentenceTransformer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a sentence-transformers directory")
    parser.add_argument(
        "--texts",
        required=True,
        type=pathlib.Path,
        help="JSON lines with `text`, and `title` where there is one; .gz too",
    )
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    model = SentenceTransformer(arguments.model, device="cpu")
    vectors = model.encode(texts(arguments.texts), normalize_embeddings=True, batch_size=64)
    numpy.save(arguments.out, vectors.astype(numpy.float32))
    print(f"{arguments.out}: {vectors.shape[0]} x {vectors.shape[1]}")


if __name__ == "__main__":
    main()
