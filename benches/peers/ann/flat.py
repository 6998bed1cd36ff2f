"""The oracle: every inner product or distance, with nothing but numpy."""

import time

import numpy as np

BLOCK = 256


class Exact:
    """Exact search; takes no sweep parameter and numpy's own threads."""

    sweep = "none"
    defaults = [0]
    settings = "exact, float32, one matrix product per 256 queries, numpy's own threads"

    def __init__(self):
        self.version = np.__version__
        self.base = self.squares = self.filter = None
        self.k = 0

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """Writes the base."""
        del metric, m, ef_construction, threads, seed
        started = time.perf_counter()
        np.save(directory / "base.npy", base)
        return time.perf_counter() - started

    def open(self, directory, meta):
        """Maps the base."""
        self.base = np.load(directory / "base.npy", mmap_mode="r")
        self.squares = np.einsum("nd,nd->n", self.base, self.base) if meta["metric"] == "l2" else None

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = min(k, len(self.base))
        return queries

    def configure(self, value, threads):
        """Nothing to set."""

    @staticmethod
    def select(rows, conditions):
        """The rows that pass."""
        del conditions
        return rows

    def search(self, queries):
        """The k best ids of each row."""
        blocks = [self._block(queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)]
        return np.concatenate(blocks)

    def _block(self, queries):
        rows = slice(None) if self.filter is None else self.filter
        scores = queries @ self.base[rows].T
        if self.squares is not None:
            scores = 2 * scores - self.squares[rows]
        k = min(self.k, scores.shape[1])
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        return best if self.filter is None else self.filter[best]

    @staticmethod
    def ids(answer):
        """Already ids."""
        return answer
