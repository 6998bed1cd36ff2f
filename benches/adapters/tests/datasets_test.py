"""datasets.py: exact neighbours, and the files of each format."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import stand_in

stand_in.needs("numpy")
import numpy

SCRIPT = stand_in.ADAPTERS / "datasets.py"


def made(folder, form, *options):
    """What the script writes of small data, and its arrays."""
    base, queries = stand_in.rows(300), stand_in.rows(20, seed=2)
    numpy.save(folder / "base.npy", base.astype(numpy.float16))
    numpy.save(folder / "queries.npy", queries)
    given = [
        "--base",
        folder / "base.npy",
        "--queries",
        folder / "queries.npy",
        "--format",
        form,
        "--out",
        folder / "out",
        "--neighbors",
        "10",
    ]
    done = subprocess.run([sys.executable, SCRIPT, *given, *options], capture_output=True, text=True, check=False)
    return done, base.astype(numpy.float16).astype(numpy.float32), queries


class Datasets(unittest.TestCase):
    """What is written."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_neighbours_are_the_nearest_and_of_equal_ones_the_lower_row(self):
        exact = stand_in.script("datasets.py").exact
        base = numpy.array([[1, 0], [0, 1], [1, 0], [0.6, 0.8], [1, 0]], dtype=numpy.float32)
        for metric, far in (("cosine", [0, 0, 0]), ("l2", [0, 0, 0])):
            neighbors, distances, _ = exact(base, base[:1], 3, metric)
            self.assertEqual((neighbors.tolist(), distances.round(6).tolist()), ([[0, 2, 4]], [far]))
        neighbors, distances, means = exact(base, numpy.array([[0, 1]], dtype=numpy.float32), 5, "cosine")
        self.assertEqual(neighbors.tolist(), [[1, 3, 0, 2, 4]])
        self.assertEqual((distances.round(6).tolist(), round(float(means[0]), 6)), ([[0, 0.2, 1, 1, 1]], 0.64))

    def test_files_of_vibe_and_ann_benchmarks_have_what_their_runners_read(self):
        stand_in.needs("h5py")
        import h5py

        for form, metric, name in (
            ("vibe", "cosine", "normalized"),
            ("vibe", "l2", "euclidean"),
            ("ann-benchmarks", "cosine", "angular"),
            ("ann-benchmarks", "l2", "euclidean"),
        ):
            with self.subTest(form=form, metric=metric):
                done, base, queries = made(self.folder, form, "--metric", metric)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("300 vectors, 20 queries, 24 values, 10 neighbours", done.stdout)
                with h5py.File(self.folder / "out") as file:
                    self.assertEqual(
                        (file.attrs["distance"], file.attrs["dimension"], file.attrs["point_type"]), (name, 24, "float")
                    )
                    self.assertEqual(file.attrs.get("type"), "dense" if form == "ann-benchmarks" else None)
                    self.assertEqual("avg_distances" in file, form == "vibe")
                    compared = "angular" if metric == "cosine" else "euclidean"
                    expected = [stand_in.nearest(base, query, 10, compared).tolist() for query in queries]
                    self.assertEqual(file["neighbors"][:].tolist(), expected)
                    self.assertEqual(
                        (file["train"].dtype, file["train"].shape, file["test"].shape),
                        (numpy.float32, (300, 24), (20, 24)),
                    )
                    lengths = numpy.linalg.norm(file["train"][:], axis=1)
                    self.assertEqual(bool(numpy.allclose(lengths, 1, atol=1e-6)), metric == "cosine")
                    near = file["train"][:][file["neighbors"][0]]
                    far = (
                        1 - near @ file["test"][0]
                        if metric == "cosine"
                        else numpy.linalg.norm(near - file["test"][0], axis=1)
                    )
                    self.assertTrue(numpy.allclose(file["distances"][0], far, atol=1e-5))

    def test_a_folder_of_vectordbbench_has_its_tables(self):
        stand_in.needs("pyarrow")
        import pyarrow.parquet

        done, base, queries = made(self.folder, "vectordbbench", "--metric", "l2", "--vectors", "100")
        self.assertEqual(done.returncode, 0, done.stderr)
        train, test, neighbors = (
            pyarrow.parquet.read_table(self.folder / f"out/{name}.parquet") for name in ("train", "test", "neighbors")
        )
        self.assertEqual((train["id"].to_pylist(), test.num_rows), (list(range(100)), 20))
        self.assertEqual(train["emb"][7].as_py(), base[7].tolist())
        expected = [stand_in.nearest(base[:100], query, 10, "euclidean").tolist() for query in queries]
        self.assertEqual(neighbors["neighbors_id"].to_pylist(), expected)

    def test_what_is_wrong_is_said(self):
        numpy.save(self.folder / "short.npy", stand_in.rows(20, dim=7))
        numpy.save(self.folder / "zero.npy", numpy.zeros((3, 24)))
        for options, said in (
            (
                ("--queries", self.folder / "short.npy"),
                "`--queries`: expected rows of 24 numbers, as those of `--base`, got 7",
            ),
            (("--neighbors", "301"), "`--neighbors`: expected 1 to 300, the number of vectors, got 301"),
            (("--base", self.folder / "zero.npy"), "expected rows with a direction, got zeros in row 0"),
        ):
            done, _, _ = made(self.folder, "vibe", *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)
            self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
