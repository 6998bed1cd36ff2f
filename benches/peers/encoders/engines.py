"""The engines by name. A module of engines is imported only when one of its names is asked for."""

import importlib

# name -> module, class, arguments
_TABLE = {
    "sentence-transformers": ("transformer", "SentenceTransformers", ("f32", False)),
    "sentence-transformers-bf16": ("transformer", "SentenceTransformers", ("bf16", False)),
    "sentence-transformers-compiled": ("transformer", "SentenceTransformers", (None, True)),
    "onnxruntime": ("onnx", "OnnxRuntime", ()),
    "matmul": ("matmul", "Matmul", ()),
}
NAMES = list(_TABLE)


def create(name):
    """The engine of that name; raises what its import or its constructor raises."""
    module, kind, arguments = _TABLE[name]
    return getattr(importlib.import_module(f"encoders.{module}"), kind)(*arguments)
