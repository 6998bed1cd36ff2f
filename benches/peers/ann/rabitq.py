"""RaBitQ-Library (rabitqlib): SymphonyQG, and HNSW over RaBitQ codes.

SymphonyQG. Each node holds one-bit codes of its neighbours, 32 of which are scored at a time, and its own vector: as floats
(`quantization_bits` 0) or in 8 bits. max_degree has to be a multiple of 32: 2 M rounded up, or 64 under names that end in `-r64`.
Initialised by PiPNN, the default, and one pass of refinement of width ef_construction, or 400 under names that end in `-e400`.
4 bits end at a recall of 0.94 (minilm-5k) and are left out.

HNSW. Its graph is that of hnswlib, built over floats; a search reads one-bit codes first, and the rest of a code where the bound
of its distance is near enough. 16 clusters by `RaBitQKMeans`, as in its samples, which is part of the build's time. 8 and 9 bits; 5 end at
0.974, 4 at 0.953 and 1 at 0.73. `fast_quantization` is off, as by default. `-r64` is M 32.

Distances are "l2" for both metrics: over unit vectors both rank alike. No floats are kept but those of `quantization_bits` 0. A call
with one row or with all of them is the same `search_batch` (`search` of HNSW), whose ef may not be below k. The rotation has no seed.
"""

import time

import numpy as np

EF = [10, 20, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 320, 448]
# Codes of neighbours are scored by this many.
BATCH = 32
CLUSTERS = 16


class Rabitq:
    """What both indexes share."""

    sweep = "ef"
    defaults = EF

    def __init__(self, kind):
        import importlib.metadata

        import rabitqlib

        self.library = rabitqlib
        self.version = importlib.metadata.version("rabitqlib")
        self.kind = kind
        self.call = None
        self.ef = self.k = 0
        self.threads = 1

    def open(self, directory, meta):
        """Reads the file into memory."""
        del meta
        index = self.kind.load(str(directory / "index.rabitq"))
        self.call = getattr(index, "search_batch", index.search)

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef and threads."""
        self.ef, self.threads = max(int(value), self.k), threads

    def search(self, queries):
        """All rows in one call."""
        return self.call(queries, self.k, self.ef, self.threads)

    @staticmethod
    def ids(answer):
        """Row numbers, unsigned; the largest number pads, which is -1 as signed."""
        return answer[0].astype(np.int32)


class SymphonyQg(Rabitq):
    """SymphonyQG with vectors as floats (`bits` 0) or in codes."""

    def __init__(self, bits, degree=None, ef_construction=None):
        import rabitqlib

        super().__init__(rabitqlib.SymqgIndex)
        self.bits, self.degree, self.ef_construction = bits, degree, ef_construction
        self.settings = (
            f"SymphonyQG, vectors {f'in {bits} bits' if bits else 'float32'}, max_degree {degree or '2 M'}, "
            f"ef_construction {ef_construction or 'as asked'}, init pipnn, l2, search_batch over all queries, num_threads as asked"
        )

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """Builds over all rows. There is no seed."""
        del metric, seed
        degree = self.degree or -(-2 * m // BATCH) * BATCH
        index = self.kind(base.shape[1], degree, metric="l2", quantization_bits=self.bits)
        started = time.perf_counter()
        index.build(base, self.ef_construction or ef_construction, threads, init="pipnn")
        seconds = time.perf_counter() - started
        index.save(str(directory / "index.rabitq"))
        return seconds


class HnswRabitq(Rabitq):
    """HNSW over codes of some bits."""

    def __init__(self, bits, m=None):
        import rabitqlib

        super().__init__(rabitqlib.HnswIndex)
        self.bits, self.m = bits, m
        self.settings = (
            f"HNSW over RaBitQ codes of {bits} bits, M {m or 'as asked'}, {CLUSTERS} clusters, l2, search over all queries, "
            "num_threads as asked"
        )

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """Clusters, then inserts all rows."""
        del metric
        parameters = {"M": self.m or m, "ef_construction": ef_construction, "nbits": self.bits, "metric": "l2", "random_seed": seed}
        index = self.kind(base.shape[1], len(base), **parameters)
        started = time.perf_counter()
        clusters = self.library.RaBitQKMeans(base.shape[1], CLUSTERS, num_threads=threads)
        clusters.train(base)
        index.build(base, clusters.centroids, clusters.assignments, num_threads=threads)
        seconds = time.perf_counter() - started
        index.save(str(directory / "index.rabitq"))
        return seconds
