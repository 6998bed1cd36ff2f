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
| diskann, diskann-r64 | Vamana of degree 2 M or 64 on the disk, product codes in memory; diskann.py says more | `batch_search(num_threads)`, `search` of one | complexity | diskannpy documentation, DiskANN's workflows for disk indexes |
| rabitq | stands for: | | | |
| rabitq-qg, -qg8; `-e400` | SymphonyQG of 32 links over float32 or 8-bit vectors, ef_construction as asked or 400; rabitq.py says more | `search_batch(num_threads)` | ef | rabitqlib documentation, "SymphonyQG" |
| rabitq-hnsw8, -hnsw9 | HNSW M over RaBitQ codes of 8 or 9 bits, 16 clusters | `search(num_threads)` | ef | rabitqlib documentation, "HNSW RaBitQ" |
| vsag | stands for: | | | |
| vsag-sq8, -sq8u, -sq4; `-f32` | HGraph of 2 M links over scalar codes, reordered by fp16, or fp32; vsag.py says more | `knn_search` per query; one thread | ef_search | VSAG documentation, "HGraph" |
| glass | stands for: | | | |
| glass-f16, -sq8u, -sq8u-f16, -sq8-f16 | pyglass: HNSW of 2 M links, codes, codes that refine them; glass.py says more | `batch_search(num_threads)`, `search` of one | ef | README of pyglass |
| faiss-refine | stands for: | | | |
| faiss-refine-hnsw-sq8, -hnsw-sq4, -ivf-pqfs, -ivf-rabitq | `IndexRefine` of a coarse index by SQfp16; refine.py says more | `search` under `omp_set_num_threads` | efSearch, nprobe | wiki "The index factory" |
| qdrant-edge-binary | stands for: | | | |
| qdrant-edge-b1-o16, -b1q8-o8, -b2-o4, -b2q8-o3, -o4, -o8 | binary codes of 1 or 2 bits, queries in the same or 8 bits, oversampling 3 to 16; edge.py says more | as qdrant-edge | hnsw_ef | Qdrant documentation, "Binary quantization" |
| svs-r64 | stands for the variants of `svs-lvq` with `-r64` | | | |
| usearch-i8, usearch-bf16, usearch-f32 | `Index(connectivity=M, expansion_add=ef_construction)`; for i8 the base is scaled by us to -127..127, as usearch's own cast takes the range -1..1 whole | `search(threads)` over a viewed (mapped) file | expansion_search | README of usearch |

Names may end in `-r64`: a degree of 64 on the ground level instead of 2 M, where a denser graph is the better one at high recall
(any svs name; rabitq-qg, -qg8, -hnsw8, vsag-sq8u, glass-sq8u-f16, faiss-refine-hnsw-sq8, diskann).

A name that stands for several is a family over a small grid of the engine's own parameters, of which the best counts at each recall.
Each member is first tried in a process of its own (family.py): one that cannot run here is reported as skipped, with the reason. `qdrant-edge-o1` and `-o3` oversample by 1 and 3 instead of 2.

Filters (`dyad-bench filter`): exact takes the rows that pass, faiss too, as an `IDSelectorBitmap` of `SearchParametersHNSW` (wiki
"Setting search parameters for one query"); qdrant-edge and zvec evaluate conditions. The others have none here.
"""

import lines
from ann import engines, worker

if __name__ == "__main__":
    lines.main(__doc__.splitlines()[0], engines.NAMES, worker.Worker, worker.OPERATIONS)
