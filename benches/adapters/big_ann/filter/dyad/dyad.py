"""dyad in the filter track of big-ann-benchmarks: `neurips23/filter/dyad/dyad.py` there, over the package `dyad_search`.

Each vector has tags, and a query asks for the nearest vectors that have all of its tags. They are stored as the field `tags` of the
metadata and asked for as conditions, which dyad evaluates; queries that have the same tags share one call.
"""


import dyad_search
import numpy
from benchmark.datasets import DATASETS
from neurips23.filter.base import BaseFilterANN

METRICS = {"euclidean": "l2", "ip": "dot", "angular": "cosine"}


def tags_of(matrix, row):
    """The columns that a row of a CSR matrix has."""
    return matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()


def with_all(tags):
    """The condition that a document has all of these tags."""
    conditions = [{"equals": {"field": "tags", "value": {"number": tag}}} for tag in tags]
    return {"all": {"filters": conditions}}


class Dyad(BaseFilterANN):
    """An index of one shard in a temporary directory, which goes with the object."""

    def __init__(self, metric, index_params):
        if metric not in METRICS:
            raise NotImplementedError(f"`metric`: expected one of {', '.join(METRICS)}, got {metric}")
        self.metric, self.parameters = METRICS[metric], index_params
        self.threads = index_params.get("threads", 1)
        self.query_parameters = {}
        self.index = self.res = None
        self.documents, self.ef = 0, None

    def fit(self, dataset):
        """Builds the index of a data set by its name; where its searches have filters, with the tags of each vector."""
        data = DATASETS[dataset]()
        vectors = numpy.ascontiguousarray(data.get_dataset(), dtype=numpy.float32)
        metadata = None
        if data.search_type() == "knn_filtered":
            tags = data.get_dataset_metadata()
            metadata = ({"tags": tags_of(tags, row)} for row in range(len(vectors)))
        self.index = dyad_search.Index.build(
            vectors,
            metric=self.metric,
            m=self.parameters.get("M", 16),
            ef_construction=self.parameters.get("efConstruction", 200),
            metadata=metadata,
            threads=self.threads,
        )
        self.documents = len(vectors)

    def load_index(self, dataset):
        """None is kept: the framework builds it."""
        return False

    def set_query_arguments(self, query_args):
        """`ef`: how wide the beam of the next searches is."""
        self.query_parameters, self.ef = query_args, query_args["ef"]

    def query(self, X, k):
        """Searches for all rows, without filters."""
        self.res = numpy.full((len(X), k), -1, dtype=numpy.int32)
        nearest = min(k, self.documents)
        self.res[:, :nearest], _ = self.index.search(X, nearest, ef=self.ef, threads=self.threads)

    def filtered_query(self, X, filter, k):
        """Searches for row i of `X` among the vectors with all tags of row i of `filter`; -1 where there are fewer than `k`."""
        X = numpy.ascontiguousarray(X, dtype=numpy.float32)
        together = {}
        for row in range(len(X)):
            together.setdefault(tuple(sorted(tags_of(filter, row))), []).append(row)
        self.res = numpy.full((len(X), k), -1, dtype=numpy.int32)
        for tags, rows in together.items():
            condition = with_all(tags) if tags else None
            self.res[rows], _ = self.index.search(X[rows], k, ef=self.ef, filter=condition, threads=self.threads)

    def get_results(self):
        """What the last call found: [queries, k]."""
        return self.res

    def get_additional(self):
        """Attributes that are stored with the results."""
        return {"dyad_version": dyad_search.__version__}

    def done(self):
        """Removes the index."""
        self.index = None

    def __str__(self):
        return f"dyad({self.parameters}, {self.query_parameters})"
