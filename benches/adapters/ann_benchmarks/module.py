"""dyad as an algorithm of ann-benchmarks: `ann_benchmarks/algorithms/dyad/module.py` there, over the package `dyad_search`.

Single queries and the build take one thread, as ann-benchmarks gives a container one core; `--batch` answers all queries by one call on
every core.
"""

import pathlib

import dyad_search
import numpy

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2"}


class Dyad(BaseANN):
    """An index of one shard in a temporary directory, which goes with the object."""

    def __init__(self, metric, method_param):
        if metric not in METRICS:
            raise NotImplementedError(f"`metric`: expected one of {', '.join(METRICS)}, got {metric}")
        self.metric, self.parameters = METRICS[metric], method_param
        self.ef = None
        self.index = self.res = None
        self.documents = 0

    def fit(self, X):
        """Builds the index on one thread, or on as many as the parameter `threads` says."""
        vectors = numpy.ascontiguousarray(X, dtype=numpy.float32)
        self.index = dyad_search.Index.build(
            vectors,
            metric=self.metric,
            m=self.parameters["M"],
            ef_construction=self.parameters["efConstruction"],
            threads=self.parameters.get("threads", 1),
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
        """Searches for all rows by one call, on every core."""
        self.res, _ = self.index.search(X, min(n, self.documents), ef=self.ef, threads=0)

    def get_memory_usage(self):
        """Kilobytes of the index's files, which searches map into memory; 0 before there is an index.

        The resident memory of the process would leave out pages that no search has touched yet, and count what the build has freed."""
        if self.index is None:
            return 0.0
        return sum(file.stat().st_size for file in pathlib.Path(self.index.path).rglob("*") if file.is_file()) / 1024

    def get_additional(self):
        """Attributes that are stored with each result."""
        return {"dyad_version": dyad_search.__version__, "dyad_metric": self.metric}

    def done(self):
        """Removes the index."""
        self.index = None

    def __str__(self):
        return f"dyad ({self.parameters}, 'ef': {self.ef})"
