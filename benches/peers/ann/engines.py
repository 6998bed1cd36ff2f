"""The engines by name. A module of engines is imported only when one of its names is asked for."""

import importlib

_SVS = ["f32", "f16", "lvq4", "lvq8", "lvq4x4", "lvq4x8", "lvq8x8", "leanvec8x8", "leanvec4x8"]

# Families, each a grid of an engine's own parameters: name -> module, class, arguments
_RABITQ = {
    "rabitq-qg": ("rabitq", "SymphonyQg", (0,)),
    "rabitq-qg-e400": ("rabitq", "SymphonyQg", (0, None, 400)),
    "rabitq-qg-r64": ("rabitq", "SymphonyQg", (0, 64)),
    "rabitq-qg8": ("rabitq", "SymphonyQg", (8,)),
    "rabitq-qg8-e400": ("rabitq", "SymphonyQg", (8, None, 400)),
    "rabitq-qg8-r64": ("rabitq", "SymphonyQg", (8, 64)),
    "rabitq-hnsw8": ("rabitq", "HnswRabitq", (8,)),
    "rabitq-hnsw9": ("rabitq", "HnswRabitq", (9,)),
    "rabitq-hnsw8-r64": ("rabitq", "HnswRabitq", (8, 32)),
}
_VSAG = {
    "vsag-sq8": ("vsag", "Hgraph", ("sq8", "fp16")),
    "vsag-sq8u": ("vsag", "Hgraph", ("sq8_uniform", "fp16")),
    "vsag-sq8u-f32": ("vsag", "Hgraph", ("sq8_uniform", "fp32")),
    "vsag-sq8u-r64": ("vsag", "Hgraph", ("sq8_uniform", "fp16", 64)),
    "vsag-sq4": ("vsag", "Hgraph", ("sq4", "fp16")),
}
_GLASS = {
    "glass-f16": ("glass", "Glass", ("FP16",)),
    "glass-sq8u": ("glass", "Glass", ("SQ8U",)),
    "glass-sq8u-f16": ("glass", "Glass", ("SQ8U", "FP16")),
    "glass-sq8-f16": ("glass", "Glass", ("SQ8", "FP16")),
    "glass-sq8u-f16-r64": ("glass", "Glass", ("SQ8U", "FP16", 64)),
}
_REFINE = {
    "faiss-refine-hnsw-sq8": ("refine", "FaissRefine", ("hnsw-sq8",)),
    "faiss-refine-hnsw-sq8-r64": ("refine", "FaissRefine", ("hnsw-sq8", 32)),
    "faiss-refine-hnsw-sq4": ("refine", "FaissRefine", ("hnsw-sq4",)),
    "faiss-refine-ivf-pqfs": ("refine", "FaissRefine", ("ivf-pqfs",)),
    "faiss-refine-ivf-rabitq": ("refine", "FaissRefine", ("ivf-rabitq",)),
}
_BINARY = {
    "qdrant-edge-b1-o16": ("edge", "QdrantEdge", (16.0, False, "OneBit")),
    "qdrant-edge-b1q8-o8": ("edge", "QdrantEdge", (8.0, False, "OneBit", "Scalar8Bits")),
    "qdrant-edge-b2-o4": ("edge", "QdrantEdge", (4.0, False, "TwoBits")),
    "qdrant-edge-b2q8-o3": ("edge", "QdrantEdge", (3.0, False, "TwoBits", "Scalar8Bits")),
    "qdrant-edge-b2q8-o4": ("edge", "QdrantEdge", (4.0, False, "TwoBits", "Scalar8Bits")),
    "qdrant-edge-b2q8-o8": ("edge", "QdrantEdge", (8.0, False, "TwoBits", "Scalar8Bits")),
}

# All of them, likewise.
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
    "diskann": ("diskann", "DiskAnn", ()),
    "diskann-r64": ("diskann", "DiskAnn", (64,)),
    "svs-lvq": ("vamana", "Family", ()),
    **{f"svs-{kind}": ("vamana", "Svs", (kind, None)) for kind in _SVS},
    **{f"svs-{kind}-r64": ("vamana", "Svs", (kind, 64)) for kind in _SVS},
    "qdrant-edge": ("edge", "QdrantEdge", (2.0,)),
    "qdrant-edge-acorn": ("edge", "QdrantEdge", (2.0, True)),
    "qdrant-edge-o1": ("edge", "QdrantEdge", (1.0,)),
    "qdrant-edge-o3": ("edge", "QdrantEdge", (3.0,)),
    "svs-r64": ("vamana", "Family", ("-r64",)),
    **{
        family: ("family", "Family", (package, list(members)))
        for family, package, members in (
            ("rabitq", "rabitqlib", _RABITQ),
            ("vsag", "pyvsag", _VSAG),
            ("glass", "pyglass-portable", _GLASS),
            ("faiss-refine", "faiss-cpu", _REFINE),
            ("qdrant-edge-binary", "qdrant-edge-py", _BINARY),
        )
    },
    **_RABITQ,
    **_VSAG,
    **_GLASS,
    **_REFINE,
    **_BINARY,
}
NAMES = list(_TABLE)


def create(name):
    """The engine of that name; raises what its import or its constructor raises."""
    module, kind, arguments = _TABLE[name]
    return getattr(importlib.import_module(f"ann.{module}"), kind)(*arguments)
