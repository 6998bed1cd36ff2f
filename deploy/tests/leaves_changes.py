"""Two roots answer while the index changes under them: every answer is exactly that of the generation that it names.

    leaves_changes.py BINARIES MODEL [--questions N] [--switches N]

Documents are appended, replaced, deleted, get other metadata and are merged, N times in all; then the index is rolled back, embedded by a new
model, rolled back to the model before and forth again. One root looks for a new generation every second, the other one every four, so
that they often serve different ones. Each state of the index is kept, and afterwards a searcher of it is asked the same.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from leaves_deployment import COMMAND_S, Deployment, Server
from leaves_index import index_of_quickstart, lines, questions_of, written
from leaves_load import Load, expect_no_failure, until
from programs import serving

# With pauses, so that changes, which embed too, take no longer than they need to.
QUESTIONS, SLOW_WATCH_S, PAUSE_S = 25, "4", 0.03
KINDS = ("append", "upsert", "delete", "metadata", "merge")


def searches():
    """What is asked: of every mode, with all that changes in the hits."""
    fields = {"k": 10, "fields": ["version"]}
    modes = itertools.cycle(("MODE_HYBRID", "MODE_DENSE", "MODE_BM25"))
    return [{"query": question, "mode": mode, **fields} for question, mode in zip(questions_of()[:QUESTIONS], modes, strict=False)]


class ChangedIndex:
    """The index, which is changed step by step, and a copy of each of its states."""

    def __init__(self, deployment, folder, encoders):
        self.deployment, self.folder, self.encoders = deployment, folder, encoders
        self.encoder, self.copies, self.number = encoders[0], [], 0
        self.keep("built")

    def generation(self):
        """The number of the generation that `CURRENT` names."""
        return int(re.search(r"manifest-(\d+)", (self.deployment.index / "CURRENT").read_text())[1])

    def keep(self, what):
        """Keeps the state."""
        copy = self.folder / f"state-{len(self.copies)}"
        shutil.copytree(self.deployment.index, copy)
        self.copies.append((copy, self.generation(), what))

    def documents(self, first):
        """Some documents that many questions find, in a version of their own."""
        corpus = lines(self.folder / "index.jsonl")[first : first + 20]
        told = lambda one: one["text"] + f" As of version {self.number}."  # noqa: E731
        return [one | {"text": told(one), "metadata": {"version": self.number}} for one in corpus]

    def change(self, kind):
        """One change of this kind."""
        self.number += 1
        first = 20 * self.number % 200
        corpus = self.folder / "more.jsonl"
        embed = ("--corpus", corpus, "--encoder", f"http://{self.encoder}")
        if kind == "append":
            written(corpus, [one | {"_id": f"{one['_id']}-{self.number}"} for one in self.documents(first)])
            self.deployment.indexer("append", *embed)
        elif kind == "upsert":
            written(corpus, self.documents(first))
            self.deployment.indexer("upsert", *embed)
        elif kind == "delete":
            # Others each time: a deletion of nothing is no generation.
            keys = [f"p{100 + 4 * self.number + number:03}" for number in range(4)]
            self.deployment.indexer("delete", "--allow-missing", *(word for key in keys for word in ("--key", key)))
        elif kind == "metadata":
            written(corpus, [{"_id": one["_id"], "metadata": {"version": self.number}} for one in self.documents(first + 40)])
            self.deployment.indexer("upsert", "--metadata-only", "--allow-missing", "--corpus", corpus)
        else:
            self.deployment.indexer("merge", "--all")
        self.keep(kind)

    def roll(self, generation, what):
        """Back, or forth, to a generation."""
        self.deployment.indexer("rollback", "--to", str(generation))
        self.keep(what)

    def reembed(self):
        """All documents by the other model, by which questions are to be embedded then."""
        self.encoder = self.encoders[1]
        self.deployment.indexer("reembed", "--encoder", f"http://{self.encoder}")
        self.keep("reembed")

    def steps(self, switches):
        """All changes, one after another."""
        for number, kind in zip(range(switches), itertools.cycle(KINDS), strict=False):
            yield lambda kind=kind: self.change(kind)
            if number == switches // 2:
                yield lambda: self.roll(self.copies[-2][1], "rollback")
        yield self.reembed
        yield lambda: self.roll(self.copies[-2][1], "rollback to the model before")
        yield lambda: self.roll(self.copies[-2][1], "forth to the new model")


class Answers:
    """What a root has answered: of each search and generation the different answers, and how often they came."""

    def __init__(self, root):
        self.root, self.found = root, {}

    def check(self, search, reply):
        """Keeps an answer."""
        if reply.get("degraded"):
            raise AssertionError(f"{search}: {reply}")
        name = (json.dumps(search), int(reply["generation"]))
        answers, hits = self.found.setdefault(name, {}), json.dumps(reply["hits"])
        answers[hits] = answers.get(hits, 0) + 1

    def generations(self):
        """The generations that have answered, with the number of answers of each."""
        counts = {}
        for (_, generation), answers in self.found.items():
            counts[generation] = counts.get(generation, 0) + sum(answers.values())
        return dict(sorted(counts.items()))


def asked_of(copies, given, folder, towers):
    """What searchers of each state answer, each of the whole index: for a search and a generation the answers that are right.

    These are several where states have one number, of which one was rolled back.
    """
    right = {}
    for copy, generation, _ in copies:
        options = ["--index", f"index={copy}", "--http", "127.0.0.1:0", *towers]
        with serving(given.binaries, folder, "dyad-searcher", *options, "--lame-duck-s", "0") as addresses:
            whole = Server(addresses["HTTP"])
            for search in searches():
                hits = json.dumps(whole.ask(search)["hits"])
                right.setdefault((json.dumps(search), generation), set()).add(hits)
    return right


def asks(deployment, index, roots, given):
    """Asks both roots while the index changes; returns their answers."""
    steps = list(index.steps(given.switches))
    answers = [Answers(root) for root in roots]
    with contextlib.ExitStack() as stack:
        loads = [stack.enter_context(Load(one.root, searches(), one.check, clients=2, pause_s=PAUSE_S)) for one in answers]
        count = lambda: sum(len(load.times) for load in loads)  # noqa: E731
        for number, step in enumerate(steps):
            wanted = given.questions * (number + 1) // (len(steps) + 1)
            until(f"{wanted} answers", lambda: count() >= wanted, given.questions)  # noqa: B023
            step()
            until(f"generation {index.generation()} is served", lambda: roots[0].served() == index.generation())
        until("both roots serve the last generation", lambda: roots[1].served() == index.generation())
        until(f"{given.questions} answers", lambda: count() >= given.questions, given.questions)
    states = ", ".join(f"{generation} ({what})" for _, generation, what in index.copies)
    print(f"{len(steps)} switches of generations: {states}", flush=True)
    for load, one in zip(loads, answers, strict=True):
        print(f"a root answered of generations {one.generations()}:")
        expect_no_failure(load)
    return answers


def judge(answers, right):
    """Every answer is one of those that are right for the generation that it names."""
    count = 0
    for one in answers:
        for (search, generation), found in one.found.items():
            for hits, times in found.items():
                count += times
                if hits not in right.get((search, generation), set()):
                    expected = [text[:1500] for text in right.get((search, generation), set())]
                    raise AssertionError(f"{times} answers to {search} of generation {generation}:\n{hits[:1500]}\nexpected one of\n{expected}")
    print(f"{count} answers are exactly those of searchers that have the whole index, of the generations that they name", flush=True)
    # Generations whose answers are the same could be mixed unseen.
    different = {search: set() for search, _ in right}
    for (search, _), answers in right.items():
        different[search] |= answers
    told = sorted(map(len, different.values()))
    generations = len({generation for _, generation in right})
    print(f"of {generations} generations, a search has {told[0]} to {told[-1]} different answers, {told[len(told) // 2]} in the median")
    if told[len(told) // 2] * 2 < generations:
        raise AssertionError("expected answers that differ from generation to generation")


def other_model(given, folder):
    """The same weights, rounded: a model whose vectors differ in their last digits."""
    command = [given.binaries / "dyad-encoder", "export", "--model", given.model, "--dtype", "bf16", "--out", folder / "other-model"]
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_S)
    return folder / "other-model"


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("binaries", "model"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--switches", type=int, default=len(KINDS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = pathlib.Path(scratch)
        models = (given.model, other_model(given, folder))
        encoders = [stack.enter_context(serving(given.binaries, folder, "dyad-encoder", "--model", model))["listening"] for model in models]
        index = index_of_quickstart(given.binaries, given.model, folder, encoders[0])
        with Deployment(given.binaries, folder, index, encoders, replicas=2) as deployment:
            deployment.start_leaves()
            leaves, changed = deployment.addresses.values(), ChangedIndex(deployment, folder, encoders)
            roots = [deployment.start_root(leaves), deployment.start_root(leaves, "root-1", "--watch", SLOW_WATCH_S)]
            answers = asks(deployment, changed, roots, given)
        judge(answers, asked_of(changed.copies, given, folder, deployment.towers()))
    print("leaves_changes: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
