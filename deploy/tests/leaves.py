"""A root over leaves, as processes: what they answer is what one searcher answers, also where leaves end, hang, come and go, and the index changes.

    leaves.py BINARIES MODEL [--questions N] [--index DIR --queries FILE.jsonl]

The index is of the quick start's documents, in shards of different sizes, with deleted documents; with `--index` it is one that is there,
which is then not changed. Questions are asked over HTTP of a root and of a searcher that serves the whole index.
"""

import argparse
import json
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

from leaves_deployment import COMMAND_S, LEAVES, Deployment
from leaves_index import QUICKSTART, index_of_quickstart, questions_of
from leaves_load import Load, expect_no_failure, keys_of, same_answers, until
from programs import free_port, serving

MODES = ("MODE_DENSE", "MODE_BM25", "MODE_HYBRID", "MODE_COMPARE")
# What differs between two runs of one searcher.
OF_ONE_RUN = ("timings",)


def comparable(reply):
    """A reply without what differs between two runs."""
    kept = {name: value for name, value in reply.items() if name not in OF_ONE_RUN}
    if "filter" in kept:
        kept["filter"] = {name: value for name, value in kept["filter"].items() if name != "cached"}
    return kept


def forms(question, chance):
    """Searches for a question, of every mode, with filters, pages, groups, fusions and snippets."""
    for mode in MODES:
        yield {"query": question, "mode": mode, "k": 10}
    fusion = chance.choice(["FUSION_RRF", "FUSION_WEIGHTED_SUM", "FUSION_MIN_MAX", "FUSION_LOG_ODDS"])
    yield {"query": question, "k": 7, "fusion": fusion, "snippetBytes": 64}
    yield {"query": question, "mode": chance.choice(MODES[:3]), "k": 5, "offset": chance.choice([5, 20]), "keysOnly": True}
    yield {"query": question, "mode": chance.choice(MODES[:3]), "k": 5, "groupBy": {"field": "title", "hits": 2}}
    yield {"query": question, "mode": "MODE_HYBRID", "k": 5, "filter": "key>p1", "fields": ["title", "absent"]}
    yield {"query": question, "mode": "MODE_DENSE", "k": 20, "exact": True, "maxTextBytes": 40}
    yield {"query": question, "mode": "MODE_DENSE", "k": 10, "targetRecall": 0.95}


def compare(root, whole, questions):
    """Asks both the same; returns how many searches that were."""
    chance, count = random.Random(7), 0
    for question in questions:
        for body in forms(question, chance):
            expected, got = comparable(whole.ask(body)), comparable(root.ask(body))
            if got != expected:
                raise AssertionError(f"{body}:\nroot  {json.dumps(got)[:3000]}\nwhole {json.dumps(expected)[:3000]}")
            count += 1
        asked = {"query": question, "mode": chance.choice(MODES[:3]), "k": 5}
        key = chance.choice(whole.ask(asked | {"k": 30, "keysOnly": True})["hits"])["key"]
        both = [server.call("explain", {"key": key, "search": asked}) for server in (root, whole)]
        if both[0] != both[1]:
            raise AssertionError(f"{key} {asked}:\nroot  {both[0]}\nwhole {both[1]}")
        count += 1
    return count


def survives(deployment, root, whole, questions):
    """Leaves that are killed, that hang, and that come back."""
    check = same_answers(whole, questions)
    with Load(root, questions, check) as before:
        time.sleep(4)
    print("all leaves:")
    expect_no_failure(before)
    with Load(root, questions, check) as killed:
        time.sleep(1)
        deployment.kill_leaf(1)
        time.sleep(4)
    print("a leaf is killed:")
    expect_no_failure(killed)
    deployment.restart_leaf(1)
    until("the leaf that was killed is back", lambda: root.leaf_is_up(deployment.addresses[1]))
    with Load(root, questions, check) as hung:
        time.sleep(1)
        deployment.leaves[2].send_signal(signal.SIGSTOP)
        time.sleep(8)
    print("a leaf hangs:")
    expect_no_failure(hung)
    deployment.leaves[2].send_signal(signal.SIGCONT)
    with Load(root, questions, check) as leaving:
        time.sleep(1)
        deployment.leaves[3].terminate()
        deployment.leaves[3].wait(COMMAND_S)
        time.sleep(1)
    print("a leaf leaves:")
    expect_no_failure(leaving)
    deployment.restart_leaf(3)
    until("the leaf that left is back", lambda: root.leaf_is_up(deployment.addresses[3]))


