"""Qdrant's own engine in process (qdrant-edge-py).

Build. HNSW with m and ef_construct as asked and `max_indexing_threads` = threads; int8 scalar quantisation of quantile 0.99
(Qdrant's documented example), codes and graph `Memory.Pinned` (what `always_ram` became), original vectors `Memory.Cached`
(mapped; they are read for rescoring only); no write-ahead log; points upserted by the thousand, then `optimize` until there is
nothing left to do, into one segment (`default_segment_number=1`, a `max_segment_size` above the base). Timed: upserts,
`optimize` and `flush`, since Qdrant writes its files as it builds. Making `Point` objects of the rows is not timed.
"ip" is `Distance.Dot` (unit vectors: no second normalisation), "l2" is `Distance.Euclid`.

Search. `query_batch` of all queries in one call; the requests are made before the clock runs and the ids are read from the
answer after it stops. `rescore=True` and `oversampling` 2.0, the documented example; the names `qdrant-edge-o1` and `-o3`
measure 1.0 and 3.0. No payload, no vectors in the answer. `hnsw_ef` is the sweep. The search pool's size belongs to the open
shard (`max_search_threads`), so another number of threads loads the shard again, outside the clock.

Binary. `qdrant-edge-binary` stands for codes of one bit (`-b1-`) or two (`-b2-`) a dimension; queries are in the same bits, or in 8
(`q8`); `-o3` to `-o16` oversample by 3 to 16, as fewer bits rank worse. Only k times as many are scored again, which ends one bit at a
recall of 0.875 with 4 and 0.949 with 8 (minilm-5k), two bits and queries of 8 at 0.934 with 2 (minilm-100k); and hnsw_ef is never
below that. All else is as for int8.

Filters. With attributes each point has a payload, and every field of it an index, which is made before the points come, so that
`optimize` builds the graph with it: a keyword index for texts, an integer index without lookup for numbers. Qdrant plans each
query itself, so `full_scan_threshold` is its default then, 10,000 KB, in place of 10: where an index says that few points pass, it
compares with those. A query under a filter carries the condition, which is evaluated inside the clock. The name
`qdrant-edge-acorn` adds `AcornSearchParams(enable=True)`: neighbours of neighbours are looked at where a neighbour does not
pass, in place of passing through it; up to a selectivity of 0.4, its default.

Memory. `evict` drops the pages of the original vectors (`vector_storage`) from the process, as ours does with its own: codes,
graph and payload stay. On minilm-100k that is 150 of 260 MB.
"""

import ctypes
import itertools
import json
import os
import pathlib
import re
import time

EF = [10, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256]
BATCH = 1000
# Names of the payload's fields, next to the shard.
FIELDS = "fields.json"
# In KB; above any base used here, so that nothing is split.
LARGEST_SEGMENT = 1 << 30
# In KB: the graph is always taken; Qdrant's default, where filters are planned.
FULL_SCAN_THRESHOLD, PLANNED_THRESHOLD = 10, 10_000
# madvise(2): the pages leave the process, and come back from the page cache when they are read again.
MADV_DONTNEED = 4


