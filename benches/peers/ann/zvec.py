"""zvec (Alibaba's Proxima in process): HNSW over int8 codes, refined by the original vectors, and filters over inverted indexes.

Build. A collection with one vector field, `HnswIndexParam(m, ef_construction)` of quantize_type INT8; every attribute is a nullable
field with an inverted index, texts as an array of strings, numbers with range optimisation. Documents are inserted by the
thousand, then `optimize` builds the graph. Timed: inserts, `optimize` and `flush`. Making `Doc` objects is not timed.

Search. The collection is opened read-only and mapped. zvec has no batch call: `query_internal_ids`, its fast path, once per query,
and keys of the answer are looked up after the clock stops. `is_using_refiner`. The sweep is ef. A filter is an expression that zvec
evaluates, and plans, in each query.
"""

import itertools
import pathlib
import time

EF = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
BATCH = 1000
FIELD = "vector"


class Zvec:
    """One collection."""

    sweep = "ef"
    defaults = EF
    reads_attributes = True
    settings = "HNSW over int8 codes, refined by float32 vectors, mapped; query_internal_ids per query"

    def __init__(self):
        import importlib.metadata

        import zvec

        self.library = zvec
        self.version = importlib.metadata.version("zvec")
        self.collection = self.params = self.filter = None
        self.ready = False
        self.k = 0

    def _init(self, threads):
        """Once per process; searches are on one thread."""
        if not self.ready:
            self.library.init(query_threads=1, optimize_threads=threads)
            self.ready = True

    def build(self, base, metric, m, ef_construction, threads, seed, directory, attributes=None):
        """Inserts and optimises. There is no seed."""
        del seed
        zvec = self.library
        self._init(threads)
        kinds = {} if attributes is None else attributes.kinds()
        fields = itertools.repeat({}) if attributes is None else iter(attributes)
        index = zvec.HnswIndexParam(
            metric_type={"ip": zvec.MetricType.IP, "l2": zvec.MetricType.L2}[metric],
            m=m,
            ef_construction=ef_construction,
            quantize_type=zvec.QuantizeType.INT8,
        )
        schema = zvec.CollectionSchema(
            "base",
            fields=[
                zvec.FieldSchema(
                    name,
                    zvec.DataType.ARRAY_STRING if is_text else zvec.DataType.INT64,
                    nullable=True,
                    index_param=zvec.InvertIndexParam(enable_range_optimization=not is_text),
                )
                for name, is_text in kinds.items()
            ],
            vectors=[zvec.VectorSchema(FIELD, zvec.DataType.VECTOR_FP32, base.shape[1], index)],
        )
        collection = zvec.create_and_open(str(directory / "collection"), schema)
        seconds = 0.0
        for start in range(0, len(base), BATCH):
            # The rows come first: a zip that ends takes no attributes too many.
            rows = zip(base[start : start + BATCH], fields, strict=False)
            docs = [zvec.Doc(str(start + offset), vectors={FIELD: row}, fields=one) for offset, (row, one) in enumerate(rows)]
            started = time.perf_counter()
            statuses = collection.insert(docs)
            seconds += time.perf_counter() - started
            if failed := [status for status in statuses if not status.ok()]:
                raise RuntimeError(f"insert: {failed[0].message()}")
        started = time.perf_counter()
        collection.optimize(zvec.OptimizeOption(concurrency=threads))
        collection.flush()
        seconds += time.perf_counter() - started
        collection.close()
        return seconds

    def open(self, directory, meta):
        """Maps the collection, for reading alone: the fast path asks for that."""
        del meta
        self._init(1)
        option = self.library.CollectionOption(read_only=True, enable_mmap=True)
        self.collection = self.library.open(str(pathlib.Path(directory) / "collection"), option)

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef."""
        if threads != 1:
            raise ValueError(f"threads: expected 1, got {threads}: zvec has no batch call")
        self.params = self.library.HnswQueryParam(ef=int(value), is_using_refiner=True)

    @staticmethod
    def select(rows, conditions):
        """The conditions as an expression."""
        del rows
        words = []
        for condition in conditions:
            if "equals" in condition:
                field, value = (condition["equals"][key] for key in ("field", "value"))
                words.append(f"{field} contain_any ('{value}')")
            else:
                field, bound = (condition["below"][key] for key in ("field", "bound"))
                words.append(f"{field} < {bound}")
        return " and ".join(words)

    def requests(self, queries):
        """A query each."""
        return [self.library.Query(FIELD, vector=row, param=self.params) for row in queries]

    def search(self, requests):
        """One call per query."""
        find, topk, chosen = self.collection.query_internal_ids, self.k, self.filter
        return [find(request, topk=topk, filter=chosen) for request in requests]

    def ids(self, answer):
        """Keys are row numbers."""
        found = [self.collection.resolve_internal_ids(ids) for ids in answer]
        return [[int(key) for key in keys if key is not None] for keys in found]
