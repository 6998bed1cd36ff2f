#!/usr/bin/env python3
"""Recall of searches for questions of any kind, next to hnswlib's at the same `ef`, and what certificates say of it.

    benches/peers/ann-venv.sh
    DYAD_DATA=DIR .venv-ann/bin/python benches/workloads/any-question.py OUT.csv [CASE ...]

For each case documents are indexed twice, as they are and with `--queries` of 1,000 questions of the case; 300 others are searched through
`dyad-searcher`, and in hnswlib (M 16, efConstruction 200). Recall counts ties with the last of the nearest. Where questions lie across a gap it is a
mean over four graphs, because two of them differ by up to .02 there. CASE: parts of names, of which one must be in a case's. DYAD_PROGRAMS: folder
of the programs, by default target/release. DYAD_TOWERS: folder of trained towers (`towers.sh`), which adds their cases. A row has

* `ef` and `k`; where `ef` is `default`, requests name none, and hnswlib has 128;
* `dyad`, `hnswlib`: recall@k; `dyad_calibrated`: of the index that was built with `--queries`;
* `certificate`: what that index says, of k 10.
"""

import contextlib
import csv
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import hnswlib
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("DYAD_PROGRAMS", ROOT / "target/release"))
ENV = {"LD_LIBRARY_PATH": str(ROOT / ".libtorch/lib"), **os.environ}
WIDTHS = (64, 128, 256, 1000)
CALIBRATING, ASKED = 1000, 300
COLUMNS = ["case", "metric", "documents", "k", "ef", "dyad", "dyad_calibrated", "hnswlib", "certificate"]


