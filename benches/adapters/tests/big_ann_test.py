"""The adapters of big-ann-benchmarks, through the calls of the runners of its filter and streaming tracks; and its exact neighbours."""

import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import stand_in

stand_in.needs("numpy", "dyad_search")
import numpy


class BaseANN:
    """The framework's base class of both tracks."""


def tags(lists):
    """A CSR matrix, of which the adapter reads the columns of each row."""
    ends = numpy.cumsum([0, *(len(some) for some in lists)])
    return types.SimpleNamespace(
        indptr=ends, indices=numpy.array([tag for some in lists for tag in some], dtype=numpy.int64)
    )


class Data:
    """A data set of the filter track: a third of the vectors have tag 1, half have 2, and one has 7."""

    vectors = stand_in.rows(600)
    tags_of_vectors = [
        [tag for tag, has in ((1, row % 3 == 0), (2, row % 2 == 0), (7, row == 400)) if has] for row in range(600)
    ]

    def get_dataset(self):
        return self.vectors

    def get_dataset_metadata(self):
        return tags(self.tags_of_vectors)

    def search_type(self):
        return "knn_filtered"


class Unfiltered(Data):
    """The same without tags."""

    def search_type(self):
        return "knn"

    def get_dataset_metadata(self):
        raise AssertionError("a data set without filters has no tags")


