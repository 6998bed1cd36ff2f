"""One index, by Python and by programs: package_served.py BINARIES, for package.py, by a Python that has the package.

What `dyad_search` builds and changes is served by `dyad-searcher`, and what `dyad-indexer` builds and changes is opened
by `dyad_search`: both give the same keys and scores by vectors, by BM25 and by hybrid, of all documents and of those
that a filter allows, and the same documents.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import numpy
from dyad_search import Index
from programs import serving

COUNT, DIM, K, QUESTIONS, SEED, COMMAND_S = 500, 24, 10, 8, 20261130, 120
WORDS = "river ocean mountain comet planet forest engine bridge museum desert signal harbour".split()
FILTERS = (None, {"third": 1}, {"year": {">=": 2005}, "tags": ["b", "c"]})
# Set by `main`.
SETTINGS = {}


def made_documents():
    """Documents with words, titles and metadata; those of each three have a document in common, as passages have."""
    chance = numpy.random.default_rng(SEED)
    documents = []
    for number in range(COUNT):
        words = [WORDS[place] for place in chance.integers(0, len(WORDS), chance.integers(2, 12))]
        metadata = {"third": number % 3, "year": 2000 + number % 10, "tags": ["abcd"[number % 4]]}
        if number % 5:
            metadata["document"] = f"d{number // 3}"
        text = {"title": f"Title {number}", "text": " ".join(words)}
        documents.append({"key": f"k{number}", **text, "metadata": metadata})
    return documents


def made_vectors(count, seed):
    """Vectors of different lengths."""
    chance = numpy.random.default_rng(seed)
    return (chance.standard_normal((count, DIM)) * chance.uniform(0.5, 2, (count, 1))).astype(numpy.float32)


def columns(documents):
    """Documents as `Index` takes them."""
    return {
        "keys": [one["key"] for one in documents],
        "texts": [one["text"] for one in documents],
        "titles": [one["title"] for one in documents],
        "metadata": [one["metadata"] for one in documents],
    }


def ask(url, path, body=None):
    """The reply of a server."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, sent, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=COMMAND_S) as reply:
        return json.load(reply)


@contextlib.contextmanager
def searcher(folder, *options):
    """The URL of a searcher of the index in a folder."""
    options = ("--index", "index", "--question-tower", "none", "--http", "127.0.0.1:0", *options)
    with serving(SETTINGS["binaries"], folder, "dyad-searcher", *options) as addresses:
        yield f"http://{addresses['HTTP']}"


