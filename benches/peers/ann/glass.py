"""pyglass (pyglass-portable, which is built for AVX2 and runs on any x86-64 that has it).

Build. `Index("HNSW", metric, "FP16", R, L)`: R is the degree of the ground level, 2 M, or 64 under names that end in `-r64`; L is
ef_construction. A graph file holds no vectors, and codes are not saved: `Searcher` makes them of the base, which lies next to the graph
in float32 (`index_bytes` counts it). The build's time is that of the graph and of the codes; making the codes again is part of `open`.

Search. Every `Searcher` gets a graph read from the file anew, as the library moves it into the searcher. `optimize` chooses the distance
of prefetching by searches on one thread; it is part of `open`, where it takes seconds. Codes are FP16, SQ8U (one range) or SQ8 (a range
per dimension); a second name refines: the best ef (at least 1.5 k for single calls) are scored again. `batch_search` for all rows,
`search` for one. Batches keep a queue of ef, single calls one of 1.5 k at least, so an ef below that is taken for it in both.
"""

import time

import numpy as np

EF = [15, 18, 22, 26, 30, 34, 38, 44, 50, 58, 70, 86, 112, 144, 192, 256]
# What a refined single call widens its queue to, in k.
REFINED = 1.5


class Glass:
    """HNSW, one kind of codes, and one that refines where there is one."""

    sweep = "ef"
    defaults = EF

    def __init__(self, codes, refined="", degree=None):
        import importlib.metadata

        import glass

        self.library = glass
        self.version = importlib.metadata.version("pyglass-portable")
        self.codes, self.refined, self.degree = codes, refined, degree
        self.settings = (
            f"HNSW built over FP16, R {degree or '2 M'}, searched over {codes}, {f'refined by {refined}' if refined else 'not refined'}, "
            "optimize, batch_search over all queries, num_threads as asked"
        )
        self.searcher = None
        self.threads = 1
        self.k = 0

    def _searcher(self, directory, base, metric):
        graph = self.library.Graph(str(directory / "graph.glass"))
        return self.library.Searcher(graph, base, metric.upper(), self.codes, self.refined)

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """The graph, then the codes. There is no seed."""
        del seed
        self.library.set_num_threads(threads)
        index = self.library.Index("HNSW", metric.upper(), "FP16", self.degree or 2 * m, ef_construction)
        started = time.perf_counter()
        graph = index.build(base)
        seconds = time.perf_counter() - started
        graph.save(str(directory / "graph.glass"))
        np.save(directory / "base.npy", base)
        started = time.perf_counter()
        self._searcher(directory, base, metric)
        return seconds + time.perf_counter() - started

    def open(self, directory, meta):
        """Reads the graph, makes the codes, and lets the library choose its prefetching."""
        self.library.set_num_threads(1)
        base = np.load(directory / "base.npy", mmap_mode="r")
        self.searcher = self._searcher(directory, base, meta["metric"])
        self.searcher.optimize(1)

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef and threads."""
        least = int(self.k * REFINED) if self.refined else self.k
        self.searcher.set_ef(max(int(value), least))
        self.threads = threads

    def search(self, queries):
        """All rows, or the call for one."""
        if len(queries) == 1:
            return self.searcher.search(queries[0], self.k)
        return self.searcher.batch_search(queries, self.k, self.threads)

    @staticmethod
    def ids(answer):
        """Ids come first."""
        return np.atleast_2d(answer[0]).astype(np.int64)
