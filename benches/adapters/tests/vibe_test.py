"""The adapter of VIBE, through the calls of its runner."""

import sys
import unittest

import stand_in

stand_in.needs("numpy", "dyad_search")
import numpy


class BaseANN:
    """The methods of VIBE's base class that the runner calls."""

    def get_memory_usage(self):
        raise NotImplementedError

    def get_additional(self):
        return {}


def run(algorithm, train, test, k, efs):
    """As VIBE's runner: one build, then for each ef single queries and a batch. Returns what was found, and the attributes."""
    before = algorithm.get_memory_usage()
    algorithm.fit(train)
    size = algorithm.get_memory_usage() - before
    single, batches = {}, {}
    for ef in efs:
        algorithm.set_query_arguments(ef)
        single[ef] = []
        for query in test:
            candidates = algorithm.query(query, k)
            # It looks up rows by what it gets, to compute distances.
            assert len(train[candidates]) == len(candidates)
            single[ef].append([int(candidate) for candidate in candidates])
        algorithm.batch_query(test, k)
        batches[ef] = algorithm.get_batch_results()
    return size, single, batches, algorithm.get_additional()


class Vibe(unittest.TestCase):
    """What the runner gets."""

    @classmethod
    def setUpClass(cls):
        """Imported as in a clone of VIBE."""
        stand_in.module("vibe.algorithms.base.module", BaseANN=BaseANN)
        cls.dyad = stand_in.adapter("vibe.algorithms.dyad.module", stand_in.ADAPTERS / "vibe").Dyad

    @classmethod
    def tearDownClass(cls):
        for name in [name for name in sys.modules if name.partition(".")[0] == "vibe"]:
            del sys.modules[name]

    def test_each_metric_finds_the_nearest_and_a_wider_beam_more_of_them(self):
        train, test = stand_in.rows(800), stand_in.rows(40, seed=2)
        unit = train / numpy.linalg.norm(train, axis=1, keepdims=True)
        for metric, compared, base in (
            ("cosine", "angular", train),
            ("normalized", "ip", unit),
            ("euclidean", "euclidean", train),
            ("ip", "ip", train),
        ):
            with self.subTest(metric):
                size, single, batches, attributes = run(self.dyad(metric, 8, 40), base, test, 10, (10, 200))
                expected = [stand_in.nearest(base, query, 10, compared) for query in test]
                narrow, wide = (stand_in.recall(single[ef], expected) for ef in (10, 200))
                self.assertGreater(wide, 0.97)
                self.assertGreaterEqual(wide, narrow)
                self.assertEqual(batches[200].tolist(), single[200])
                # Kilobytes: at least a code of a byte for each value.
                self.assertGreater(size, base.size / 1024)
                self.assertEqual(attributes["dyad_metric"], self.dyad(metric, 8, 40).metric)

    def test_fewer_vectors_than_are_asked_for_are_all_found(self):
        train = stand_in.rows(30)
        algorithm = self.dyad("euclidean", 8, 40)
        algorithm.fit(train)
        self.assertEqual(sorted(algorithm.query(train[0], 100).tolist()), list(range(30)))

    def test_other_types_are_converted(self):
        train = (stand_in.rows(300) * 20 + 128).clip(0, 255).astype(numpy.uint8)
        algorithm = self.dyad("euclidean", 8, 40)
        algorithm.fit(train)
        algorithm.set_query_arguments(100)
        for row in (0, 7, 299):
            self.assertEqual(
                int(algorithm.query(train[row], 1)[0]), int(stand_in.nearest(train, train[row], 1, "euclidean")[0])
            )

    def test_a_metric_that_dyad_has_not_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "`metric`: expected one of cosine, .*got hamming"):
            self.dyad("hamming", 16, 200)

    def test_a_result_names_its_parameters(self):
        algorithm = self.dyad("cosine", 16, 200)
        algorithm.set_query_arguments(40)
        self.assertEqual(str(algorithm), "Dyad(M=16, efConstruction=200, ef=40)")


if __name__ == "__main__":
    unittest.main()
