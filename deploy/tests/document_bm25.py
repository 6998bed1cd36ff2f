"""BM25 of passages and of their documents against bm25s in Python: document_bm25.py BINARIES, in the root.

Passages of at most 40 terms (lengths of more are stored in one byte, as in Lucene) are indexed in 1 and in 3 shards by vectors that mean nothing: sentences of
ReQA-SQuAD with the paragraphs that they are from (`reqa-squad-context` in DYAD_DATA), or, without it, texts that are made of words. For questions of their words

* the score of every passage is that of bm25s (method lucene, k1 1.2, b 0.75; times k1 + 1, which it leaves out) over all passages, and `document_weight` times
  that over all documents, each of which is its passages, title and text, together; passages without a word of the question are found through their documents;
* `/v1/explain` tells the document's part, and `document_weight` 0 leaves it out;
* after every fifth passage was deleted, all of that holds for those that are left, and with a filter the statistics stay.
"""

import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import bm25s
import numpy

from build_index import COMMAND_S
from languages import ask
from readme import Servers

SEED, PASSAGES, QUESTIONS, K1, B, DIM, MOST_WORDS = 20261128, 400, 12, 1.2, 0.75, 8, 36
WORDS = "river ocean mountain comet planet forest engine bridge museum desert signal harbour and the of".split()


def made_passages(chance):
    """Passages of words, the third of a document after that of another one; the last few are of none."""
    passages = []
    for number in range(PASSAGES):
        text = " ".join(chance.choices(WORDS[: 5 + number % 10], k=chance.randint(1, MOST_WORDS)))
        metadata = {"document": f"d{chance.randrange(PASSAGES // 5)}"} if number < PASSAGES - 9 else {}
        passages.append({"_id": f"p{number}", "title": f"Title {number % 7}", "text": text, "metadata": metadata | {"third": number % 3}})
    return passages


