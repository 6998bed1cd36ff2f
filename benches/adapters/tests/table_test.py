"""The table of what VIBE and ann-benchmarks have measured."""

import pathlib
import tempfile
import unittest

import stand_in

table = stand_in.script("table.py")


class Table(unittest.TestCase):
    """What is read and picked."""

    def test_the_fastest_that_finds_enough_counts_for_each_recall(self):
        def row(algorithm, recall, qps):
            return {"algorithm": algorithm, "recall": recall, "qps": qps, "build_s": 2.5, "size_mb": 2.0}

        rows = [
            row("hnswlib", 0.96, 500.0),
            row("dyad", 0.91, 900.0),
            row("dyad", 0.98, 700.0),
            row("dyad", 0.95, 600.0),
            row("hnswlib", 0.5, 9000.0),
        ]
        found = table.best(rows, "qps", (0.9, 0.95, 0.99))
        self.assertEqual(list(found), ["dyad", "hnswlib"])
        self.assertEqual(found["dyad"], {"build_s": 2.5, "size_mb": 2.0, 0.9: 900.0, 0.95: 700.0, 0.99: None})
        self.assertEqual(found["hnswlib"], {"build_s": 2.5, "size_mb": 2.0, 0.9: 500.0, 0.95: 500.0, 0.99: None})

    def test_files_of_both_frameworks_are_read(self):
        stand_in.needs("numpy", "h5py")
        import h5py
        import numpy

        truth = numpy.array([[0.1, 0.2, 0.3], [0.1, 0.1, 0.1]])
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            # One that is .0005 farther than the second neighbour counts, and one that was not found does not.
            for name, groups in (("ann.hdf5", [""]), ("vibe.hdf5", ["10", "20"])):
                with h5py.File(results / name, "w") as file:
                    for group in groups:
                        run = file.create_group(group) if group else file
                        attributes = {
                            "algo": name[:4],
                            "name": group,
                            "count": 2,
                            "best_search_time": 0.001,
                            "build_time": 3.0,
                        }
                        run.attrs.update(attributes | {"index_size": 2048.0})
                        run["times"] = numpy.array([0.002, 0.004], dtype=numpy.float32)
                        run["distances"] = numpy.array([[0.1, 0.2005], [0.1, numpy.inf]], dtype=numpy.float32)
            rows = list(table.runs(results, truth))
            self.assertEqual(
                [(row["algorithm"], row["name"]) for row in rows], [("ann.", ""), ("vibe", "10"), ("vibe", "20")]
            )
            for row in rows:
                self.assertEqual((row["recall"], row["build_s"], row["size_mb"]), (0.75, 3.0, 2.0))
                self.assertAlmostEqual(row["qps"], 1000)
                self.assertAlmostEqual(row["of_median"], 1000 / 3, places=3)
            with self.assertRaisesRegex(SystemExit, "`--data`: expected 2 queries with 2 neighbours, got "):
                list(table.runs(results, truth[:1]))


if __name__ == "__main__":
    unittest.main()
