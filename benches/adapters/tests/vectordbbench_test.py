"""The client of VectorDBBench against both programs, through the calls of its runners.

`DYAD_PROGRAMS` names the folder of dyad-indexer and dyad-searcher; without it, `target/release` or `target/ci` of this repository is taken.
Where `vectordb_bench` is not installed, stand-ins have the classes of it that the client imports.
"""

import enum
import importlib
import importlib.util
import os
import pathlib
import pickle
import sys
import tempfile
import types
import unittest
from unittest import mock

import stand_in

stand_in.needs("numpy", "dyad_client", "pydantic")

DIM = 24


def programs():
    """The folder of the programs; skips where there is none."""
    target = stand_in.ADAPTERS.parents[1] / "target"
    for folder in (os.environ.get("DYAD_PROGRAMS"), target / "release", target / "ci"):
        if folder and all(pathlib.Path(folder, name).is_file() for name in ("dyad-indexer", "dyad-searcher")):
            return pathlib.Path(folder)
    reason = "no dyad-indexer and dyad-searcher. DYAD_PROGRAMS names their folder; `cargo build --release` makes them"
    print(f"skipped: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


class Metrics(enum.StrEnum):
    """The framework's MetricType."""

    L2, COSINE, IP, HAMMING = "L2", "COSINE", "IP", "HAMMING"


class Operations(enum.StrEnum):
    """The framework's FilterOp."""

    NumGE, StrEqual, NonFilter = "NumGE", "Label", "NonFilter"


class Payloads(enum.StrEnum):
    """The framework's PayloadProfile."""

    IDS_ONLY = "ids_only"


def framework(logs):
    """The classes of VectorDBBench that the client imports: its own where it is installed, which begins with a log."""
    if importlib.util.find_spec("vectordb_bench") is not None:
        os.environ.setdefault("LOG_FILE", str(logs / "vectordb_bench.log"))
        importlib.import_module("vectordb_bench.backend.clients")
        return
    from pydantic import BaseModel

    config = type("DBConfig", (BaseModel,), {"__annotations__": {"db_label": str}, "db_label": ""})
    bases = {name: type(name, (), {}) for name in ("VectorDB", "DBCaseConfig")}
    stand_in.module("vectordb_bench.backend.filter", Filter=object, FilterOp=Operations)
    stand_in.module("vectordb_bench.backend.payload", PayloadProfile=Payloads)
    stand_in.module("vectordb_bench.backend.clients.api", DBConfig=config, MetricType=Metrics, **bases)


class VectorDbBench(unittest.TestCase):
    """An index that both programs serve, and the client."""

    @classmethod
    def setUpClass(cls):
        """Imported as in an installed VectorDBBench; the programs serve an empty index."""
        folder = programs()
        work = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        framework(work)
        path = stand_in.ADAPTERS / "vectordbbench/dyad"
        cls.client = stand_in.adapter("vectordb_bench.backend.clients.dyad.dyad", path)
        cls.config = sys.modules["vectordb_bench.backend.clients.dyad.config"]
        cls.operations = cls.client.FilterOp
        served = stand_in.script("vectordbbench/server.py").served
        searcher, indexer = cls.enterClassContext(served(folder, work, DIM, "cosine"))
        cls.addresses = cls.config.DyadConfig(searcher=searcher, indexer=indexer).to_dict()
        # How long merges must be at rest is not what is tested.
        cls.enterClassContext(mock.patch.object(cls.client, "REST_S", 0.5))

    def database(self, **options):
        """The client as the framework makes it, with nothing in the index."""
        case = self.config.DyadCaseConfig(metric_type=self.config.MetricType.COSINE, ef=200)
        return self.client.Dyad(DIM, self.addresses, case, drop_old=True, **options)

    def test_what_is_inserted_is_found_and_what_is_dropped_is_gone(self):
        vectors, queries = stand_in.rows(400, DIM), stand_in.rows(20, DIM, seed=2)
        database = self.database()
        # The runner copies it into a process for insertions, and into others for searches.
        database = pickle.loads(pickle.dumps(database))
        with database.init():
            self.assertFalse(database.poll_insert_readiness(400)["fully_searchable"])
            for start in (0, 200):
                ids = list(range(start, start + 200))
                self.assertEqual(database.insert_embeddings(vectors[ids].tolist(), ids), (200, None))
            # A batch that is sent again changes nothing.
            self.assertEqual(database.insert_embeddings(vectors[ids].tolist(), ids), (200, None))
            database.optimize(400)
            ready = database.poll_insert_readiness(400)
            self.assertEqual((ready["fully_searchable"], ready["additional_parameters"]), (True, {"documents": 400}))
            found = [database.search_embedding(query.tolist(), 10) for query in queries]
            expected = [stand_in.nearest(vectors, query, 10, "angular") for query in queries]
            self.assertGreater(stand_in.recall(found, expected), 0.97)
            self.assertEqual(len(database.search_embedding(queries[0].tolist(), 100)), 100)
        emptied = self.database()
        with emptied.init():
            self.assertEqual(emptied.search_embedding(queries[0].tolist(), 10), [])

    def test_filters_allow_ids_labels_and_tenants(self):
        vectors = stand_in.rows(300, DIM)
        ids = list(range(300))
        labels = ["label_1p" if number % 5 == 0 else "other" for number in ids]
        tenants = [f"tenant_{number % 3}" for number in ids]
        database = self.database(with_scalar_labels=True)
        with database.init():
            told = database.insert_embeddings(vectors.tolist(), ids, labels_data=labels, tenant_labels_data=tenants)
            self.assertEqual(told, (300, None))
            database.optimize(300)
        from_200 = types.SimpleNamespace(type=self.operations.NumGE, int_field="id", int_value=200)
        labelled = types.SimpleNamespace(type=self.operations.StrEqual, label_field="labels", label_value="label_1p")
        none = types.SimpleNamespace(type=self.operations.NonFilter)
        for filters, tenant, passes in (
            (from_200, None, lambda number: number >= 200),
            (labelled, None, lambda number: number % 5 == 0),
            (labelled, "tenant_1", lambda number: number % 5 == 0 and number % 3 == 1),
            (none, "tenant_2", lambda number: number % 3 == 2),
            (none, None, lambda number: True),
        ):
            database.prepare_filter(filters)
            # The condition goes along into the processes of a concurrent search.
            copy = pickle.loads(pickle.dumps(database))
            allowed = [number for number in ids if passes(number)]
            with copy.init():
                found = [copy.search_embedding(query.tolist(), 10, tenant=tenant) for query in vectors[:10]]
            expected = [
                [allowed[row] for row in stand_in.nearest(vectors[allowed], query, 10, "angular")]
                for query in vectors[:10]
            ]
            self.assertTrue(all(passes(number) for some in found for number in some))
            self.assertGreater(stand_in.recall(found, expected), 0.97)

    def test_what_is_wrong_is_said(self):
        case = self.config.DyadCaseConfig(ef=10)
        with self.assertRaisesRegex(
            ValueError, f"`dim`: expected {DIM}, the values of the vectors of the served index, got 7"
        ):
            self.client.Dyad(7, self.addresses, case)
        with self.assertRaisesRegex(ValueError, "`ef`, `target_recall`: expected one of them, got 10 and 0.9"):
            self.config.DyadCaseConfig(ef=10, target_recall=0.9).search_param()
        with self.assertRaisesRegex(ValueError, "`metric_type`: expected one of COSINE, IP, L2, got HAMMING"):
            self.config.DyadCaseConfig(metric_type=self.config.MetricType.HAMMING).index_param()
        self.assertEqual(self.config.DyadCaseConfig(target_recall=0.9).search_param(), {"target_recall": 0.9})
        database = self.database()
        with database.init():
            inserted, error = database.insert_embeddings([[0.5] * 7], [1])
            self.assertEqual(inserted, 0)
            self.assertRegex(str(error), "7")


if __name__ == "__main__":
    unittest.main()
