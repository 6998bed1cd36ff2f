"""Peers in this process: Qdrant's engine, and LanceDB.

Qdrant Edge has its write-ahead log, and `flush` after each write makes it durable; `optimize` runs after the last. LanceDB commits
a version with each write, of which it asks the disk for nothing (no `fsync` in `strace -f`): a loss of power may lose it. `optimize`
compacts after the last. Its table has no index of vectors: it compares all of them, as is usual for so few.
"""

import datetime
import threading

import numpy


class QdrantEdge:
    """One shard with int8 codes, as in `ann/edge.py`, with its write-ahead log."""

    name = "qdrant-edge"

    def __init__(self, programs):
        del programs
        import qdrant_edge

        self.edge = qdrant_edge
        self.shard = None
        self.lock = threading.Lock()

    def begin(self, folder, plan):
        """Creates the shard with its first documents."""
        edge = self.edge
        place = folder / "shard"
        place.mkdir()
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=len(plan.questions[0]), distance=edge.Distance.Dot),
            quantization_config=edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, quantile=0.99),
            wal_enabled=True,
        )
        self.shard = edge.EdgeShard.create(str(place), config)
        points = [self._point(document) for document in plan.documents]
        self.shard.update(edge.UpdateOperation.upsert_points(points))
        self.settle(plan)

    def _point(self, document):
        return self.edge.Point(id=document.number, vector=document.vector, payload={"text": document.text})

    def connect(self):
        """There is one shard for all clients."""
        return self

    def write(self, write):
        """One update, made durable."""
        edge = self.edge
        if write.vector is None:
            operation = edge.UpdateOperation.delete_points([write.number])
        else:
            operation = edge.UpdateOperation.upsert_points([self._point(write)])
        with self.lock:
            self.shard.update(operation)
            self.shard.flush()

    def settle(self, plan):
        """Optimises until there is nothing left to do."""
        del plan
        while self.shard.optimize():
            pass
        self.shard.flush()

    def search(self, question, hits):
        """The ids of the nearest."""
        edge = self.edge
        request = edge.QueryRequest(
            limit=hits,
            query=edge.Query.Nearest(question),
            params=edge.SearchParams(hnsw_ef=128, quantization=edge.QuantizationSearchParams(rescore=True, oversampling=2.0)),
            with_vector=False,
            with_payload=False,
        )
        return self.shard.query(request)

    def documents(self):
        """Points that are there."""
        return self.shard.count(self.edge.CountRequest(exact=True))

    def state(self):
        """Segments."""
        return f"{self.shard.info().segments_count} segments"

    def end(self):
        """Closes the shard."""
        if self.shard is not None:
            self.shard.close()


class LanceDb:
    """One table."""

    name = "lancedb"

    def __init__(self, programs):
        del programs
        self.table = None
        self.lock = threading.Lock()

    @staticmethod
    def _row(document):
        return {"id": document.number, "text": document.text, "vector": numpy.asarray(document.vector, dtype=numpy.float32)}

    def begin(self, folder, plan):
        """Creates the table with its first documents."""
        import lancedb

        database = lancedb.connect(str(folder / "lance"))
        self.table = database.create_table("documents", data=[self._row(document) for document in plan.documents])

    def connect(self):
        """There is one table for all clients."""
        return self

    def write(self, write):
        """One version of the table."""
        with self.lock:
            if write.vector is None:
                self.table.delete(f"id = {write.number}")
            else:
                merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute([self._row(write)])

    def settle(self, plan):
        """Compacts, and removes older versions."""
        del plan
        self.table.optimize(cleanup_older_than=datetime.timedelta(0))

    def search(self, question, hits):
        """The nearest rows."""
        return self.table.search(numpy.asarray(question, dtype=numpy.float32)).distance_type("dot").select(["id", "_distance"]).limit(hits).to_list()

    def documents(self):
        """Rows that are there."""
        return self.table.count_rows()

    def state(self):
        """Versions."""
        return f"{len(self.table.list_versions())} versions"

    def end(self):
        """Nothing is open."""