def read_passages(folder, chance):
    """Sentences of some paragraphs."""
    with gzip.open(folder / "reqa-squad-context/corpus.jsonl.gz", "rt") as lines:
        every = [json.loads(line) for line in lines]
    short = [one for one in every if len((one["title"] + " " + one["text"]).split()) <= MOST_WORDS]
    paragraphs = set(chance.sample(sorted({one["metadata"]["document"] for one in short}), PASSAGES // 5))
    passages = [one for one in short if one["metadata"]["document"] in paragraphs]
    return [one | {"metadata": one["metadata"] | {"third": number % 3}} for number, one in enumerate(passages)]


def run(binaries, *command):
    """Runs the indexer."""
    subprocess.run([binaries / "dyad-indexer", *command], check=True, timeout=COMMAND_S, capture_output=True, text=True)


def search(query, **more):
    """A request for all passages."""
    return {"query": query, "mode": "MODE_BM25", "k": 10 * PASSAGES, "keys_only": True, **more}


def terms_of(url, passages):
    """The terms of every passage, by key."""
    text = lambda one: f"{one['title']} {one['text']}"  # noqa: E731
    return {one["_id"]: ask(url, "/v1/explain", {"key": one["_id"], "search": search(text(one))})["terms"] for one in passages}


class Reference:
    """bm25s over lists of terms."""

    def __init__(self, texts):
        self.vocabulary = {term: number for number, term in enumerate(sorted({term for text in texts for term in text}))}
        self.texts = len(texts)
        self.bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        self.bm25.index(([[self.vocabulary[term] for term in text] for text in texts], self.vocabulary), show_progress=False)

    def scores(self, terms):
        """Of every text."""
        known = [self.vocabulary[term] for term in terms if term in self.vocabulary]
        return self.bm25.get_scores_from_ids(known) * (K1 + 1) if known else numpy.zeros(self.texts)


def check(url, passages, terms, questions):
    """Compares the scores of questions, and returns the largest difference."""
    names = [one["metadata"].get("document", one["_id"]) for one in passages]
    documents = {}
    for name, one in zip(names, passages, strict=True):
        documents.setdefault(name, []).extend(terms[one["_id"]])
    place = {name: number for number, name in enumerate(documents)}
    own, whole = Reference([terms[one["_id"]] for one in passages]), Reference(list(documents.values()))
    largest, through_documents = 0.0, 0
    third = {"equals": {"field": "third", "value": {"number": 1}}}
    for question in questions:
        asked = ask(url, "/v1/explain", {"key": passages[0]["_id"], "search": search(question)})["terms"]
        of_passages, of_documents = own.scores(asked), whole.scores(asked)
        added = numpy.array([of_documents[place[name]] for name in names])
        for weight, filter in ((None, None), (0.3, None), (0, None), (None, third)):
            more = {} if weight is None else {"document_weight": weight}
            more |= {} if filter is None else {"filter": filter}
            expected = of_passages + (1 if weight is None else weight) * added
            allowed = [filter is None or one["metadata"]["third"] == 1 for one in passages]
            reply = ask(url, "/v1/search", search(question, **more))
            hits = {hit["key"]: hit["score"] for hit in reply.get("hits", [])}
            scores = {one["_id"]: score for one, score, is_allowed in zip(passages, expected, allowed, strict=True) if is_allowed and score > 0}
            if set(hits) != set(scores):
                raise SystemExit(f"expected `{question}` ({more}) to find {len(scores)} passages, got {len(hits)}: {set(hits) ^ set(scores)}")
            if reply.get("document_weight", 0) != (1 if weight is None else weight):
                raise SystemExit(f"expected the reply to tell its document weight, got {reply.get('document_weight')} for {more}")
            largest = max([largest, *(abs(score - scores[key]) for key, score in hits.items())])
        through_documents += int(((of_passages == 0) & (added > 0)).sum())
        best = int(numpy.argmax(added))
        told = ask(url, "/v1/explain", {"key": passages[best]["_id"], "search": search(question)})
        largest = max(largest, abs(told.get("bm25_of_document", 0) - added[best]))
    if largest > 1e-5:
        raise SystemExit(f"expected scores of bm25s within 1e-5, got {largest}")
    if through_documents == 0:
        raise SystemExit("expected some passages without a word of the question to be found through their documents")
    return largest


def main():
    """0 where all scores are those of Python."""
    binaries, chance, servers = pathlib.Path(sys.argv[1]).resolve(), random.Random(SEED), Servers()
    data = os.environ.get("DYAD_DATA")
    passages = read_passages(pathlib.Path(data), chance) if data else made_passages(chance)
    questions = [" ".join(chance.sample(sorted(set(chance.choice(passages)["text"].split())), 1) * 2) for _ in range(2)]
    questions += [" ".join(chance.choice(passages)["text"].split()[:3]) for _ in range(QUESTIONS)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in passages))
        vectors = numpy.random.default_rng(SEED).normal(size=(len(passages), DIM)).astype("f4")
        numpy.save(folder / "vectors.npy", vectors)
        deleted = [one["_id"] for one in passages[::5]]
        (folder / "deleted").write_text("".join(key + "\n" for key in deleted))
        try:
            for shards in ("1", "3"):
                index = folder / f"index-{shards}"
                run(binaries, "build", "--corpus", folder / "corpus.jsonl", "--vectors", folder / "vectors.npy", "--model-name", "any",
                    "--index", index, "--shards", shards, "--language", "en")  # fmt: skip
                for left in (passages, [one for one in passages if one["_id"] not in set(deleted)]):
                    if left is not passages:
                        run(binaries, "delete", "--index", index, "--keys", folder / "deleted")
                    serve = [binaries / "dyad-searcher", "serve", "--index", index, "--question-tower", "none"]
                    serve += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
                    servers.start("dyad-searcher", [str(word) for word in serve], os.environ | {"RUST_LOG": "warn"}, folder)
                    url = servers.urls["dyad-searcher", "http"]
                    if left is passages:
                        terms = terms_of(url, passages)
                        if max(map(len, terms.values())) > 40:
                            raise SystemExit("expected passages of at most 40 terms")
                    difference = check(url, left, terms, questions)
                    told = f"{shards} shards, {len(left)} passages: scores differ from bm25s by {difference:.1e} at most"
                    print(told, flush=True)
        finally:
            servers.end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
