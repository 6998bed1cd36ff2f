"""VSAG (pyvsag): HGraph over scalar codes, reordered by vectors of more bits.

Build. `max_degree` is 2 M, or 64 under names that end in `-r64`; `ef_construction` and `build_thread_count` as asked; graph_type nsw,
the default. The graph is built over the codes of `base_quantization_type`: sq8 (a range per dimension), sq8_uniform (one range, integer
kernels), sq4. sq4_uniform of 0.18.5 finds nothing that is near in 384 dimensions on a Zen 4 (a recall of 0.01 to 0.03 under each metric), and is left
out. `use_reorder` with `precise_quantization_type` fp16 (half the memory of fp32), or fp32 under `-f32`. The base
is handed over as one array and row numbers as ids, which `Index.build` copies, inside the clock.

Search. pyvsag has no batch call: `knn_search` once per query, inside the clock for batches too, and its parameters are a JSON text that
every call parses. It holds Python's lock, so that there are no passes on several threads (`single_threaded`). Of what is in memory nothing
is mapped.
"""

import json
import time

import numpy as np

EF = [10, 16, 22, 28, 32, 36, 40, 46, 52, 60, 72, 88, 112, 144, 192, 256]


class Hgraph:
    """One base and one precise kind of vectors."""

    sweep = "ef_search"
    defaults = EF
    single_threaded = True
    any_length = True

    def __init__(self, base, precise, degree=None):
        import importlib.metadata

        import pyvsag

        pyvsag.set_logger_off()
        self.library = pyvsag
        self.version = importlib.metadata.version("pyvsag")
        self.base, self.precise, self.degree = base, precise, degree
        self.settings = f"HGraph over {base}, reordered by {precise}, max_degree {degree or '2 M'}, knn_search per query"
        self.index = None
        self.parameters = ""
        self.k = 0

    def _index(self, dim, metric, m, ef_construction, threads):
        parameters = {
            "base_quantization_type": self.base,
            "max_degree": self.degree or 2 * m,
            "ef_construction": ef_construction,
            "build_thread_count": threads,
            "use_reorder": True,
            "precise_quantization_type": self.precise,
        }
        settings = {"dtype": "float32", "metric_type": metric, "dim": dim, "index_param": parameters}
        return self.library.Index("hgraph", json.dumps(settings))

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """One call for all rows. There is no seed."""
        del seed
        count, dim = base.shape
        index = self._index(dim, metric, m, ef_construction, threads)
        rows, ids = base.ravel(), np.arange(count, dtype=np.int64)
        started = time.perf_counter()
        index.build(rows, ids, count, dim)
        seconds = time.perf_counter() - started
        index.save(str(directory / "index.vsag"))
        return seconds

    def open(self, directory, meta):
        """Reads the file into memory, into an index of the same parameters."""
        self.index = self._index(*(meta[key] for key in ("dim", "metric", "m", "ef_construction", "threads")))
        self.index.load(str(directory / "index.vsag"))

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef_search; a width below k is not possible."""
        if threads != 1:
            raise ValueError(f"threads: expected 1, got {threads}: pyvsag has no batch call, and holds Python's lock")
        self.parameters = json.dumps({"hgraph": {"ef_search": max(int(value), self.k)}})

    def search(self, queries):
        """One call per row."""
        find, k, parameters = self.index.knn_search, self.k, self.parameters
        return [find(row, k, parameters) for row in queries]

    @staticmethod
    def ids(answer):
        """Ids come first."""
        return [ids for ids, _ in answer]
