"""A name that stands for several engines: the list of its members, without those that cannot run here.

Each member is tried in a process of its own, which builds and searches a small index: packages of compiled code may end a process on a
processor that they were not built for. Those that fail are in `skipped` with the reason, and a run goes on without them. A member
that is asked for by its own name fails instead.
"""

import importlib.metadata
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np

WORKER = pathlib.Path(__file__).resolve().parent.parent / "ann.py"
ROWS, DIM, K, WIDTH = 2000, 96, 10, 32
TIMEOUT_S = 300


class Family:
    """`variants`, and why others are not among them."""

    sweep = "that of each variant"
    defaults = [WIDTH]
    settings = "a list: run each of `variants` as an engine of its own and take the best of them at each recall"

    def __init__(self, package, members):
        try:
            self.version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            self.version = "none"
            self.skipped = dict.fromkeys(members, f"{package} is not installed. Make the environment by benches/peers/ann-venv.sh")
        else:
            self.skipped = {member: reason for member in members if (reason := failure(member))}
        self.variants = [member for member in members if member not in self.skipped]


def failure(engine):
    """Why an engine cannot build or search a small index on this machine, or None."""
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        vectors = np.random.default_rng(0).standard_normal((ROWS, DIM)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        np.save(place / "base.npy", vectors)
        np.save(place / "queries.npy", vectors[:K])
        built = {"dir": str(place / "index"), "base": str(place / "base.npy"), "metric": "ip"}
        requests = [
            {"op": "build", "m": 16, "ef_construction": 64, "threads": 1, "seed": 0} | built,
            {"op": "open", "dir": built["dir"]},
            {"op": "prepare", "queries": str(place / "queries.npy"), "k": K},
            {"op": "search", "value": WIDTH, "threads": 1, "mode": "batch", "out": str(place / "ids.npy")},
        ]
        command = [sys.executable, str(WORKER), "--engine", engine]
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        try:
            run = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return f"no answer within {TIMEOUT_S} s"
    replies = [json.loads(line) for line in run.stdout.splitlines()]
    if error := next((reply["error"] for reply in replies if "error" in reply), None):
        return error
    if len(replies) < len(requests):
        ended = signal.Signals(-run.returncode).name if run.returncode < 0 else f"exit status {run.returncode}"
        return f"its process ended by {ended} at `{requests[len(replies)]['op']}` on this processor"
    return None
