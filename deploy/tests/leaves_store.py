"""Leaves and roots that serve an index from an object store go on without it, also those that restart, and follow it once it is back.

    leaves_store.py BINARIES MODEL WEED [--gone-s N]

The store is SeaweedFS, which is killed under load and stays away for N seconds at least; each leaf and root has a cache of its own.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile
import time

from leaves_deployment import LEAVES, Deployment
from leaves_index import index_of_quickstart, questions_of, written
from leaves_load import Load, expect_no_failure, same_answers, until
from programs import serving
from seaweedfs import BUCKET, SeaweedFs

URL, REPLICAS = f"s3://{BUCKET}/index", 2
# The longest pause between two tries to ask a store is 15 s; then leaves fetch.
FOLLOWED_S = 90


def shards_in(folder):
    """The ids of the shards whose files are below a directory of copies."""
    return {path.name for path in folder.glob("*/shards/*")}


def bytes_in(folder):
    """The bytes of all files below a directory."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check_parts(deployment, whole, root):
    """Each shard is in the copies of as many leaves as hold it, and roots have none."""
    ids = {path.name for path in (whole / "shards").iterdir()}
    held = [shards_in(deployment.cache(f"leaf-{number}")) for number in range(LEAVES)]
    counts = {one: sum(one in of_leaf for of_leaf in held) for one in ids}
    if set(counts.values()) != {REPLICAS} or set().union(*held) != ids:
        raise AssertionError(f"expected {REPLICAS} copies of each of {len(ids)} shards, got {counts}")
    status = json.loads(root.get("/v1/status"))
    reported = {leaf["name"]: leaf.get("shards", 0) for leaf in status["leaves"]}
    expected = {f"leaf-{number}": len(of_leaf) for number, of_leaf in enumerate(held)}
    of_roots = shards_in(deployment.cache("root-0")) | shards_in(deployment.cache("root-1"))
    if reported != expected or of_roots:
        raise AssertionError(f"leaves report {reported} shards, their caches have {expected}; roots have {of_roots}")
    sizes = [bytes_in(deployment.cache(f"leaf-{number}")) for number in range(LEAVES)]
    shares = ", ".join(f"{size / bytes_in(whole):.2f}" for size in sizes)
    print(f"caches of the leaves: {list(expected.values())} of {len(ids)} shards, {shares} of the index; of roots: no shard", flush=True)


class Ask:
    """Both roots are asked at once; answers are those of a searcher that has the whole index."""

    def __init__(self, roots, questions, check):
        self.loads = [Load(root, questions, check, clients=2) for root in roots]

    def __enter__(self):
        for load in self.loads:
            load.__enter__()
        return self

    def __exit__(self, *_):
        for load in self.loads:
            load.__exit__()

    def expect_no_failure(self):
        for load in self.loads:
            expect_no_failure(load)


def start_roots(deployment):
    """Two roots over all leaves."""
    return [deployment.start_root(deployment.addresses.values(), f"root-{number}") for number in range(2)]


def survives_without(deployment, store, roots, questions, whole, gone_s):
    """The store is killed; meanwhile a leaf and a root are killed, and serve from their caches when they start again."""
    check = same_answers(whole, questions)
    with Ask(roots, questions, check) as before:
        time.sleep(3)
    print("with the store:")
    before.expect_no_failure()
    with Ask(roots[:1], questions, check) as one, Ask(roots[1:], questions, check) as other:
        time.sleep(1)
        store.kill()
        gone = time.monotonic()
        time.sleep(1)
        deployment.kill_leaf(1)
        began = time.monotonic()
        deployment.restart_leaf(1)
        until("the leaf is back", lambda: roots[0].leaf_is_up(deployment.addresses[1]))
        print(f"without the store a leaf was back after {time.monotonic() - began:.1f} s", flush=True)
        other.__exit__()
        roots[1].process.kill()
        began = time.monotonic()
        roots[1] = deployment.start_root(deployment.addresses.values(), "root-1")
        print(f"without the store a root was back after {time.monotonic() - began:.1f} s", flush=True)
        with Ask(roots[1:], questions, check) as again:
            time.sleep(max(2, gone + gone_s - time.monotonic()))
    print(f"the store is gone for {time.monotonic() - gone:.0f} s:")
    for asked in (one, other, again):
        asked.expect_no_failure()