def dyad(program, *arguments):
    command = [PROGRAMS / f"dyad-{program}", *map(str, arguments)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dyad-{program} {arguments[0]}: {done.stderr}")
    return done.stdout


def of_adaptive(certificate, ef=128):
    """What a certificate says of adaptive searches: at their width, at a wider one that is as good as a beam and no dearer, or of the beam."""
    beam = next(point for point in certificate["recall"] if point["ef"] == ef)
    time = lambda point: point["distance_computations"] + 2 * point["scored"]  # noqa: E731
    for point in certificate["adaptive"]:
        if point["ef"] >= ef and point["recall_at_10"] >= beam["recall_at_10"] - 0.002:
            is_adaptive = point["ef"] == ef or time(point) <= time(beam)
            return (point if is_adaptive else beam)["recall_at_10"]
    return beam["recall_at_10"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def served(index):
    """The HTTP address of a searcher."""
    grpc, http = free_port(), free_port()
    address = f"http://127.0.0.1:{http}"
    command = [PROGRAMS / "dyad-searcher", "serve", "--index", index, "--question-tower", "none"]
    command += ["--listen", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}"]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(list(map(str, command)), env=ENV, stdout=log, stderr=log)
        try:
            for _ in range(400):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{address}/readyz", timeout=1).read()
                    break
                if server.poll() is not None:
                    log.seek(0)
                    sys.exit(log.read().decode())
                time.sleep(0.05)
            yield address
        finally:
            server.terminate()
            server.wait(30)


def search(address, questions, **parameters):
    """Row numbers of the hits of each question."""
    found = []
    for start in range(0, len(questions), 50):
        requests = [
            {"vector": row.tolist(), "fingerprint": "declared:any", "mode": "MODE_DENSE", "keys_only": True, **parameters}
            for row in questions[start : start + 50]
        ]
        body = json.dumps({"requests": requests}).encode()
        request = urllib.request.Request(f"{address}/v1/search/batch", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as reply:
            found += [[int(hit["key"]) for hit in one["hits"]] for one in json.load(reply)["responses"]]
    return found


class Truth:
    """Scores of all documents, and those of the `k`-th nearest among the live ones."""

    def __init__(self, documents, questions, metric, live):
        documents, questions = documents.astype("f8"), questions.astype("f8")
        if metric == "cosine":
            documents, questions = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (documents, questions))
        self.scores = questions @ documents.T
        if metric == "l2":
            self.scores -= 0.5 * (documents**2).sum(1) + 0.5 * (questions**2).sum(1)[:, None]
        self.scores[:, ~live] = -np.inf
        self.sorted = -np.sort(-self.scores, axis=1)

    def recall(self, found, k):
        last = self.sorted[:, k - 1]
        least = last - 1e-6 * abs(last)
        near = [sum(self.scores[at, row] >= least[at] for row in rows[:k]) for at, rows in enumerate(found)]
        return float(np.mean(near)) / k


class Case:
    """Documents and questions, of which the first calibrate and the others are asked."""

    def __init__(self, name, metric, documents, questions, ks=(10,), live=None, seeds=1):
        self.name, self.metric, self.ks, self.seeds = name, metric, ks, seeds
        self.documents = np.ascontiguousarray(documents, "f4")
        self.questions = np.ascontiguousarray(questions, "f4")
        self.live = np.ones(len(documents), bool) if live is None else live

    def peer(self, asked, truth, seed):
        """hnswlib's recall by `k` and `ef`."""
        space = {"cosine": "cosine", "dot": "ip", "l2": "l2"}[self.metric]
        index = hnswlib.Index(space, self.documents.shape[1])
        index.init_index(len(self.documents), M=16, ef_construction=200, random_seed=seed)
        index.add_items(self.documents, num_threads=1)
        for row in np.flatnonzero(~self.live):
            index.mark_deleted(row)
        recall = {}
        for k in self.ks:
            for ef in WIDTHS:
                if ef >= k:
                    index.set_ef(ef)
                    recall[k, ef] = truth.recall(index.knn_query(asked, k)[0], k)
        return recall

    def index(self, folder, name, seed, *options):
        np.save(folder / "documents.npy", self.documents)
        np.save(folder / "queries.npy", self.questions[:CALIBRATING])
        arguments = ["--vectors", folder / "documents.npy", "--index", folder / name, "--model-name", "any"]
        dyad("indexer", "build", *arguments, "--metric", self.metric, "--seed", seed, *options)
        deleted = np.flatnonzero(~self.live)
        if len(deleted):
            (folder / "deleted").write_text("".join(f"{row}\n" for row in deleted))
            dyad("indexer", "delete", "--index", folder / name, "--keys", folder / "deleted")
        return folder / name

    def rows(self):
        """Means over the seeds of the graphs."""
        asked = self.questions[CALIBRATING:]
        truth = Truth(self.documents, asked, self.metric, self.live)
        runs = [list(self.measured(asked, truth, seed)) for seed in range(1, 1 + self.seeds)]
        for points in zip(*runs):
            (k, ef), figures = points[0][:2], np.mean([point[2:] for point in points], axis=0)
            shown = ["" if np.isnan(figure) else f"{figure:.4f}" for figure in figures]
            yield [self.name, self.metric, len(self.documents), k, ef, *shown]

    def measured(self, asked, truth, seed):
        """For each `k` and `ef`: recall, recall of the calibrated index, of the peer, and what the certificate says."""
        peer = self.peer(asked, truth, seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            as_it_is = self.index(folder, "as-it-is", seed)
            calibrated = self.index(folder, "calibrated", seed, "--queries", folder / "queries.npy")
            shard = json.loads(dyad("indexer", "inspect", "--index", calibrated, "--json"))["shards"][0]
            certificate = shard["certificate"]
            beams = {point["ef"]: point["recall_at_10"] for point in certificate["recall"]}
            with served(as_it_is) as plain, served(calibrated) as other:
                for k in self.ks:
                    widths = [(ef, {"ef": ef}, ef, beams.get(ef)) for ef in WIDTHS if ef >= k]
                    if k <= 128:
                        widths.append(("default", {}, 128, of_adaptive(certificate)))
                    for ef, parameters, width, certified in widths:
                        recall = [truth.recall(search(at, asked, k=k, **parameters), k) for at in (plain, other)]
                        told = certified if k == 10 and certified is not None else np.nan
                        yield [k, ef, *recall, peer[k, width], told]


def normal(seed, n, dim=64):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype("f4")


def clustered(seed, n, dim=64, clusters=50):
    random = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(7).normal(size=(clusters, dim)).astype("f4")
    return centres[random.integers(0, clusters, n)] + random.normal(size=(n, dim)).astype("f4")


def real():
    """20,000 sentences and their questions (all-MiniLM-L6-v2)."""
    folder = pathlib.Path(os.environ["DYAD_DATA"]) / "minilm-vectors"
    base = np.load(folder / "base.f16.npy")[: 20_000 + CALIBRATING + ASKED].astype("f4")
    return base[:20_000], base[20_000:]


def embedded(folder):
    """The vectors of `dyad-encoder embed`, all parts."""
    return np.concatenate([np.load(part).astype("f4") for part in sorted(folder.glob("*.npy"))])


def repeated(documents, share, value=None):
    """A share of the documents has the vector of the first, or a value everywhere."""
    documents = documents.copy()
    documents[: int(len(documents) * share)] = documents[0] if value is None else value
    return documents[np.random.default_rng(5).permutation(len(documents))]


def cases():
    n, q = 5_000, CALIBRATING + ASKED
    axis = np.eye(64, dtype="f4")
    for metric in ("cosine", "dot", "l2"):
        yield Case("like documents", metric, normal(1, n), normal(2, q), ks=(1, 10, 100, 1000))
        yield Case("clusters", metric, clustered(1, n), clustered(2, q))
        for gap in (0.3, 1.0, 3.0):
            # In units of the documents' own spread: questions on the other side of the origin, and aside.
            documents = normal(1, n) + 8 * gap * axis[0]
            yield Case(f"gap {gap}", metric, documents, normal(2, q) - 8 * gap * (axis[0] - axis[1]), seeds=4)
        yield Case("gap 1, narrow", metric, normal(1, n) + 8 * axis[0], 0.3 * normal(2, q) - 8 * (axis[0] - axis[1]), seeds=4)
        for share in (0.1, 0.3, 0.6):
            yield Case(f"{share:.0%} copies", metric, repeated(normal(1, n), share), normal(2, q))
        yield Case("a fifth deleted", metric, normal(1, n), normal(2, q), live=np.arange(n) % 5 > 0)
    for factor in (0.2, 2, 5):
        yield Case(f"{factor} times as far out", "l2", normal(1, n), factor * normal(2, q))
    for factor in (0.01, 0.1, 10, 100):
        yield Case(f"questions times {factor}", "dot", normal(1, n), factor * normal(2, q))
        yield Case(f"documents times {factor}", "dot", factor * normal(1, n), normal(2, q))
    lengths = np.exp(np.random.default_rng(3).normal(size=(n, 1))).astype("f4")
    yield Case("documents of any length", "dot", normal(1, n) * lengths, normal(2, q))
    for share in (0.01, 0.1, 0.3):
        yield Case(f"{share:.0%} zeros", "l2", repeated(normal(1, n), share, 0), normal(2, q))
        yield Case(f"{share:.0%} zeros", "dot", repeated(normal(1, n), share, 0), normal(2, q))
    if "DYAD_DATA" in os.environ:
        documents, questions = real()
        yield Case("MiniLM", "cosine", documents, questions)
        aside = np.random.default_rng(4).normal(size=documents.shape[1]).astype("f4")
        aside /= np.linalg.norm(aside)
        for gap in (0.5, 1.0, 2.0):
            yield Case(f"MiniLM, gap {gap}", "cosine", documents, questions + gap * aside)
        yield Case("MiniLM, 30% copies", "cosine", repeated(documents, 0.3), questions)
        for factor in (0.1, 10):
            yield Case(f"MiniLM, questions times {factor}", "dot", documents, factor * questions)
    if "DYAD_TOWERS" in os.environ:
        for sharing in ("ade", "ade-ste", "sde"):
            towers = pathlib.Path(os.environ["DYAD_TOWERS"]) / sharing / "towers"
            documents, questions = embedded(towers / "base")[:20_000], embedded(towers / "queries")[:q]
            for metric in ("cosine", "dot", "l2"):
                yield Case(f"{sharing.upper()} towers", metric, documents, questions, ks=(10, 100))


def main():
    out, parts = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for case in cases():
            if parts and not any(part in f"{case.name} {case.metric}" for part in parts):
                continue
            for row in case.rows():
                writer.writerow(row)
                file.flush()
                print(*row, sep="\t", flush=True)


main()
