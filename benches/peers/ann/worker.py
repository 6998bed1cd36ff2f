"""The worker's side of the JSON lines, and what is timed.

An engine is an object with

    version, sweep, defaults, settings            what `describe` answers
    build(base, metric, m, ef_construction, threads, seed, directory) -> seconds
                                                  times the engine's own work only: no reading of the npy, no writing of files
    reads_attributes                              true of engines that evaluate conditions: `build` has `attributes` too, `Attributes`
                                                  below: a dict of numbers and lists of texts for each row
    variants, skipped                             of a name that stands for several: those that can run here; why others cannot, by name
    single_threaded                               true of engines that search on one thread only
    index_of                                      the engine whose index would be the same
    select(rows, conditions) -> anything          only of engines with filters: a filter, of the rows that pass and the conditions
                                                  `{"equals": {"field", "value"}}`, `{"below": {"field", "bound"}}` that they meet
                                                  all; not timed
    filter                                        set to what `select` returned, or None, before `requests` and `search`
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

OPERATIONS = ("describe", "build", "open", "prepare", "filter", "search", "change", "merge", "memory", "evict")


class Attributes:
    """What each row is filtered by; read anew by every loop, as it may not fit into memory."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path, encoding="utf-8") as rows:
            for row in rows:
                yield json.loads(row)["metadata"]

    def kinds(self):
        """Whether a field holds texts, or else a number, by name in order."""
        return dict(sorted((name, isinstance(value, list)) for row in self for name, value in row.items()))


class Worker:
    """State between requests."""

    def __init__(self, name):
        self.name = name
        self.engine = engines.create(name)
        self.rows = None
        self.queries = None
        self.k = 0
        # Filter and query numbers; all queries without one where there are no filters.
        self.parts = []

    def describe(self, _request):
        """Who this is, and what the sweep means."""
        engine = self.engine
        reply = {"engine": self.name, "version": engine.version, "sweep": engine.sweep}
        reply |= {"defaults": engine.defaults, "settings": engine.settings}
        for more in ("variants", "skipped", "reads_attributes", "single_threaded", "index_of"):
            if hasattr(engine, more):
                reply[more] = getattr(engine, more)
        return reply

    def build(self, request):
        """Builds into a fresh directory and forgets the base."""
        base = np.load(request["base"], allow_pickle=False)
        if base.dtype != np.float32 or base.ndim != 2:
            raise ValueError(f"{request['base']}: expected float32 [n,d], got {base.dtype} {list(base.shape)}")
        metric = request["metric"]
        # `ip` is of unit vectors, which some engines need; `dot` of vectors of any length.
        if metric == "dot" and getattr(self.engine, "any_length", False):
            metric = "ip"
        if metric not in ("ip", "l2"):
            raise ValueError(f"metric: expected ip or l2, got {metric!r}")
        directory = pathlib.Path(request["dir"])
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise ValueError(f"{directory}: expected a fresh directory, got one with files in it")
        parameters = {key: request[key] for key in ("m", "ef_construction", "threads", "seed")} | {"metric": metric}
        more = {"attributes": Attributes(request["attributes"])} if request.get("attributes") else {}
        seconds = self.engine.build(np.ascontiguousarray(base), directory=directory, **parameters, **more)
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
        self.parts = [(None, np.arange(len(queries)))]
        return {"queries": len(queries)}

    def filter(self, request):
        """Searches under these filters from here on, each for the queries that it lists; under none where there are none."""
        filters = request["filters"]
        if not hasattr(self.engine, "select"):
            raise ValueError(f"{self.name} has no filters")
        if self.queries is None:
            raise ValueError("filter: expected a prepare before it")
        listed = sorted(number for one in filters for number in one["queries"])
        if filters and listed != list(range(len(self.queries))):
            raise ValueError(f"queries: expected each of 0 to {len(self.queries) - 1} once, got {len(listed)} numbers")
        self.parts = [
            (self.engine.select(np.load(one["rows"], allow_pickle=False).ravel(), one["all"]), np.asarray(one["queries"]))
            for one in filters
        ] or [(None, np.arange(len(self.queries)))]
        return {}

    def search(self, request):
        """All queries in the engine's own batch call, again until `least_ms` have passed; or one call each."""
        if self.queries is None:
            raise ValueError("search: expected a prepare before it")
        self.engine.configure(request["value"], request["threads"])
        rounds = 1
        if request["mode"] == "batch":
            # One batch where there are no filters, else one per filter.
            batches = [(chosen, self.wrapped(chosen, self.of(chosen, numbers)), numbers) for chosen, numbers in self.parts]
            least = request.get("least_ms", 0) / 1e3
            started = time.perf_counter()
            answers = self.answers(batches)
            while time.perf_counter() - started < least:
                answers = self.answers(batches)
                rounds += 1
            seconds = (time.perf_counter() - started) / rounds
        elif request["mode"] == "each":
            answers, latencies = [], np.empty(len(self.rows), dtype=np.float64)
            rows = [
                (chosen, self.wrapped(chosen, self.rows[number]), number) for chosen, numbers in self.parts for number in numbers
            ]
            search = self.engine.search
            whole = time.perf_counter()
            for chosen, row, number in rows:
                self.engine.filter = chosen
                started = time.perf_counter_ns()
                answer = search(row)
                latencies[number] = (time.perf_counter_ns() - started) / 1e3
                answers.append((answer, [number]))
            seconds = time.perf_counter() - whole
            np.save(request["latencies"], latencies)
        else:
            raise ValueError(f"mode: expected batch or each, got {request['mode']!r}")
        np.save(request["out"], self.padded(answers))
        return {"seconds": seconds, "rounds": rounds}

    def of(self, chosen, numbers):
        """The queries of a filter; the array itself where there is none."""
        return self.queries if chosen is None else self.queries[numbers]

    def wrapped(self, chosen, queries):
        """Queries in the form of requests under a filter."""
        self.engine.filter = chosen
        wrap = getattr(self.engine, "requests", None)
        return queries if wrap is None else wrap(queries)

    def answers(self, batches):
        """What is timed: a search per batch."""
        answers = []
        for chosen, batch, numbers in batches:
            self.engine.filter = chosen
            answers.append((self.engine.search(batch), numbers))
        return answers

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

    def padded(self, answers):
        """int32 [q,k], -1 where nothing was found; of answers and the numbers of their queries."""
        ids = np.full((len(self.rows), self.k), -1, dtype=np.int32)
        for answer, numbers in answers:
            for number, one in zip(numbers, self.engine.ids(answer), strict=True):
                ids[number, : len(one)] = one[: self.k]
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
