"""The engines by name. A module of engines is imported only when one of its names is asked for."""

import importlib

_SVS = ["f32", "f16", "lvq4", "lvq8", "lvq4x4", "lvq4x8", "lvq8x8", "leanvec8x8", "leanvec4x8"]

# name -> module, class, arguments
_TABLE = {
    "exact": ("flat", "Exact", ()),
    "hnswlib": ("hnsw", "Hnswlib", ()),
    "hnswlib-replace": ("hnsw", "HnswlibReplace", ()),
    "faiss": ("hnsw", "Faiss", (None,)),
    "faiss-sq8": ("hnsw", "Faiss", ("QT_8bit",)),
    "faiss-sq8-uniform": ("hnsw", "Faiss", ("QT_8bit_uniform",)),
    "faiss-sq8-signed": ("hnsw", "Faiss", ("QT_8bit_direct_signed",)),
    "usearch-i8": ("hnsw", "Usearch", ("i8",)),
    "usearch-bf16": ("hnsw", "Usearch", ("bf16",)),
    "usearch-f32": ("hnsw", "Usearch", ("f32",)),
    "zvec": ("zvec", "Zvec", ()),
    "svs-lvq": ("vamana", "Family", ()),
    **{f"svs-{kind}": ("vamana", "Svs", (kind, None)) for kind in _SVS},
    **{f"svs-{kind}-r64": ("vamana", "Svs", (kind, 64)) for kind in _SVS},
    "qdrant-edge": ("edge", "QdrantEdge", (2.0,)),
    "qdrant-edge-acorn": ("edge", "QdrantEdge", (2.0, True)),
    "qdrant-edge-o1": ("edge", "QdrantEdge", (1.0,)),
    "qdrant-edge-o3": ("edge", "QdrantEdge", (3.0,)),
}
NAMES = list(_TABLE)


def create(name):
    """The engine of that name; raises what its import or its constructor raises."""
    module, kind, arguments = _TABLE[name]
    return getattr(importlib.import_module(f"ann.{module}"), kind)(*arguments)