def indexer(folder, verb, *options):
    """Runs a verb of the indexer for the index in a folder."""
    command = [SETTINGS["binaries"] / "dyad-indexer", verb, "--index", "index", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{done.args}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def write_corpus(path, documents):
    """Documents as JSON lines."""
    renamed = [{"_id" if name == "key" else name: value for name, value in one.items()} for one in documents]
    path.write_text("".join(json.dumps(one) + "\n" for one in renamed))


class SharedIndexTest(unittest.TestCase):
    """An index in a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.documents, cls.vectors = made_documents(), made_vectors(COUNT, SEED)
        chance = numpy.random.default_rng(SEED + 1)
        cls.texts = [" ".join(chance.choice(WORDS, 3, replace=False)) for _ in range(QUESTIONS)]
        cls.questions = made_vectors(QUESTIONS, SEED + 2)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def assert_hits(self, reply, found, k, told):
        """The hits of a server are those of Python, whose arrays are filled up where there are fewer."""
        ids, scores = found
        count = len(reply["hits"])
        self.assertEqual([hit["key"] for hit in reply["hits"]], [str(one) for one in ids[:count]], told)
        self.assertTrue(all(one in (None, -1) for one in ids[count:]), told)
        self.assertEqual((len(ids), bool(numpy.isnan(scores[count:]).all())), (k, True), told)
        served = [hit.get("score", 0.0) for hit in reply["hits"]]
        numpy.testing.assert_allclose(served, scores[:count], rtol=1e-6, atol=1e-6, err_msg=str(told))
        self.assertFalse(reply.get("degraded", False), told)
        return count

    def assert_same_answers(self, url, index):
        """Every mode, with each filter, gives by HTTP what it gives in this process."""
        fingerprint = ask(url, "/v1/status")["index_model"]["fingerprint"]
        hits = 0
        for text, vector in zip(self.texts, self.questions, strict=True):
            by_vector = {"vector": vector.tolist(), "fingerprint": fingerprint}
            for filter in FILTERS:
                same = {"k": K} | ({} if filter is None else {"filter": filter})
                for exact in (True, False):
                    dense = {"mode": "MODE_DENSE", "exact": exact, **by_vector, **same}
                    found = index.search(vector, K, exact=exact, filter=filter)
                    hits += self.assert_hits(ask(url, "/v1/search", dense), found, K, (dense, text))
                    hybrid = {"mode": "MODE_HYBRID", "query": text, "exact": exact, **by_vector, **same}
                    found = index.hybrid(text, vector, K, exact=exact, filter=filter)
                    hits += self.assert_hits(ask(url, "/v1/search", hybrid), found, K, hybrid)
                bm25 = {"mode": "MODE_BM25", "query": text, **same}
                hits += self.assert_hits(ask(url, "/v1/search", bm25), index.bm25(text, K, filter=filter), K, bm25)
        self.assertGreater(hits, QUESTIONS * len(FILTERS) * 5 * K // 2)

    def assert_same_documents(self, url, index, keys):
        """Documents are read back as they were given, by both."""
        reply = ask(url, "/v1/documents", {"keys": keys})
        served = {one["key"]: one for one in reply["documents"]}
        for key, read in zip(keys, index.documents(keys), strict=True):
            got = served.get(key)
            named = {name: got.get(name, "") for name in ("key", "title", "text", "metadata")} if got else None
            self.assertEqual(named, read)
        return served

    def test_what_python_builds_is_served(self):
        for metric, more in (("cosine", {}), ("l2", {}), ("dot", {"dtype": "float16"})):
            with self.subTest(metric=metric):
                folder = self.folder / metric
                folder.mkdir()
                half, documents = COUNT // 2, self.documents
                index = Index.build(
                    self.vectors[:half], metric, path=folder / "index", **columns(documents[:half]), **more
                )
                # A shard more.
                index.append(self.vectors[half:], **columns(documents[half:]))
                with searcher(folder) as url:
                    self.assertEqual(ask(url, "/v1/status")["documents"], COUNT)
                    self.assert_same_answers(url, index)
                    served = self.assert_same_documents(url, index, ["k7", "absent", "k499"])
                self.assertEqual(served["k7"]["metadata"], documents[7]["metadata"])
                self.assertEqual(served.keys(), {"k7", "k499"})

    def test_what_the_indexer_builds_is_opened(self):
        write_corpus(self.folder / "corpus.jsonl", self.documents)
        numpy.save(self.folder / "vectors.npy", self.vectors)
        given = ("--corpus", "corpus.jsonl", "--vectors", "vectors.npy", "--model-name", "any")
        indexer(self.folder, "build", *given, "--metric", "cosine", "--shards", "3", "--language", "en")
        index = Index.open(self.folder / "index")
        self.assertEqual((len(index), index.dim, index.metric, len(index.certificate())), (COUNT, DIM, "cosine", 3))
        with searcher(self.folder) as url:
            self.assert_same_answers(url, index)
            self.assert_same_documents(url, index, ["k0", "k123", "absent"])
        # Python changes it, and the indexer goes on from there.
        told = index.upsert(self.vectors[:1], keys=["new"], texts=["an okapi"])
        self.assertEqual(told["documents"], COUNT + 1)
        (self.folder / "deleted").write_text("k0\nk1\n")
        indexer(self.folder, "delete", "--keys", "deleted")
        self.assertEqual((index.reload(), len(index), "k1" in index), (3, COUNT - 1, False))
        with searcher(self.folder) as url:
            self.assert_same_answers(url, index)
            reply = ask(url, "/v1/search", {"query": "okapi", "mode": "MODE_BM25", "k": 1})
            self.assertEqual([hit["key"] for hit in reply["hits"]], ["new"])

    def test_a_change_in_python_is_seen_by_a_searcher_that_watches(self):
        index = Index.build(self.vectors, path=self.folder / "index", **columns(self.documents))
        with searcher(self.folder, "--watch") as url:
            self.assertEqual(ask(url, "/v1/status")["generation"], 1)
            index.upsert(-self.vectors[:2], keys=["k0", "n1"], texts=["an okapi", "another okapi"])
            self.wait_for_generation(url, 2)
            reply = ask(url, "/v1/search", {"query": "okapi", "mode": "MODE_BM25", "k": 5})
            self.assertEqual({hit["key"] for hit in reply["hits"]}, {"k0", "n1"})
            self.assert_same_answers(url, index)
            index.delete(["n1", *(f"k{number}" for number in range(100, 200))])
            self.wait_for_generation(url, 3)
            self.assertEqual(ask(url, "/v1/count", {})["documents"], COUNT - 100)
            self.assertEqual(ask(url, "/v1/documents", {"keys": ["n1", "k100"]})["missing"], ["n1", "k100"])
            self.assert_same_answers(url, index)
            index.merge()
            self.wait_for_generation(url, 4)
            self.assert_same_answers(url, index)

    def wait_for_generation(self, url, generation):
        """Waits until a searcher serves a generation."""
        end = time.monotonic() + COMMAND_S
        while (served := ask(url, "/v1/status")["generation"]) < generation:
            self.assertLess(time.monotonic(), end, f"expected generation {generation}, got {served}")
            time.sleep(0.05)
        self.assertEqual(served, generation)


def main():
    """Runs the tests with the programs that the command line names."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    SETTINGS.update(binaries=pathlib.Path(sys.argv[1]).resolve())
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