class QdrantEdge:
    """One shard of one segment."""

    sweep = "hnsw_ef"
    defaults = EF
    reads_attributes = True
    any_length = True

    def __init__(self, oversampling, acorn=False, binary=None, query=None):
        import importlib.metadata

        import qdrant_edge

        self.edge = qdrant_edge
        self.version = importlib.metadata.version("qdrant-edge-py")
        self.oversampling = oversampling
        self.binary, self.query = binary, query
        codes = f"binary quantisation {binary}, queries {query or 'Default'}" if binary else "int8 scalar quantisation, quantile 0.99"
        self.settings = (
            f"{codes}, codes and graph pinned, rescore with oversampling {oversampling}, "
            "one segment after optimize, query_batch over all queries, max_search_threads as asked"
            + ("; ACORN" if acorn else "")
        )
        self.acorn = qdrant_edge.AcornSearchParams(enable=True) if acorn else None
        if acorn:
            self.index_of = "qdrant-edge"
        self.shard = self.directory = self.meta = self.params = self.filter = None
        self.threads = 1
        self.k = 0

    def _config(self, meta, threads, planned):
        edge = self.edge
        distance = {"ip": edge.Distance.Dot, "l2": edge.Distance.Euclid}[meta["metric"]]
        return edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=meta["dim"], distance=distance, memory=edge.Memory.Cached),
            hnsw_config=edge.HnswIndexConfig(
                m=meta["m"],
                ef_construct=meta["ef_construction"],
                full_scan_threshold=PLANNED_THRESHOLD if planned else FULL_SCAN_THRESHOLD,
                max_indexing_threads=threads,
                memory=edge.Memory.Pinned,
            ),
            quantization_config=self._codes(),
            optimizers=edge.EdgeOptimizersConfig(
                default_segment_number=1, max_segment_size=LARGEST_SEGMENT, indexing_threshold=1
            ),
            max_search_threads=threads,
            wal_enabled=False,
        )

    def _codes(self):
        edge = self.edge
        if self.binary is None:
            return edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, quantile=0.99, memory=edge.Memory.Pinned)
        return edge.BinaryQuantizationConfig(
            encoding=getattr(edge.BinaryQuantizationEncoding, self.binary),
            query_encoding=getattr(edge.BinaryQuantizationQueryEncoding, self.query or "Default"),
            memory=edge.Memory.Pinned,
        )

    def build(self, base, metric, m, ef_construction, threads, seed, directory, attributes=None):
        """Upserts and optimises; indexes of attributes come first. There is no seed."""
        del seed
        place = directory / "shard"
        place.mkdir()
        edge = self.edge
        shape = {"dim": base.shape[1], "metric": metric, "m": m, "ef_construction": ef_construction}
        kinds = {} if attributes is None else attributes.kinds()
        payloads = itertools.repeat(None) if attributes is None else iter(attributes)
        (directory / FIELDS).write_text(json.dumps(list(kinds)), encoding="utf-8")
        shard = edge.EdgeShard.create(str(place), self._config(shape, threads, bool(kinds)))
        seconds = 0.0
        for name, is_text in kinds.items():
            index = edge.KeywordIndexParams() if is_text else edge.IntegerIndexParams(lookup=False, range=True)
            started = time.perf_counter()
            shard.update(edge.UpdateOperation.create_field_index(name, index))
            seconds += time.perf_counter() - started
        for start in range(0, len(base), BATCH):
            # The rows come first: a zip that ends takes no payload too many.
            rows = zip(base[start : start + BATCH].tolist(), payloads, strict=False)
            points = [edge.Point(id=start + offset, vector=row, payload=one) for offset, (row, one) in enumerate(rows)]
            started = time.perf_counter()
            shard.update(edge.UpdateOperation.upsert_points(points))
            seconds += time.perf_counter() - started
        started = time.perf_counter()
        while shard.optimize():
            pass
        shard.flush()
        seconds += time.perf_counter() - started
        info = shard.info()
        shard.close()
        # An empty segment for later writes may stand beside the one that holds the points.
        if info.indexed_vectors_count < len(base):
            raise RuntimeError(f"expected {len(base)} indexed vectors after optimize, got {info.indexed_vectors_count}")
        return seconds

    def open(self, directory, meta):
        """Loads the shard under the configuration it was built with."""
        self.directory, self.meta = directory, meta
        self._load(1)

    def _load(self, threads):
        if self.shard is not None:
            self.shard.close()
        planned = bool(json.loads((self.directory / FIELDS).read_text(encoding="utf-8")))
        self.shard = self.edge.EdgeShard.load(str(self.directory / "shard"), self._config(self.meta, threads, planned))
        self.threads = threads

    def prepare(self, queries, k):
        """Keeps k; the requests hold the parameters too, so they are made by `requests`."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef, rescoring and the size of the search pool."""
        edge = self.edge
        if threads != self.threads:
            self._load(threads)
        quantization = edge.QuantizationSearchParams(rescore=True, oversampling=self.oversampling)
        self.params = edge.SearchParams(hnsw_ef=int(value), quantization=quantization, acorn=self.acorn)

    def select(self, rows, conditions):
        """The conditions as Qdrant's filter: all of them must hold."""
        del rows
        edge = self.edge
        must = []
        for condition in conditions:
            if "equals" in condition:
                field, value = (condition["equals"][key] for key in ("field", "value"))
                must.append(edge.FieldCondition(key=field, match=edge.MatchValue(value)))
            else:
                field, bound = (condition["below"][key] for key in ("field", "bound"))
                must.append(edge.FieldCondition(key=field, range=edge.RangeFloat(lt=bound)))
        return edge.Filter(must=must)

    def requests(self, queries):
        """The rows as one batch, in the form that the bindings take."""
        edge = self.edge
        return edge.QueryBatchRequest(
            [
                edge.QueryRequest(
                    limit=self.k,
                    query=edge.Query.Nearest(row),
                    params=self.params,
                    filter=self.filter,
                    with_vector=False,
                    with_payload=False,
                )
                for row in queries.tolist()
            ]
        )

    def search(self, batch):
        """One planned batch."""
        return self.shard.query_batch(batch)

    def change(self, delete, rows, labels, threads):
        """Deletes and upserts by the thousand, without `optimize`."""
        del threads
        edge = self.edge
        ids = delete.tolist()
        for start in range(0, len(ids), BATCH):
            self.shard.update(edge.UpdateOperation.delete_points(ids[start : start + BATCH]))
        for start in range(0, len(rows), BATCH):
            pairs = zip(labels[start : start + BATCH].tolist(), rows[start : start + BATCH].tolist(), strict=True)
            points = [edge.Point(id=label, vector=row) for label, row in pairs]
            self.shard.update(edge.UpdateOperation.upsert_points(points))

    def merge(self, whole, threads):
        """`optimize` until there is nothing left to do."""
        del whole, threads
        while self.shard.optimize():
            pass
        self.shard.flush()

    def evict(self):
        """Drops the pages of the mapped original vectors: madvise on every mapping of them that can only be read."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        place = re.escape(str((self.directory / "shard").resolve()))
        # Shared and read-only: nothing in it can be lost.
        mapping = re.compile(rf"([0-9a-f]+)-([0-9a-f]+) r--s \S+ \S+ \S+ +{place}/segments/[^/]+/vector_storage/.+")
        for line in pathlib.Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
            if found := mapping.fullmatch(line):
                start, end = (int(address, 16) for address in found.groups())
                if libc.madvise(start, end - start, MADV_DONTNEED) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), line)

    @staticmethod
    def ids(answer):
        """The ids of scored points, best first."""
        return [[point.id for point in points] for points in answer]