class BigAnn(unittest.TestCase):
    """What the runners get."""

    @classmethod
    def setUpClass(cls):
        """Imported as in a clone of the framework."""
        stand_in.module("benchmark.datasets", DATASETS={"small-filter": Data, "small": Unfiltered})
        stand_in.module("neurips23.filter.base", BaseFilterANN=BaseANN)
        stand_in.module("neurips23.streaming.base", BaseStreamingANN=BaseANN)
        cls.tracks = {
            track: stand_in.adapter(f"neurips23.{track}.dyad.dyad", stand_in.ADAPTERS / f"big_ann/{track}/dyad").Dyad
            for track in ("filter", "streaming")
        }

    @classmethod
    def tearDownClass(cls):
        for name in [name for name in sys.modules if name.partition(".")[0] in ("benchmark", "neurips23")]:
            del sys.modules[name]

    def test_a_filtered_search_finds_the_nearest_of_those_that_have_all_tags(self):
        queries = stand_in.rows(30, seed=2)
        asked = [[[1], [2], [1, 2], [7], []][row % 5] for row in range(30)]
        algorithm = self.tracks["filter"]("euclidean", {"M": 8, "efConstruction": 40})
        self.assertFalse(algorithm.load_index("small-filter"))
        algorithm.fit("small-filter")
        algorithm.set_query_arguments({"ef": 200})
        algorithm.filtered_query(queries, tags(asked), 10)
        found, expected = algorithm.get_results(), []
        self.assertEqual((found.shape, found.dtype), ((30, 10), numpy.dtype(numpy.int32)))
        for row, query in enumerate(queries):
            allowed = numpy.array(
                [number for number, has in enumerate(Data.tags_of_vectors) if set(asked[row]) <= set(has)]
            )
            self.assertTrue(set(found[row].tolist()) - {-1} <= set(allowed.tolist()), asked[row])
            expected.append(allowed[stand_in.nearest(Data.vectors[allowed], query, 10, "euclidean")])
        self.assertEqual(found[3].tolist(), [400] + [-1] * 9)
        self.assertGreater(stand_in.recall(found, expected), 0.97)
        algorithm.done()

    def test_a_search_without_filters_finds_the_nearest(self):
        queries = stand_in.rows(30, seed=2)
        algorithm = self.tracks["filter"]("euclidean", {"M": 8, "efConstruction": 40})
        algorithm.fit("small")
        algorithm.set_query_arguments({"ef": 200})
        algorithm.query(queries, 10)
        expected = [stand_in.nearest(Data.vectors, query, 10, "euclidean") for query in queries]
        self.assertGreater(stand_in.recall(algorithm.get_results(), expected), 0.97)
        algorithm.done()

    def test_a_runbook_of_insertions_deletions_and_replacements_is_followed(self):
        vectors, queries = stand_in.rows(700), stand_in.rows(30, seed=2)
        runbook = [
            ("insert", 0, 300),
            ("search",),
            ("insert", 300, 500),
            ("delete", 0, 130),
            ("search",),
            ("insert", 0, 50),
            ("search",),
            ("replace", 200, 250, 500),
            ("search",),
            ("insert", 600, 610),
            ("insert", 610, 620),
            ("insert", 620, 630),
            ("search",),
        ]
        algorithm = self.tracks["streaming"]("euclidean", {"M": 8, "efConstruction": 40, "max_shards": 3})
        algorithm.setup("float32", 700, vectors.shape[1])
        algorithm.set_query_arguments({"ef": 200})
        live = {}
        for step, (operation, *given) in enumerate(runbook):
            if operation == "insert":
                ids = numpy.arange(*given, dtype=numpy.uint32)
                algorithm.insert(vectors[ids], ids)
                live.update((int(number), int(number)) for number in ids)
            elif operation == "delete":
                ids = numpy.arange(*given, dtype=numpy.uint32)
                algorithm.delete(ids)
                live = {tag: row for tag, row in live.items() if not given[0] <= tag < given[1]}
            elif operation == "replace":
                first, end, row = given
                ids = numpy.arange(first, end, dtype=numpy.uint32)
                algorithm.replace(vectors[row : row + end - first], ids)
                live.update((tag, row + tag - first) for tag in range(first, end))
            else:
                algorithm.query(queries, 10)
                found = algorithm.get_results()
                present = numpy.array(sorted(live))
                base = vectors[[live[tag] for tag in present]]
                expected = [present[stand_in.nearest(base, query, 10, "euclidean")] for query in queries]
                self.assertTrue(set(found.ravel().tolist()) <= set(live), step)
                self.assertGreater(stand_in.recall(found, expected), 0.97, step)
        self.assertEqual(len(algorithm.index), len(live))
        self.assertGreaterEqual(algorithm.get_additional()["dyad_merges"], 2)
        with self.assertRaisesRegex(ValueError, "`ids`: expected ids of the index, got 1 that it does not have"):
            algorithm.delete(numpy.array([699], dtype=numpy.uint32))
        algorithm.done()

    def test_exact_neighbours_of_a_step_are_the_tags_of_the_nearest(self):
        base, queries = stand_in.rows(200), stand_in.rows(9, seed=2)
        labels = numpy.arange(200, dtype=numpy.uint32)[::-1] * 3
        with tempfile.TemporaryDirectory() as folder:
            for name, values in (("data", base), ("queries", queries), ("tags", labels[:, None])):
                with pathlib.Path(folder, name).open("wb") as file:
                    numpy.array(values.shape, dtype=numpy.uint32).tofile(file)
                    numpy.ascontiguousarray(values).tofile(file)
            for function, metric in (("l2", "euclidean"), ("mips", "ip")):
                paths = {
                    option: f"{folder}/{name}"
                    for option, name in (("base", "data"), ("query", "queries"), ("tags", "tags"), ("gt", "gt"))
                }
                options = [word for option, path in paths.items() for word in (f"--{option}_file", path)]
                tool = [sys.executable, str(stand_in.ADAPTERS / "big_ann/groundtruth.py")]
                subprocess.run(
                    [*tool, "--dist_fn", function, "--data_type", "float", "--K", "20", *options], check=True
                )
                self.assertEqual(numpy.fromfile(paths["gt"], dtype=numpy.uint32, count=2).tolist(), [9, 20])
                ids = numpy.fromfile(paths["gt"], dtype=numpy.uint32, offset=8, count=180).reshape(9, 20)
                expected = [labels[stand_in.nearest(base, query, 20, metric)] for query in queries]
                self.assertEqual(ids.tolist(), numpy.array(expected).tolist())
                distances = numpy.fromfile(paths["gt"], dtype=numpy.float32, offset=8 + 4 * 180)
                self.assertEqual((len(distances), bool((numpy.diff(distances.reshape(9, 20)) >= 0).all())), (180, True))


if __name__ == "__main__":
    unittest.main()
