"""dyad in the streaming track of big-ann-benchmarks: `neurips23/streaming/dyad/dyad.py` there, over the package `dyad_search`.

Each insertion is a shard of its own, and deletions mark documents. A merge into one shard follows where there are more than `max_shards`,
or where more than `max_deleted` of what shards hold is deleted; it counts into the time of the step that made it necessary.
"""


import dyad_search
import numpy
from neurips23.streaming.base import BaseStreamingANN

METRICS = {"euclidean": "l2", "ip": "dot", "angular": "cosine"}


class Dyad(BaseStreamingANN):
    """An index in a temporary directory, which goes with the object. The first insertion builds it."""

    def __init__(self, metric, index_params):
        if metric not in METRICS:
            raise NotImplementedError(f"`metric`: expected one of {', '.join(METRICS)}, got {metric}")
        self.metric, self.parameters = METRICS[metric], index_params
        self.threads = index_params.get("threads", 1)
        self.max_shards, self.max_deleted = index_params.get("max_shards", 4), index_params.get("max_deleted", 0.2)
        self.query_parameters = {}
        self.index = self.res = None
        self.deleted = self.merges = 0
        self.ef = None

    def setup(self, dtype, max_pts, ndims):
        """Begins without documents. An index grows as it needs, so `max_pts` limits nothing."""
        if dtype not in ("float32", "uint8", "int8"):
            raise NotImplementedError(f"`dtype`: expected float32, uint8 or int8, got {dtype}")
        self.done()
        self.deleted = self.merges = 0

    def insert(self, X, ids):
        """Adds vectors, whose ids must be new, or those of deleted ones."""
        vectors, keys = numpy.ascontiguousarray(X, dtype=numpy.float32), ids.tolist()
        if self.index is None:
            self.index = dyad_search.Index.build(
                vectors,
                metric=self.metric,
                m=self.parameters.get("M", 16),
                ef_construction=self.parameters.get("efConstruction", 200),
                keys=keys,
                threads=self.threads,
            )
        else:
            self.index.append(vectors, keys=keys, threads=self.threads)
            self.merge_if_due()

    def replace(self, X, ids):
        """Puts vectors in the place of those that have these ids."""
        self.index.upsert(numpy.ascontiguousarray(X, dtype=numpy.float32), keys=ids.tolist(), threads=self.threads)
        self.deleted += len(ids)
        self.merge_if_due()

    def delete(self, ids):
        """Deletes the vectors with these ids."""
        told = self.index.delete(ids.tolist())
        if told["rejected"]:
            raise ValueError(f"`ids`: expected ids of the index, got {told['rejected']} that it does not have")
        self.deleted += len(ids)
        self.merge_if_due()

    def merge_if_due(self):
        """Merges where the shards have become many, or hold much that is deleted."""
        too_many = len(self.index.certificate()) > self.max_shards
        if too_many or self.deleted > self.max_deleted * (len(self.index) + self.deleted):
            self.index.merge(self.threads)
            self.deleted, self.merges = 0, self.merges + 1

    def set_query_arguments(self, query_args):
        """`ef`: how wide the beam of the next searches is."""
        self.query_parameters, self.ef = query_args, query_args["ef"]

    def query(self, X, k):
        """Searches for all rows; -1 where there are fewer than `k` documents."""
        ids, _ = self.index.search(X, k, ef=self.ef, threads=self.threads)
        self.res = ids.astype(numpy.int32)

    def get_results(self):
        """What the last search found: [queries, k]."""
        return self.res

    def get_additional(self):
        """Attributes that are stored with the results."""
        return {"dyad_version": dyad_search.__version__, "dyad_merges": self.merges}

    def done(self):
        """Removes the index."""
        self.index = None

    def __str__(self):
        return f"dyad({self.parameters}, {self.query_parameters})"
