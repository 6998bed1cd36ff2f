"""dyad as an algorithm of VIBE: `vibe/algorithms/dyad/module.py` there, over the package `dyad_search`.

One thread builds and searches, as VIBE binds each algorithm to one core. Vectors of other types are converted to float32 once, in `fit`;
the metrics "cosine" and "normalized" are both dyad's cosine, whose scores are inner products of rows scaled to length 1.
"""

import pathlib

import dyad_search
import numpy as np

from ..base.module import BaseANN

METRICS = {"cosine": "cosine", "normalized": "cosine", "euclidean": "l2", "ip": "dot"}


class Dyad(BaseANN):
    """An index of one shard in a temporary directory, which goes with the object."""

    def __init__(self, metric, M, efConstruction):
        if metric not in METRICS:
            raise NotImplementedError(f"`metric`: expected one of {', '.join(METRICS)}, got {metric}")
        self.metric = METRICS[metric]
        self.m, self.ef_construction, self.ef = M, efConstruction, None
        self.index = self.found = None
        self.documents = 0

    def fit(self, X):
        """Builds the index on one thread."""
        vectors = np.ascontiguousarray(X, dtype=np.float32)
        self.index = dyad_search.Index.build(
            vectors,
            metric=self.metric,
            m=self.m,
            ef_construction=self.ef_construction,
            threads=1,
        )
        self.documents = len(vectors)

    def set_query_arguments(self, ef):
        """How wide the beam of the next searches is."""
        self.ef = ef

    def query(self, v, n):
        """Rows of the nearest vectors, the nearest first: all of them where there are fewer than `n`."""
        ids, _ = self.index.search(v, min(n, self.documents), ef=self.ef)
        return ids

    def batch_query(self, X, n):
        """Searches for all rows by one call, on one thread."""
        self.found, _ = self.index.search(X, min(n, self.documents), ef=self.ef)

    def get_batch_results(self):
        """What `batch_query` found: [queries, n]."""
        return self.found

    def get_memory_usage(self):
        """Kilobytes of the index's files, which searches map into memory; 0 before there is an index.

        The resident memory of the process would leave out pages that no search has touched yet, and count what the build has freed."""
        if self.index is None:
            return 0.0
        return sum(file.stat().st_size for file in pathlib.Path(self.index.path).rglob("*") if file.is_file()) / 1024

    def get_additional(self):
        """Attributes that are stored with each result."""
        return {"dyad_version": dyad_search.__version__, "dyad_metric": self.metric}

    def __str__(self):
        return f"Dyad(M={self.m}, efConstruction={self.ef_construction}, ef={self.ef})"
