"""The worker's side of the JSON lines, and what is timed.

An engine is an object with

    version, dtype, settings                 what `describe` answers; dtype names the number type of its products
    open(model, device, threads, cache)      from files to ready to embed; `open_ms` is its wall time
    tune(texts) -> str                       tries its settings on texts and keeps the best; says which
    encode(texts) -> float32 array [n, d]    one call for all texts, tokenizing in it; this is what is timed
    tokens(texts) -> (real, computed)        tokens without and with the padding that `encode` would give them; not timed
    release()                                frees what is cached on a device, where there is one

`matmul` has only version, dtype, settings and multiply(dtype, device, threads) -> GFLOP/s.
"""

import json
import pathlib
import time

import lines
from encoders import engines

OPERATIONS = ("describe", "open", "prepare", "tune", "encode", "memory", "matmul")


class Worker:
    """State between requests."""

    def __init__(self, name):
        self.name = name
        self.engine = engines.create(name)
        self.texts = None
        self.counted = None

    def describe(self, _request):
        """Who this is."""
        engine = self.engine
        return {"engine": self.name, "version": engine.version, "dtype": engine.dtype, "settings": engine.settings}

    def open(self, request):
        """From files to ready to embed."""
        started = time.perf_counter()
        cache = pathlib.Path(request["cache"])
        self.engine.open(request["model"], request["device"], int(request["threads"]), cache)
        return {"open_ms": (time.perf_counter() - started) * 1e3}

    def prepare(self, request):
        """Loads the texts once."""
        rows = pathlib.Path(request["texts"]).read_text(encoding="utf-8").split("\n")
        self.texts = [json.loads(row) for row in rows if row]
        self.counted = None
        return {"texts": len(self.texts)}

    def tune(self, _request):
        """The engine's own settings; what `encode` pads follows from them."""
        self.counted = None
        return {"settings": self.engine.tune(self.texts)}

    def encode(self, request):
        """All texts in one call."""
        if self.texts is None:
            raise ValueError("encode: expected a prepare before it")
        started = time.perf_counter()
        vectors = self.engine.encode(self.texts)
        seconds = time.perf_counter() - started
        if request.get("out"):
            import numpy as np

            np.save(request["out"], np.ascontiguousarray(vectors, dtype=np.float32))
        if self.counted is None:
            self.counted = self.engine.tokens(self.texts)
        tokens, computed = self.counted
        return {"seconds": seconds, "tokens": tokens, "computed_tokens": computed}

    def memory(self, request):
        """Resident memory and its peak, after what is cached on a device was freed."""
        release = getattr(self.engine, "release", None)
        if request["settle"] and release is not None:
            release()
        return lines.memory(request["settle"])

    def matmul(self, request):
        """The machine's limit."""
        multiply = getattr(self.engine, "multiply", None)
        if multiply is None:
            raise ValueError(f"{self.name} multiplies no matrices of its own")
        return {"gflops": multiply(request["dtype"], request["device"], int(request["threads"]))}