def follows(deployment, root, whole, questions):
    """Generations that spread under load: appended, deleted, merged, and rolled back."""
    generations = set()

    def check(question, reply):
        generations.add(reply["generation"])
        if len(reply["hits"]) != 10 or reply.get("degraded"):
            raise AssertionError(f"{question}: {reply}")

    def spreads():
        current = int(re.search(r"manifest-(\d+)", (deployment.index / "CURRENT").read_text())[1])
        until(f"generation {current} spreads", lambda: root.served() == whole.served() == current)

    with Load(root, questions, check) as load:
        for number in range(3):
            text = f"The comet number {number} of this test is a body of ice and dust."
            (deployment.folder / "more.jsonl").write_text(json.dumps({"_id": f"new-{number}", "title": "Comet", "text": text}) + "\n")
            deployment.indexer("append", "--corpus", "more.jsonl", "--encoder", f"http://{deployment.encoder}")
            spreads()
        deployment.indexer("delete", "--key", "p003", "--key", "p004")
        spreads()
        deployment.indexer("merge")
        spreads()
        if keys_of(whole.ask({"query": "comet number 2", "mode": "MODE_BM25", "k": 1}))[0][0] != "new-2":
            raise AssertionError("the appended document is not found")
        deployment.indexer("rollback")
        spreads()
        time.sleep(1)
    print(f"{len(generations)} generations:")
    expect_no_failure(load)


def scales(deployment, questions):
    """Three leaves become five, and these two, one leaf after another, under load, by the steps of deploy/README.md."""
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(5)]
    for number in range(3):
        deployment.start_leaf(number, addresses[number], of=3)
    root, whole = deployment.start_root(addresses), deployment.start_whole()
    calls = lambda number: root.gauge('dyad_searcher_leaf_calls{url="http://%s"}' % addresses[number])  # noqa: E731
    holders = lambda: root.gauge("dyad_searcher_least_leaves_of_shard")  # noqa: E731
    is_up = lambda number: root.leaf_is_up(addresses[number])  # noqa: E731

    def again(number, of, also=None):
        """A leaf ends as Kubernetes ends it, and begins as one of so many, or also of another number."""
        deployment.leaves[number].terminate()
        deployment.leaves[number].wait(COMMAND_S)
        deployment.start_leaf(number, addresses[number], of, also)
        until(f"leaf {number} of {of} is back", lambda: is_up(number) and holders() >= 2)

    with Load(root, questions, same_answers(whole, questions)) as load:
        for number in (3, 4):
            deployment.start_leaf(number, addresses[number], of=5, also=3)
            until(f"leaf {number} has come", lambda: is_up(number))  # noqa: B023
        for number in range(3):
            again(number, of=5, also=3)
        for number in range(5):
            again(number, of=5)
        before = [calls(number) for number in range(5)]
        time.sleep(4)
        shares = [calls(number) - first for number, first in enumerate(before)]
        print("five leaves:", ", ".join(f"{share / max(1, sum(shares)):.2f}" for share in shares), "of the calls each")
        for number in range(5):
            again(number, of=5, also=2)
        for number in range(2):
            again(number, of=2)
        for number in (2, 3, 4):
            deployment.leaves[number].terminate()
            deployment.leaves[number].wait(COMMAND_S)
        time.sleep(2)
    print("leaves 3 -> 5 -> 2:")
    expect_no_failure(load)


def names_what_is_missing(deployment, questions):
    """One leaf for each shard: without it, the shards are named."""
    root, _ = deployment.start()
    root.ask({"query": questions[0], "k": 3})
    deployment.kill_leaf(0)
    status, reply = root.call("search", {"query": questions[0], "k": 3})
    told = json.dumps(reply)
    if status != 503 or "no leaf answers for shards" not in told:
        raise AssertionError(f"{status} {told}")
    print("one leaf for each shard:", told[:160])


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=25)
    parser.add_argument("--index", type=pathlib.Path)
    parser.add_argument("--queries", type=pathlib.Path, default=QUICKSTART / "queries.jsonl")
    given = parser.parse_args()
    binaries, model = given.binaries.resolve(), given.model.resolve()
    questions = questions_of(given.queries)[: given.questions]
    with tempfile.TemporaryDirectory() as scratch, serving(binaries, scratch, "dyad-encoder", "--model", model) as encoder:
        folder, encoder = pathlib.Path(scratch), encoder["listening"]
        index = given.index.resolve() if given.index else index_of_quickstart(binaries, model, folder, encoder)
        with Deployment(binaries, folder, index, encoder, replicas=2) as deployment:
            root, whole = deployment.start()
            print(f"{compare(root, whole, questions)} searches: a root over {LEAVES} leaves answers as one searcher")
            survives(deployment, root, whole, questions)
        with Deployment(binaries, folder, index, encoder, replicas=2) as deployment:
            scales(deployment, questions)
        if not given.index:
            with Deployment(binaries, folder, index, encoder, replicas=2) as deployment:
                root, whole = deployment.start()
                follows(deployment, root, whole, questions)
                print(f"{compare(root, whole, questions[:5])} searches: the same after all that")
        with Deployment(binaries, folder, index, encoder, replicas=1) as deployment:
            names_what_is_missing(deployment, questions)
    print("leaves: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
