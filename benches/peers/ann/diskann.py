"""DiskANN (diskannpy, its authors' binding): a Vamana graph and float32 vectors on the disk, product codes in memory.

Build. `build_disk_index`: degree 2 M, or 64 under the name that ends in `-r64`; complexity is ef_construction. Product codes have a quarter
of a byte per value (`search_memory_maximum`, 96 bytes a vector of 384 values), from which the graph is walked. Distances are `l2` on unit
vectors too, as `mips` would add a dimension. There is no seed.

Search. `StaticDiskIndex`: nodes are read past the page cache (O_DIRECT), several at a time, and rescored by their float32 vectors, which
lie next to their links. A tenth of the nodes, the nearest to the entry point, stay in memory: with the product codes about as much as dyad
is left under a limit of a third of its own index. `batch_search` for all rows, `search` for one. The sweep is the complexity.
"""

import time

import numpy as np

COMPLEXITY = [10, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512]
# Bytes of product codes for each value.
CODES = 0.25
# Nodes kept in memory, of all; chosen by distance from the entry point, the second mechanism.
CACHED = 0.1
NEAREST = 2
# Nodes read at a time.
BEAM = 4


class DiskAnn:
    """A graph on the disk."""

    sweep = "complexity"
    defaults = COMPLEXITY

    def __init__(self, degree=None):
        import importlib.metadata

        import diskannpy

        self.library = diskannpy
        self.version = importlib.metadata.version("diskannpy")
        self.degree = degree
        self.settings = (
            f"float32 on the disk, degree {degree or '2 M'}, {CODES} bytes of product codes a value, {CACHED:.0%} of the nodes cached, "
            f"beam {BEAM}, batch_search over all queries, num_threads as asked"
        )
        self.index = None
        self.complexity = self.threads = 1
        self.k = 0

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """The graph, product codes, and the layout on the disk, which the library does in one call."""
        del metric, seed
        started = time.perf_counter()
        self.library.build_disk_index(
            data=base,
            distance_metric="l2",
            index_directory=str(directory),
            complexity=ef_construction,
            graph_degree=self.degree or 2 * m,
            search_memory_maximum=base.size * CODES / 2**30,
            build_memory_maximum=64.0,
            num_threads=threads,
        )
        return time.perf_counter() - started

    def open(self, directory, meta):
        """Reads product codes and the nodes that stay."""
        self.index = self.library.StaticDiskIndex(
            index_directory=str(directory), num_threads=meta["threads"], num_nodes_to_cache=int(meta["n"] * CACHED), cache_mechanism=NEAREST
        )

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """Complexity, at least k, and threads."""
        self.complexity, self.threads = max(int(value), self.k), threads

    def search(self, queries):
        """All rows, or the call for one."""
        if len(queries) == 1:
            return self.index.search(queries[0], self.k, self.complexity, BEAM)
        return self.index.batch_search(queries, self.k, self.complexity, self.threads, BEAM)

    @staticmethod
    def ids(answer):
        """Ids come first."""
        return np.atleast_2d(answer.identifiers).astype(np.int64)
