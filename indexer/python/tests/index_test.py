"""Tests of the package, by its module of a build."""

import os
import pathlib
import pickle
import signal
import tempfile
import threading
import time
import tracemalloc
import unittest

import numpy
from dyad_search import Index


def rows(count, dim=32, seed=1):
    """Unit vectors that lie in clusters."""
    random = numpy.random.default_rng(seed)
    centres = random.standard_normal((20, dim))
    made = centres[random.integers(0, 20, count)] + 0.5 * random.standard_normal((count, dim))
    return (made / numpy.linalg.norm(made, axis=1, keepdims=True)).astype(numpy.float32)


def exact(vectors, question, k):
    """The numbers of the nearest rows."""
    return numpy.argsort(-(vectors @ question), kind="stable")[:k]


class Searches(unittest.TestCase):
    """What a search finds."""

    @classmethod
    def setUpClass(cls):
        """One index for all."""
        cls.vectors = rows(2000)
        cls.index = Index.build(cls.vectors, metadata=[{"even": number % 2 == 0, "number": number} for number in range(2000)])

    def test_ids_and_scores_are_arrays_of_one_question_or_of_many(self):
        ids, scores = self.index.search(self.vectors[7], k=5, exact=True)
        self.assertEqual((ids.dtype, scores.dtype, ids.shape), (numpy.int64, numpy.float32, (5,)))
        self.assertEqual(ids.tolist(), exact(self.vectors, self.vectors[7], 5).tolist())
        self.assertAlmostEqual(float(scores[0]), 1.0, places=5)
        many, _ = self.index.search(self.vectors[:50], k=10, ef=200)
        self.assertEqual(many.shape, (50, 10))
        found = [len(set(row) & set(exact(self.vectors, question, 10))) for row, question in zip(many, self.vectors[:50], strict=True)]
        self.assertGreater(sum(found) / 500, 0.97)
        for threads in (0, 3):
            again, _ = self.index.search(self.vectors[:50], k=10, ef=200, threads=threads)
            self.assertTrue((again == many).all())

    def test_other_arrays_are_converted(self):
        expected, _ = self.index.search(self.vectors[:4], exact=True)
        for given in (
            self.vectors[:4].astype(numpy.float64),
            numpy.asfortranarray(self.vectors[:4]),
            numpy.repeat(self.vectors[:4], 2, axis=0)[::2],
            self.vectors[:4].tolist(),
        ):
            ids, _ = self.index.search(given, exact=True)
            self.assertTrue((ids == expected).all())
        twice, scores = self.index.search(2 * self.vectors[:4], exact=True)
        self.assertTrue((twice == expected).all() and scores.max() < 1.01)

    def test_one_text_among_keys_that_are_numbers_is_found(self):
        # Not every key is looked at when an index is opened.
        keys = [str(number) for number in range(1000)]
        keys[1] = "one"
        index = Index.build(self.vectors[:1000], keys=keys)
        ids, _ = index.search(self.vectors[:3], k=1, exact=True)
        self.assertEqual((ids.dtype, ids[:, 0].tolist()), (numpy.dtype(object), ["0", "one", "2"]))
        ids, _ = index.search(self.vectors[2], k=1, exact=True)
        self.assertEqual((ids.dtype, ids.tolist()), (numpy.dtype(numpy.int64), [2]))

    def test_filters_are_keys_masks_and_conditions(self):
        question = self.vectors[3]
        ids, _ = self.index.search(question, k=3, filter={"even": True})
        self.assertTrue((ids % 2 == 0).all())
        ids, _ = self.index.search(question, k=3, filter={"number": {">=": 1990}})
        self.assertTrue((ids >= 1990).all())
        mask = numpy.zeros(2000, dtype=bool)
        mask[[5, 9]] = True
        ids, scores = self.index.search(question, k=3, filter=mask)
        self.assertEqual((set(ids.tolist()), bool(numpy.isnan(scores[2]))), ({5, 9, -1}, True))
        ids, _ = self.index.search(question, k=3, filter=[5, "9", 123456])
        self.assertEqual(set(ids.tolist()), {5, 9, -1})
        for wrong, said in ((mask[:7], "a boolean for each number"), ({}, "`filter`: expected one of"), (7, "`filter`"), ({"a": {"??": 1}}, "`filter`")):
            with self.assertRaisesRegex((ValueError, TypeError), said):
                self.index.search(question, filter=wrong)

    def test_what_is_wrong_is_said(self):
        for given, said in (
            (self.vectors[:2, :5], "vectors of 32 values, as those of the index, got 5"),
            (numpy.full(32, numpy.nan), "finite numbers, got NaN in row 0"),
            (numpy.zeros((1, 1, 32)), r"rows of numbers, or one row, got shape \(1, 1, 32\)"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                self.index.search(given)
        with self.assertRaisesRegex(ValueError, "`k`: expected at least 1, got 0"):
            self.index.search(self.vectors[0], k=0)
        with self.assertRaisesRegex(ValueError, "`metric`: expected `cosine`, `dot` or `l2`, got `angular`"):
            Index.build(self.vectors, metric="angular")
        with self.assertRaisesRegex(ValueError, r"`keys\[1\]`: expected a key that no other document has, got `a`"):
            Index.build(self.vectors[:2], keys=["a", "a"])
        with self.assertRaisesRegex(ValueError, "`texts`: expected 2, one for each vector, got 1"):
            Index.build(self.vectors[:2], texts=["one"])
        with self.assertRaises(ValueError):
            Index.open("/nowhere")

    def test_a_recall_chooses_the_beam_by_the_certificates(self):
        ef, note = self.index.ef_for(0.9)
        wider, _ = self.index.ef_for(0.99)
        self.assertTrue(16 <= ef <= wider, (ef, wider))
        self.assertIn("measured recall with documents, not with questions", note)
        ids, _ = self.index.search(self.vectors[:50], k=10, recall=0.99)
        found = [len(set(row) & set(exact(self.vectors, question, 10))) for row, question in zip(ids, self.vectors[:50], strict=True)]
        self.assertGreater(sum(found) / 500, 0.97)
        for options, said in (
            ({"recall": 1.0}, "`recall`: expected above 0 and below 1"),
            ({"recall": 0.9, "ef": 40}, "`ef`: expected one of `ef`, `recall` and `exact`, got several"),
            ({"exact": True, "ef": 40}, "`ef`: expected one of"),
            ({"ef": 0}, "`ef`: expected at least 1, got 0"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                self.index.search(self.vectors[0], **options)

    def test_memory_is_told_by_what_it_is_for(self):
        told = self.index.memory()
        self.assertGreater(told["hot"], 2000 * 32 // 8)
        self.assertGreater(told["cold"], 2000 * 32 * 4)
        self.assertGreater(told["anonymous"], 0)

    def test_float32_rows_are_not_copied(self):
        self.index.search(self.vectors, k=1)
        tracemalloc.start()
        self.index.search(self.vectors, k=1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.assertLess(most, self.vectors.nbytes // 2)

    def test_other_threads_go_on(self):
        count, stop = 0, threading.Event()

        def search():
            while not stop.is_set():
                self.index.search(self.vectors, k=10, ef=200)

        worker = threading.Thread(target=search)
        worker.start()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            count += 1
            time.sleep(0.001)
        stop.set()
        worker.join()
        # It is held only to read arrays and to make them.
        self.assertGreater(count, 100)


class SearchesByText(unittest.TestCase):
    """BM25 and its fusion with the dense ranking."""

    @classmethod
    def setUpClass(cls):
        """An index of texts of which each has a word of its own."""
        cls.vectors = rows(300)
        texts = [f"common words and w{number}" for number in range(300)]
        cls.index = Index.build(cls.vectors, texts=texts, metadata=[{"even": number % 2 == 0} for number in range(300)])

    def test_bm25_finds_words(self):
        ids, scores = self.index.bm25("w17", k=3)
        self.assertEqual((ids.tolist(), bool(numpy.isnan(scores[1]))), ([17, -1, -1], True))
        ids, _ = self.index.bm25(["w5", "w9 w11", "absent"], k=2, threads=2)
        self.assertEqual((ids[0].tolist(), sorted(ids[1].tolist()), ids[2].tolist()), ([5, -1], [9, 11], [-1, -1]))
        ids, _ = self.index.bm25("common", k=300, filter={"even": True})
        self.assertEqual(sorted(ids.tolist())[150:], list(range(0, 300, 2)))

    def test_documents_are_read_back(self):
        ids, _ = self.index.bm25("w17", k=1)
        self.assertEqual(
            self.index.documents([*ids, "absent"]),
            [{"key": "17", "title": "", "text": "common words and w17", "metadata": {"even": False}}, None],
        )
        with self.assertRaisesRegex(ValueError, "`keys`: expected a list of texts, got a text"):
            self.index.documents("17")

    def test_hybrid_fuses_both_rankings(self):
        question = self.vectors[40]
        nearest, _ = self.index.search(question, k=10, exact=True)
        ids, scores = self.index.hybrid("w17", question, k=10, exact=True)
        self.assertTrue({17, 40} <= set(ids.tolist()), ids)
        self.assertTrue((numpy.diff(scores) <= 0).all())
        dense_alone, _ = self.index.hybrid("w17", question, k=10, dense_weight=1, exact=True)
        self.assertEqual(dense_alone.tolist(), nearest.tolist())
        text_alone, _ = self.index.hybrid("w17", question, k=1, dense_weight=0)
        self.assertEqual(text_alone.tolist(), [17])
        many, _ = self.index.hybrid(["w17", "w18"], self.vectors[40:42], k=10, exact=True)
        self.assertEqual((many.shape, many[0].tolist()), ((2, 10), ids.tolist()))
        for arguments, said in (
            ((["a", "b"], question), "`vectors`: expected 2, one for each text, got 1"),
            (("a", question, 0), "`k`: expected at least 1"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                self.index.hybrid(*arguments)
        with self.assertRaisesRegex(ValueError, "`dense_weight`: expected from 0 to 1, got 2"):
            self.index.hybrid("a", question, dense_weight=2)


class Changes(unittest.TestCase):
    """An index that changes."""

    def test_documents_are_added_replaced_deleted_and_merged(self):
        vectors = rows(300)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "index"
            index = Index.build(vectors[:200], keys=[f"d{number}" for number in range(200)], texts=["a text"] * 200, path=path)
            other = Index.open(path)
            self.assertEqual((len(index), "d7" in index, "x" in index, index.generation), (200, True, False, 1))
            told = index.append(vectors[200:202], keys=["n0", "n1"])
            self.assertEqual((told["indexed"], told["documents"], told["generation"]), (2, 202, 2))
            with self.assertRaisesRegex(ValueError, "n0"):
                index.append(vectors[202:203], keys=["n0"])
            told = index.upsert(vectors[210:212], keys=["n0", "n2"])
            self.assertEqual((told["indexed"], told["documents"]), (2, 203))
            ids, _ = index.search(vectors[210], k=2, exact=True)
            self.assertEqual((ids.dtype, ids[0]), (numpy.dtype(object), "n0"))
            told = index.delete(["n1", "absent"])
            self.assertEqual((told["indexed"], told["rejected"], len(index)), (1, 1, 202))
            self.assertEqual((len(other), other.reload(), len(other)), (200, index.generation, 202))
            index.merge()
            self.assertEqual((len(index), len(index.certificate())), (202, 1))
            again = pickle.loads(pickle.dumps(index))
            self.assertEqual((again.path, len(again), again.generation), (index.path, 202, index.generation))
            self.assertIn("documents=202, dim=32, metric='cosine'", repr(again))

    def test_a_shard_is_read_alone_and_is_not_changed(self):
        vectors = rows(300)
        with tempfile.TemporaryDirectory() as folder:
            index = Index.build(vectors[:200], path=pathlib.Path(folder) / "index")
            index.append(vectors[200:], keys=list(range(200, 300)))
            shards = [Index.open(path) for path in (pathlib.Path(folder) / "index/shards").iterdir()]
            self.assertEqual(sorted(map(len, shards)), [100, 200])
            small = min(shards, key=len)
            ids, _ = small.search(vectors[250], k=200, exact=True)
            self.assertEqual((ids[0], set(ids.tolist()) - {-1}), (250, set(range(200, 300))))
            again = pickle.loads(pickle.dumps(small))
            self.assertEqual((len(again), again.path), (100, small.path))
            for change in (lambda: small.delete([250]), small.merge, lambda: small.append(vectors[:1], keys=["n"])):
                with self.assertRaisesRegex(ValueError, "`path`: expected a whole index. Open .*/index to change it, got its shard"):
                    change()
            index.merge()
            with self.assertRaisesRegex(ValueError, "no shard"):
                small.reload()
            # What is open stays so.
            self.assertEqual(len(small), 100)

    def test_rows_may_have_half_the_bytes(self):
        vectors = rows(500)
        whole, half = Index.build(vectors), Index.build(vectors, dtype="float16")
        self.assertLess(half.memory()["cold"], whole.memory()["cold"])
        self.assertEqual(half.search(vectors[9], k=1, exact=True)[0].tolist(), [9])
        codes = Index.build(vectors, dtype="int8")
        self.assertLess(codes.memory()["cold"] + 500 * 32, half.memory()["cold"])
        self.assertEqual(codes.search(vectors[9], k=1, exact=True)[0].tolist(), [9])
        with self.assertRaisesRegex(ValueError, "`dtype`: expected `float32`, `float16` or `int8`, got `int4`"):
            Index.build(vectors, dtype="int4")
        with self.assertRaisesRegex(ValueError, "`dtype`: expected .*, or at least one vector, got `int8` without vectors"):
            Index.build(vectors[:0], dtype="int8")

    def test_the_first_values_may_be_kept_alone(self):
        vectors, questions = rows(600), rows(20, seed=2)
        index = Index.build(vectors[:500], dimensions=8)
        self.assertEqual(index.dim, 8)
        index.upsert(vectors[500:], keys=range(500, 600))
        index.merge()

        def cut(many):
            first = many[:, :8]
            return first / numpy.linalg.norm(first, axis=1, keepdims=True)

        for given in (questions, cut(questions)):
            ids, _ = index.search(given, k=3, exact=True)
            for found, question in zip(ids, cut(questions)):
                self.assertEqual(found.tolist(), exact(cut(vectors), question, 3).tolist())
        with self.assertRaisesRegex(ValueError, "`vectors`: expected vectors of 32 or 8 values, as those of the index, got 9"):
            index.search(questions[:, :9], k=3)
        with self.assertRaisesRegex(ValueError, "`dimensions`: expected 1 to 32, .* got 33"):
            Index.build(vectors, dimensions=33)

    def test_an_index_may_begin_empty(self):
        index = Index.build(numpy.zeros((0, 32), numpy.float32))
        ids, _ = index.search(rows(1)[0], k=2)
        self.assertEqual((len(index), ids.tolist()), (0, [-1, -1]))
        index.upsert(rows(3), keys=[1, 2, 3])
        self.assertEqual((len(index), index.search(rows(3)[1], k=1)[0].tolist()), (3, [2]))

    def test_other_metrics_keep_lengths(self):
        vectors = rows(100) * numpy.linspace(0.5, 2, 100, dtype=numpy.float32)[:, None]
        by_product = Index.build(vectors, metric="dot")
        ids, scores = by_product.search(vectors[3], k=1, exact=True)
        best = int((vectors @ vectors[3]).argmax())
        self.assertEqual(int(ids[0]), best)
        self.assertAlmostEqual(float(scores[0]), float(vectors[best] @ vectors[3]), places=4)
        by_distance = Index.build(vectors, metric="l2")
        ids, scores = by_distance.search(vectors[3], k=1, exact=True)
        self.assertEqual((int(ids[0]), round(float(scores[0]), 3) + 0.0), (3, 0.0))

    def test_ctrl_c_ends_a_build_and_leaves_what_was_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "index"
            Index.build(rows(50, 128), path=path)
            vectors, stages, pressed = rows(60_000, 128), [], threading.Event()

            def progress(*told):
                stages.append(told)
                if not pressed.is_set():
                    pressed.set()
                    os.kill(os.getpid(), signal.SIGINT)

            with self.assertRaises(KeyboardInterrupt):
                Index.build(vectors, path=path, threads=1, progress=progress)
            self.assertEqual((len(Index.open(path)), Index.open(path).generation), (50, 1))
            self.assertTrue(stages and all(len(told) == 3 for told in stages), stages[:3])

    def test_a_callback_that_raises_ends_a_build(self):
        def progress(*_):
            raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            Index.build(rows(60_000, 128), threads=1, progress=progress)


if __name__ == "__main__":
    unittest.main()
