"""What the stores of LangChain, LlamaIndex and Haystack share, without servers and without the frameworks."""

import itertools
import math
import random
import types
import unittest
import warnings

from dyad_client import Document, Request, field
from dyad_client.diversity import maximal_marginal_relevance
from dyad_client.store import Store, by_vectors, check_cosine, made, told
from dyad_client.store_filters import named, of_haystack, of_langchain


def store(**options):
    return Store("127.0.0.1:1", None, **options)


class Documents(unittest.TestCase):
    """Metadata of a framework as those of an index, and back."""

    def test_title(self):
        document = store().document("k", "text", {"title": "Io", "n": 1})
        self.assertEqual((document.title, document.metadata), ("Io", {"n": 1}))
        self.assertEqual(store().metadata(document), {"title": "Io", "n": 1})
        for metadata in ({"title": ""}, {"title": None}, {}, {"key": "k"}):
            document = store().document("k", "text", metadata)
            self.assertEqual((document.title, store().metadata(document)), ("", metadata))
        with self.assertRaisesRegex(ValueError, "document 'k': `title`: expected a text.*got int"):
            store().document("k", "text", {"title": 3})

    def test_another_title(self):
        document = store(title="heading").document("k", "text", {"heading": "Io", "title": 3})
        self.assertEqual((document.title, document.metadata), ("Io", {"title": 3}))
        self.assertEqual(store(title="heading").metadata(document), {"heading": "Io", "title": 3})
        # Read by a store that has not written it.
        with self.assertRaisesRegex(ValueError, "document 'k': expected a title or the metadata field `title`, got both"):
            store().metadata(document)
        self.assertEqual(store(title=None).metadata(document), {"title": 3})
        self.assertEqual(store(title=None).document("k", "text", {"title": "Io"}).title, "")

    def test_of_one_key_the_last_counts(self):
        documents = [Document("a", "1"), Document("b", "2", vector=[1.0]), Document("a", "3", vector=[1.0]), Document("c", "4")]
        parts = [([document.text for document in some], has_vectors) for some, has_vectors in by_vectors(documents)]
        self.assertEqual(parts, [(["3", "2"], True), (["4"], False)])


class Searches(unittest.TestCase):
    """Requests, and what replies leave out."""

    def request(self, text, vector=None, mode=None, k=3, **arguments):
        return store(mode=mode).request(text, vector, "f", k, None, arguments)

    def test_mode(self):
        for request, expected in (
            (self.request("a"), (None, None, "")),
            (self.request("a", [1.0]), (None, [1.0], "f")),
            (self.request("a", [1.0], mode="bm25"), ("bm25", None, "")),
            (self.request("a", [1.0], "bm25", **{"k": 2}), ("bm25", None, "")),
            (self.request("", [1.0], mode="hybrid"), ("dense", [1.0], "f")),
        ):
            self.assertIsInstance(request, Request)
            self.assertEqual((request.mode, request.vector, request.fingerprint), expected)
        self.assertEqual(store(mode="bm25").request("a", [1.0], "f", 3, None, {"mode": "dense"}).mode, "dense")

    def test_what_cannot_be_asked(self):
        for arguments, error, message in (
            ({"mode": "compare"}, ValueError, "`mode`"),
            ({"keys_only": True}, TypeError, "keys_only"),
            ({"text_bytes": 1}, TypeError, "text_bytes"),
        ):
            with self.assertRaisesRegex(error, message):
                store().request("a", None, "", 3, None, arguments)
        with self.assertRaisesRegex(ValueError, "`mode`: expected dense for a vector without a text, got bm25"):
            store().request("", [1.0], "f", 3, None, {"mode": "bm25"})
        with self.assertRaisesRegex(ValueError, "`k`: expected at least 1 hit, got 0"):
            self.request("a", k=0)
        with self.assertRaisesRegex(ValueError, "`indexer`"):
            store().upsert([Document("a", "text")])

    def test_warnings(self):
        whole = types.SimpleNamespace(degraded="", notes=(), hits=(1,))
        for call, given in ((told, whole), (made, types.SimpleNamespace(searchable=True)), (made, types.SimpleNamespace(searchable=None))):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call(given)
        degraded = types.SimpleNamespace(degraded="no encoder", notes=("a note",), hits=(1,))
        with self.assertWarnsRegex(RuntimeWarning, "no encoder"), self.assertLogs("dyad_client", "INFO"):
            self.assertEqual(told(degraded), (1,))
        with self.assertWarnsRegex(RuntimeWarning, "generation 7"):
            made(types.SimpleNamespace(searchable=False, generation=7))

    def test_metric(self):
        status = lambda metric: types.SimpleNamespace(index="i", message=types.SimpleNamespace(index_model=types.SimpleNamespace(metric=metric)))  # noqa: E731
        check_cosine(status(1))
        for metric in (2, 3):
            with self.assertRaisesRegex(ValueError, "cosine"):
                check_cosine(status(metric))


class Filters(unittest.TestCase):
    """Names of fields; the rest is asked of servers."""

    def test_names(self):
        name = named("heading")
        for given, expected in (("heading", "title"), ("title", "metadata.title"), ("key", "metadata.key"), ("a.b", "a.b")):
            self.assertEqual(name(given).name, expected)
        self.assertEqual(repr(of_langchain({"title": "a"}, named("title"))), repr(field("title") == "a"))
        self.assertEqual(repr(of_haystack({"field": "id", "operator": "==", "value": "a"}, name)), repr(field("key") == "a"))
        self.assertIsNone(of_langchain({}, name))
        self.assertIsNone(of_haystack(None, name))
        with self.assertRaisesRegex(TypeError, "`filter`"):
            of_langchain(lambda document: True, name)


def slow(relevance, vectors, k, weight):
    """The definition, with all cosines computed for every choice."""
    cosine = lambda one, other: sum(map(math.prod, zip(one, other))) / math.hypot(*one) / math.hypot(*other)  # noqa: E731
    chosen = []
    while len(chosen) < min(k, len(vectors)):
        scores = {}
        for at in range(len(vectors)):
            if at not in chosen:
                redundancy = max((cosine(vectors[at], vectors[other]) for other in chosen), default=0.0)
                scores[at] = weight * relevance[at] - (1 - weight) * redundancy
        chosen.append(max(scores, key=scores.get))
    return chosen


class Diversity(unittest.TestCase):
    """Maximal marginal relevance, against its definition."""

    def test_as_the_definition(self):
        chance = random.Random(1)
        for count, k, weight in itertools.product((0, 1, 7), (1, 3, 9), (0.0, 0.3, 0.5, 1.0)):
            vectors = [[chance.gauss(0, 1) for _ in range(4)] for _ in range(count)]
            relevance = [chance.uniform(-1, 1) for _ in range(count)]
            self.assertEqual(maximal_marginal_relevance(relevance, vectors, k, weight), slow(relevance, vectors, k, weight))
        with self.assertRaisesRegex(ValueError, "`lambda_mult`"):
            maximal_marginal_relevance([1.0], [[1.0]], 1, 1.5)


if __name__ == "__main__":
    unittest.main()
