"""The adapter of ann-benchmarks, through the calls of its runner."""

import pathlib
import sys
import tempfile
import unittest

import stand_in

stand_in.needs("numpy", "dyad_search")
import numpy


class BaseANN:
    """The methods of the framework's base class that the runner calls."""

    def done(self):
        raise NotImplementedError

    def get_batch_results(self):
        return self.res

    def get_additional(self):
        return {}


class AnnBenchmarks(unittest.TestCase):
    """What the runner gets."""

    @classmethod
    def setUpClass(cls):
        """Imported as in a clone of ann-benchmarks."""
        stand_in.module("ann_benchmarks.algorithms.base.module", BaseANN=BaseANN)
        cls.dyad = stand_in.adapter("ann_benchmarks.algorithms.dyad.module", stand_in.ADAPTERS / "ann_benchmarks").Dyad

    @classmethod
    def tearDownClass(cls):
        for name in [name for name in sys.modules if name.partition(".")[0] == "ann_benchmarks"]:
            del sys.modules[name]

    def test_single_and_batch_queries_find_the_nearest(self):
        train, test = stand_in.rows(800), stand_in.rows(40, seed=2)
        for metric in ("angular", "euclidean"):
            with self.subTest(metric):
                algorithm = self.dyad(metric, {"M": 8, "efConstruction": 40})
                before = algorithm.get_memory_usage()
                algorithm.fit(train)
                self.assertGreater(algorithm.get_memory_usage() - before, train.size / 1024)
                expected = [stand_in.nearest(train, query, 10, metric) for query in test]
                found = {}
                for ef in (10, 200):
                    algorithm.set_query_arguments(ef)
                    found[ef] = [algorithm.query(query, 10) for query in test]
                    # The runner fails on ids that come twice.
                    self.assertTrue(all(len(ids) == len(set(ids)) == 10 for ids in found[ef]))
                self.assertGreater(stand_in.recall(found[200], expected), 0.97)
                self.assertGreaterEqual(stand_in.recall(found[200], expected), stand_in.recall(found[10], expected))
                algorithm.batch_query(test, 10)
                self.assertEqual(algorithm.get_batch_results().tolist(), [ids.tolist() for ids in found[200]])
                self.assertEqual(str(algorithm), "dyad ({'M': 8, 'efConstruction': 40}, 'ef': 200)")
                folder = pathlib.Path(algorithm.index.path)
                self.assertTrue(folder.is_dir())
                algorithm.done()
                self.assertFalse(folder.exists())

    def test_fewer_vectors_than_are_asked_for_are_all_found(self):
        train = stand_in.rows(30)
        algorithm = self.dyad("angular", {"M": 8, "efConstruction": 40})
        algorithm.fit(train)
        self.assertEqual(sorted(algorithm.query(train[0], 100).tolist()), list(range(30)))
        algorithm.batch_query(train[:2].astype(numpy.float64), 100)
        self.assertEqual(algorithm.get_batch_results().shape, (2, 30))
        algorithm.done()

    def test_a_metric_that_dyad_has_not_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "`metric`: expected one of angular, euclidean, got jaccard"):
            self.dyad("jaccard", {"M": 8, "efConstruction": 40})

    def test_files_of_the_data_folder_are_data_sets_besides_the_known(self):
        register = stand_in.script("ann_benchmarks/local_datasets.py").register
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "mine-384-angular.hdf5").touch()
            pathlib.Path(folder, "other.txt").touch()
            known = {"glove-100-angular": max}
            self.assertEqual(register(known, pathlib.Path(folder)), ["mine-384-angular"])
            self.assertEqual(known, {"glove-100-angular": max, "mine-384-angular": None})


if __name__ == "__main__":
    unittest.main()
