"""The worker's side of the JSON lines, and what is timed.

An engine is an object with

    version, sweep, defaults, settings            what `describe` answers
    build(base, metric, m, ef_construction, threads, seed, directory) -> seconds
                                                  times the engine's own work only: no reading of the npy, no writing of files
    open(directory)                               from files to ready to search; `open_ms` is its wall time
    prepare(queries, k)                           -> the queries in the form the engine takes them, one row each
    configure(value, threads)                     sets the sweep parameter and the threads; not timed
    requests(queries) -> anything                 only where rows must be wrapped once `configure` has run; not timed
    search(requests) -> anything                  one call for all rows given; this is what is timed
    evict()                                       only of engines that map full-precision vectors in addition to codes
    ids(answer) -> integer array [rows, k]        of what `search` returned; -1 or an unknown id pads; not timed
"""

import json
import pathlib
import time

import numpy as np

import lines
from ann import engines

OPERATIONS = ("describe", "build", "open", "prepare", "search", "change", "merge", "memory", "evict")


class Worker:
    """State between requests."""

    def __init__(self, name):
        self.name = name
        self.engine = engines.create(name)
        self.rows = None
        self.queries = None
        self.k = 0

    def describe(self, _request):
        """Who this is, and what the sweep means."""
        engine = self.engine
        reply = {"engine": self.name, "version": engine.version, "sweep": engine.sweep}
        reply |= {"defaults": engine.defaults, "settings": engine.settings}
        if hasattr(engine, "variants"):
            reply["variants"] = engine.variants
        return reply

    def build(self, request):
        """Builds into a fresh directory and forgets the base."""
        base = np.load(request["base"], allow_pickle=False)
        if base.dtype != np.float32 or base.ndim != 2:
            raise ValueError(f"{request['base']}: expected float32 [n,d], got {base.dtype} {list(base.shape)}")
        if request["metric"] not in ("ip", "l2"):
            raise ValueError(f"metric: expected ip or l2, got {request['metric']!r}")
        directory = pathlib.Path(request["dir"])
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ValueError(f"{directory}: expected a fresh directory, got one with files in it")
        parameters = {key: request[key] for key in ("metric", "m", "ef_construction", "threads", "seed")}
        seconds = self.engine.build(np.ascontiguousarray(base), directory=directory, **parameters)
        # Written last, so that a directory without it is an interrupted build.
        meta = parameters | {"n": base.shape[0], "dim": base.shape[1], "build_s": seconds, "version": self.engine.version}
        (directory / "meta.json").write_text(json.dumps(meta) + "\n", encoding="utf-8")
        del base
        lines.trim()
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        return {"build_s": seconds, "index_bytes": size}

    def open(self, request):
        """From files to ready to search."""
        directory = pathlib.Path(request["dir"])
        meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
        started = time.perf_counter()
        self.engine.open(directory, meta)
        return {"open_ms": (time.perf_counter() - started) * 1e3}

    def prepare(self, request):
        """Loads the queries once, in the engine's form."""
        queries = np.ascontiguousarray(np.load(request["queries"], allow_pickle=False), dtype=np.float32)
        self.k = int(request["k"])
        self.queries = self.engine.prepare(queries, self.k)
        # For mode "each": one row a call, cut before the clock runs.
        self.rows = [self.queries[row : row + 1] for row in range(len(self.queries))]
        return {"queries": len(queries)}

    def search(self, request):
        """All queries in the engine's own batch call, again until `least_ms` have passed; or one call each."""
        if self.queries is None:
            raise ValueError("search: expected a prepare before it")
        self.engine.configure(request["value"], request["threads"])
        search = self.engine.search
        rounds = 1
        wrap = getattr(self.engine, "requests", lambda queries: queries)
        if request["mode"] == "batch":
            batch = wrap(self.queries)
            least = request.get("least_ms", 0) / 1e3
            started = time.perf_counter()
            answer = search(batch)
            while time.perf_counter() - started < least:
                answer = search(batch)
                rounds += 1
            seconds = (time.perf_counter() - started) / rounds
            found = [self.engine.ids(answer)]
        elif request["mode"] == "each":
            answers, latencies = [], np.empty(len(self.rows), dtype=np.float64)
            rows = [wrap(row) for row in self.rows]
            whole = time.perf_counter()
            for index, row in enumerate(rows):
                started = time.perf_counter_ns()
                answer = search(row)
                latencies[index] = (time.perf_counter_ns() - started) / 1e3
                answers.append(answer)
            seconds = time.perf_counter() - whole
            found = [self.engine.ids(answer) for answer in answers]
            np.save(request["latencies"], latencies)
        else:
            raise ValueError(f"mode: expected batch or each, got {request['mode']!r}")
        np.save(request["out"], self.padded(found))
        return {"seconds": seconds, "rounds": rounds}

    def change(self, request):
        """Deletes rows by label and adds others; only of engines that have `change(delete, rows, labels, threads)`."""
        delete, labels = (np.load(request[name], allow_pickle=False).ravel() for name in ("delete", "labels"))
        rows = np.ascontiguousarray(np.load(request["base"], allow_pickle=False), dtype=np.float32)
        started = time.perf_counter()
        self.engine.change(delete, rows, labels, request["threads"])
        return {"seconds": time.perf_counter() - started}

    def merge(self, request):
        """What the engine does to be as after a build: `merge(whole, threads)`."""
        started = time.perf_counter()
        self.engine.merge(request["all"], request["threads"])
        return {"seconds": time.perf_counter() - started}

    def padded(self, found):
        """int32 [q,k], -1 where nothing was found."""
        ids = np.full((len(self.rows), self.k), -1, dtype=np.int32)
        row = 0
        for block in found:
            for one in block:
                ids[row, : len(one)] = one[: self.k]
                row += 1
        return ids

    def memory(self, request):
        """Resident memory and its peak."""
        return lines.memory(request["settle"])

    def evict(self, _request):
        """Drops the pages of full-precision vectors that the engine has mapped in addition to its codes, where it has any."""
        evict = getattr(self.engine, "evict", None)
        if evict is not None:
            evict()
        return {}
