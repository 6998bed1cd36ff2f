#!/usr/bin/env python3
"""One peer of `dyad-bench load`: text in, hits out, in a process of its own.

    load.py --engine NAME      speaks JSON lines: one request on stdin, one reply on stdout, the engine's own noise on stderr
    load.py --list             prints every engine name

The harness sends `describe`, `open`, `ask`, `memory` and `quit`; `serving/worker.py` holds that loop. All of them embed with
sentence-transformers (f32, `encode_document` for the corpus, `encode_query` for one question at a time) and search in the same
process, without any protocol in between; the search engines are those of `ann.py`, by M 16 and ef_construction 200.
benches/peers/encode-venv.sh makes the environment.

| engine | search |
|---|---|
| st-qdrant-edge | Qdrant's engine, int8 with rescoring, hnsw_ef 128 |
| st-hnswlib, st-faiss | HNSW over float32, ef 128 (where .venv-encode has the package: only qdrant-edge is installed) |
| st-exact | one matrix product by numpy |
"""

import lines
from serving import worker

if __name__ == "__main__":
    lines.main(__doc__.splitlines()[0], worker.NAMES, worker.Worker, worker.OPERATIONS)
