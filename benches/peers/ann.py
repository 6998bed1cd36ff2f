#!/usr/bin/env python3
"""One engine of `dyad-bench ann`, in a process of its own.

    ann.py --engine NAME      speaks JSON lines: one request on stdin, one reply on stdout, the engine's own noise on stderr
    ann.py --list             prints every engine name with what it stands for

The harness sends `describe`, `build`, `open`, `prepare`, `filter`, `search`, `memory`, `evict` and `quit`; `worker.py` holds that loop, and
what is timed and what is not. benches/peers/ann-venv.sh makes the environment with every engine at the version of
ann-requirements.txt.

How each engine is called, and where that comes from. M is the harness's `m`, ef_construction its `ef_construction`; "batch"
is the engine's own call for all queries; queries are contiguous float32, made once by `prepare`.

| engine | index | search | sweep | source |
|---|---|---|---|---|
| exact | none: one matrix product per 256 queries | numpy | none | the oracle of the tests |
| hnswlib | `Index(space, M, ef_construction)`, `add_items(num_threads)`; compiled for this CPU by its own setup.py | `knn_query(num_threads)` | ef | ALGO_PARAMS.md, README of hnswlib |
| faiss | `IndexHNSWFlat(d, M, metric)`: 2 M links on the ground level, as in hnswlib | `search` under `omp_set_num_threads`; bounded queue, as by default | efSearch | wiki "Faiss indexes", "Threads and asynchronous calls" |
| faiss-sq8 | `IndexHNSWSQ`, QT_8bit: a range per dimension, trained on the base | same | efSearch | wiki "Faiss indexes" |
| faiss-sq8-uniform, faiss-sq8-signed | QT_8bit_uniform: one range; QT_8bit_direct_signed: the base scaled by us to -127..127 | same | efSearch | ScalarQuantizer.h |
| svs-f32, svs-f16 | Vamana over floats | `Vamana.search`, `num_threads` | search_window_size | SVS documentation |
| svs-lvq | stands for the variants that this release of SVS can build here; `describe` names them | | | |
| svs-lvq4, -lvq8, -lvq4x4, -lvq4x8, -lvq8x8, -leanvec8x8, -leanvec4x8 | Vamana built over the compressed vectors; vamana.py says more | same | search_window_size | SVS documentation |
| qdrant-edge | Qdrant's engine: HNSW M, int8 scalar quantisation of quantile 0.99 pinned in memory, one segment; edge.py says more | `query_batch`, rescored by the original vectors | hnsw_ef | Qdrant documentation, "Quantization" and "Optimize" |
| qdrant-edge-acorn | that index, a copy of it | same with `AcornSearchParams(enable=True)`, which is about filters | hnsw_ef | Qdrant documentation, "ACORN" |
| zvec | HNSW M, ef_construction, int8 codes; zvec.py says more | `query_internal_ids` per query, refined | ef | docstrings of zvec |
| usearch-i8, usearch-bf16, usearch-f32 | `Index(connectivity=M, expansion_add=ef_construction)`; for i8 the base is scaled by us to -127..127, as usearch's own cast takes the range -1..1 whole | `search(threads)` over a viewed (mapped) file | expansion_search | README of usearch |

Any svs name may end in `-r64`: graph_max_degree 64 instead of 2 M, to show what a denser graph gives. It is not M=16's
equal, so `svs-lvq` does not name it. `qdrant-edge-o1` and `-o3` oversample by 1 and 3 instead of 2.

Filters (`dyad-bench filter`): exact takes the rows that pass, faiss too, as an `IDSelectorBitmap` of `SearchParametersHNSW` (wiki
"Setting search parameters for one query"); qdrant-edge and zvec evaluate conditions. The others have none here.
"""

import lines
from ann import engines, worker

if __name__ == "__main__":
    lines.main(__doc__.splitlines()[0], engines.NAMES, worker.Worker, worker.OPERATIONS)
