"""Programs for another processor beside those of this machine: aarch64.py BINARIES OTHERS RUNNER..., in the root.

RUNNER is the command by which a program of OTHERS runs here: deploy/aarch64.sh has it. Each side builds indexes of the
quick start's documents and of vectors that are made; both verify each of them, and serve it: they have to give the same
keys for the same requests, and scores that differ by at most 1e-5. Then the other side changes an index of this one,
and all of that holds again.
"""

import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import urllib.request

from integrations_servers import write_npy
from programs import serving

# No multiple of what a register of any processor holds.
DIM = 101
QUESTIONS, K, SEED, COMMAND_S, MOST = 20, 10, 20261130, 300, 1e-5
PROGRAMS = ("dyad-indexer", "dyad-searcher")
# How the vectors of an index are compared and stored.
KINDS = (("cosine", "f16"), ("l2", "f32"), ("dot", "f32"))


def wrapped(folder, others, *runner):
    """The programs of OTHERS as scripts that run them."""
    folder.mkdir()
    for name in PROGRAMS:
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join([*runner, str(others / name)])} "$@"\n')
        script.chmod(0o755)
    return folder


def run(command, folder, is_ok=True, **variables):
    """What a command printed, which has to end well, or not well."""
    words, environment = [str(word) for word in command], os.environ | {"RUST_LOG": "warn"} | variables
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if (done.returncode == 0) != is_ok:
        raise SystemExit(f"{shlex.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def made_vectors(count, chance):
    """Vectors around a few centres, of different lengths."""
    centres = [[chance.gauss(0, 1) for _ in range(DIM)] for _ in range(12)]
    around = lambda centre, length: [length * (value + chance.gauss(0, 0.6)) for value in centre]  # noqa: E731
    return [around(chance.choice(centres), chance.uniform(0.5, 1.5)) for _ in range(count)]


def requests(fingerprint, chance):
    """Searches of every mode, through the graph and over all vectors, with a filter and without."""
    lines = pathlib.Path("deploy/quickstart/queries.jsonl").read_text().splitlines()[:QUESTIONS]
    for line, vector in zip(lines, made_vectors(QUESTIONS, chance), strict=True):
        text, by_vector = json.loads(line)["text"], {"vector": vector, "fingerprint": fingerprint}
        for filter in ({}, {"filter": "title>=M"}):
            same = {"k": K, **filter}
            yield {"mode": "MODE_BM25", "query": text, "snippet_bytes": 100, **same}
            for exact in (False, True):
                yield {"mode": "MODE_DENSE", "exact": exact, **by_vector, **same}
                yield {"mode": "MODE_HYBRID", "query": text, "exact": exact, **by_vector, **same}


def ask(url, path, body=None):
    """The reply of a server."""
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, sent, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=COMMAND_S) as reply:
        return json.load(reply)


def answers(binaries, folder, index):
    """Each request with its hits, by a searcher."""
    options = ("--index", index, "--question-tower", "none", "--http", "127.0.0.1:0")
    with serving(binaries, folder, "dyad-searcher", *options) as addresses:
        url = f"http://{addresses['HTTP']}"
        fingerprint = ask(url, "/v1/status")["index_model"]["fingerprint"]
        asked = requests(fingerprint, random.Random(SEED + 1))
        return [(one, ask(url, "/v1/search", one)["hits"]) for one in asked]


def compare(here, there, index):
    """Ends with an error where hits differ; gives the largest difference of scores, and counts the hits."""
    largest, count = 0.0, 0
    for (request, hits), (_, others) in zip(here, there, strict=True):
        told = f"{index}: { {name: value for name, value in request.items() if name != 'vector'} }"
        keys, other_keys = ([hit["key"] for hit in some] for some in (hits, others))
        if keys != other_keys:
            raise SystemExit(f"{told}: expected {keys}, got {other_keys}")
        for hit, other in zip(hits, others, strict=True):
            if (hit["document"], hit.get("snippet")) != (other["document"], other.get("snippet")):
                raise SystemExit(f"{told}: expected the document {hit}, got {other}")
            score, other_score = hit.get("score", 0.0), other.get("score", 0.0)
            difference = abs(score - other_score) / max(1.0, abs(score))
            if difference > MOST:
                raise SystemExit(f"{told}: expected the score {score}, got {other_score}")
            largest, count = max(largest, difference), count + 1
    if count < QUESTIONS * K:
        raise SystemExit(f"{index}: expected at least {QUESTIONS * K} hits, got {count}")
    return largest, count


def check(sides, folder, index):
    """All sides verify an index, and give the same answers."""
    for binaries in sides.values():
        run([binaries / "dyad-indexer", "verify", "--index", index], folder)
    first, *others = (answers(binaries, folder, index) for binaries in sides.values())
    for name, other in zip(list(sides)[1:], others, strict=True):
        largest, count = compare(first, other, index)
        print(f"{index}: the same {count} hits {name}, scores differ by {largest:.1e} at most", flush=True)


def change(binaries, folder, index):
    """Some documents are replaced, some are deleted, and shards are merged."""
    lines = (folder / "corpus.jsonl").read_text().splitlines(keepends=True)
    changed = (line.replace('"text": "', '"text": "Once more. ') for line in lines[:20])
    (folder / "changed.jsonl").write_text("".join(changed))
    write_npy(folder / "changed.npy", made_vectors(20, random.Random(SEED + 2)))
    (folder / "deleted").write_text("".join(json.loads(line)["_id"] + "\n" for line in lines[20:60]))
    for words in (
        ("upsert", "--corpus", "changed.jsonl", "--vectors", "changed.npy", "--model-name", "any"),
        ("delete", "--keys", "deleted"),
        ("merge", "--all"),
    ):
        print(run([binaries / "dyad-indexer", words[0], "--index", index, *words[1:]], folder), end="", flush=True)


def main():
    """Ends with an error where something differs."""
    binaries, others = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        there = wrapped(folder / "programs", others, *sys.argv[3:])
        sides = {"here": binaries, "there": there}
        for name in PROGRAMS:
            version, other = (run([side / name, "--version"], folder) for side in sides.values())
            if version.split()[:2] != other.split()[:2]:
                raise SystemExit(f"{name}: expected {version}, got {other}")
            print(f"--version there: {other}", end="")
        # The kernels of that processor, and no others, are chosen by name.
        inspect = [there / "dyad-indexer", "inspect", "--index", "none"]
        said = run(inspect, folder, is_ok=False, DYAD_KERNELS="avx2")
        if "set it to one of: neon, scalar" not in said:
            raise SystemExit(f"DYAD_KERNELS=avx2: expected that there are neon and scalar, got {said}")

        lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text()
        (folder / "corpus.jsonl").write_text(lines)
        write_npy(folder / "vectors.npy", made_vectors(len(lines.splitlines()), random.Random(SEED)))
        for metric, vector_type in KINDS:
            given = ["--corpus", "corpus.jsonl", "--vectors", "vectors.npy", "--model-name", "any", "--shards", "2"]
            for name, side in sides.items():
                index = f"{metric}-{vector_type}-built-{name}"
                options = [*given, "--metric", metric, "--vector-type", vector_type, "--index", index]
                print(run([side / "dyad-indexer", "build", *options], folder), end="")
                check(sides, folder, index)
        change(there, folder, "cosine-f16-built-here")
        sides["there, by plain Rust"] = wrapped(folder / "scalar", others, "env", "DYAD_KERNELS=scalar", *sys.argv[3:])
        check(sides, folder, "cosine-f16-built-here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