def follows_again(deployment, store, roots, questions, whole, local):
    """The store is back, and a new generation spreads to all leaves and roots under load."""
    print(f"the store serves again after {store.start():.1f} s", flush=True)
    seen = set()

    def check(question, reply):
        seen.add(int(reply["generation"]))
        if len(reply["hits"]) != 10 or reply.get("degraded"):
            raise AssertionError(f"{question}: {reply}")

    text = "The comet of this test is a body of ice and dust."
    more = written(deployment.folder / "more.jsonl", [{"_id": "new", "title": "Comet", "text": text}])
    with Ask(roots, questions, check) as asked:
        deployment.indexer("append", "--corpus", more, "--encoder", f"http://{deployment.encoder}", index=local)
        push(deployment, local)
        wanted = current(local)
        took = [until(f"generation {wanted} spreads", lambda: root.served() == wanted, FOLLOWED_S) for root in roots]  # noqa: B023
        time.sleep(1)
    print(f"generation {wanted} was served by the roots after {took[0]:.1f} s and {took[0] + took[1]:.1f} s:")
    asked.expect_no_failure()
    for root in roots:
        if root.ask({"query": "comet", "mode": "MODE_BM25", "k": 1})["hits"][0]["key"] != "new":
            raise AssertionError("the appended document is not found")
    until("the whole searcher follows", lambda: whole.served() == wanted)
    with Ask(roots, questions, same_answers(whole, questions)) as after:
        time.sleep(1)
    after.expect_no_failure()


def push(deployment, local):
    """Puts the index into the store."""
    deployment.indexer("push", "--to", URL, index=local)


def current(local):
    """The number of the generation that `CURRENT` names."""
    return int(re.search(r"manifest-(\d+)", (local / "CURRENT").read_text())[1])


def makes_room(binaries, folder, local):
    """With `--cache-bytes`, the shards that a leaf no longer holds are removed for those that it holds now."""
    cache, held = folder / "one-cache", []

    def serve(name, limit):
        options = ["--index", f"index={URL}", "--cache", cache, "--cache-bytes", limit, "--name", name, "--names", "leaf-{0..1}"]
        with serving(binaries, folder, "dyad-searcher", *map(str, options), command="leaf"):
            held.append((shards_in(cache), bytes_in(cache)))

    serve("leaf-0", bytes_in(local))
    of_shards = lambda ids: sum(bytes_in(local / "shards" / one) for one in ids)  # noqa: E731
    other = {path.name for path in (local / "shards").iterdir()} - held[0][0]
    # Room for the shards of either leaf, and for the manifests.
    limit = max(held[0][1], held[0][1] - of_shards(held[0][0]) + of_shards(other)) + 32768
    if limit > bytes_in(local):
        raise AssertionError(f"expected an index larger than {limit} bytes, got {bytes_in(local)}")
    serve("leaf-1", limit)
    if held[1][0] != other or held[1][1] > limit:
        raise AssertionError(f"expected {other} within {limit} bytes, got {held[1]}")
    print(f"within {limit} bytes, where the index has {bytes_in(local)}: {len(held[0][0])} shards made room for {len(other)} others", flush=True)


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("binaries", "model", "weed"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--gone-s", type=float, default=8)
    given = parser.parse_args()
    questions = questions_of()[:25]
    with tempfile.TemporaryDirectory() as scratch, serving(given.binaries, scratch, "dyad-encoder", "--model", given.model) as encoder:
        folder, encoder = pathlib.Path(scratch), encoder["listening"]
        local = index_of_quickstart(given.binaries, given.model, folder, encoder)
        with SeaweedFs(given.weed, folder / "store") as store:
            os.environ.update(store.environment())
            with Deployment(given.binaries, folder, URL, encoder, replicas=REPLICAS) as deployment:
                push(deployment, local)
                makes_room(given.binaries, folder, local)
                deployment.start_leaves()
                roots, whole = start_roots(deployment), deployment.start_whole(local)
                check_parts(deployment, local, roots[0])
                survives_without(deployment, store, roots, questions, whole, given.gone_s)
                follows_again(deployment, store, roots, questions, whole, local)
    print("leaves_store: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
