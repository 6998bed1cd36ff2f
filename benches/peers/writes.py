#!/usr/bin/env python3
"""Single writes into an index that is searched: what one costs, and whether that grows with their number.

    writes.py --programs DIR --vectors DIR [--writes 200] [--clients 1] [--engines dyad,qdrant-edge,lancedb] [--out FILE]

Each engine begins with the same documents, their texts and vectors; then the same writes come one by one: of four, two add a
document, one replaces one, one deletes one. A client begins the next where its last is acknowledged. Before and after all writes the
same questions are asked by their vectors. The result is a table, and a CSV with `--out`.

--programs   the folder of `dyad-indexer` and `dyad-searcher`
--vectors    a folder with `base.f16.npy` [documents, values] and `queries.f32.npy` [questions, values]

The environment: pip install ./searcher/clients/python qdrant-edge-py==0.9.0 lancedb==0.40.0 numpy
"""

import argparse
import csv
import pathlib
import sys
import tempfile
import threading
import time

import numpy

from writes.dyad import Dyad
from writes.engines import LanceDb, QdrantEdge
from writes.plan import QUARTERS, Plan

ENGINES = {engine.name: engine for engine in (Dyad, QdrantEdge, LanceDb)}
HITS = 10
COLUMNS = [
    "engine", "writes", "clients", "writes_per_s", "write_p50_ms", "write_p99_ms", "first_quarter_p50_ms", "last_quarter_p50_ms",
    "search_p50_us_before", "search_p50_us_after", "megabytes_before", "megabytes_after", "files_after", "state",
]


def percentile(values, share):
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def search_us(engine, questions):
    """The median time of one question, in microseconds."""
    times = []
    for question in questions:
        began = time.perf_counter()
        hits = engine.search(question, HITS)
        times.append(time.perf_counter() - began)
        if len(hits) != HITS:
            raise RuntimeError(f"{engine.name}: expected {HITS} hits, got {len(hits)}")
    return 1e6 * percentile(times, 0.5)


def write_all(engine, writes, clients):
    """Makes the writes by so many clients, and returns the seconds of each and of all."""
    waiting = iter(writes)
    lock, times, failed = threading.Lock(), [], []

    def client():
        connection = engine.connect()
        while not failed:
            with lock:
                write = next(waiting, None)
            if write is None:
                return
            began = time.perf_counter()
            try:
                connection.write(write)
            except Exception as error:
                failed.append(error)
                return
            times.append(time.perf_counter() - began)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return times, time.perf_counter() - began


def size_of(folder):
    """Bytes and number of the files in a folder."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(sizes), len(sizes)


def measure(engine, plan, clients, folder):
    """One engine under all writes: a row of the table."""
    try:
        engine.begin(folder, plan)
        before = search_us(engine, plan.questions)
        bytes_before, _ = size_of(folder)
        quarters, seconds = [], 0.0
        for writes in plan.quarters():
            times, took = write_all(engine, writes, clients)
            quarters.append(times)
            seconds += took
        times = [one for quarter in quarters for one in quarter]
        engine.settle(plan)
        after = search_us(engine, plan.questions)
        found = engine.documents()
        if found != plan.documents_after():
            raise RuntimeError(f"{engine.name}: expected {plan.documents_after()} documents, got {found}")
        bytes_after, files = size_of(folder)
        state = engine.state()
    finally:
        engine.end()
    milliseconds = [1e3 * percentile(part, share) for part, share in ((times, 0.5), (times, 0.99), (quarters[0], 0.5), (quarters[-1], 0.5))]
    return [
        engine.name, len(times), clients, round(len(times) / seconds, 1), *(round(one, 2) for one in milliseconds),
        round(before), round(after), round(bytes_before / 1e6, 2), round(bytes_after / 1e6, 2), files, state,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--vectors", type=pathlib.Path, required=True)
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.writes < QUARTERS:
        parser.error(f"--writes: expected at least {QUARTERS}, got {options.writes}")
    rows = numpy.load(options.vectors / "base.f16.npy", mmap_mode="r")
    questions = numpy.load(options.vectors / "queries.f32.npy")
    most = options.documents + options.writes
    plan = Plan(rows[:most], questions, options.documents, options.writes)
    table = []
    for name in options.engines.split(","):
        if name not in ENGINES:
            parser.error(f"--engines: expected some of {', '.join(ENGINES)}, got {name}")
        with tempfile.TemporaryDirectory() as folder:
            table.append(measure(ENGINES[name](options.programs), plan, options.clients, pathlib.Path(folder)))
        for column, value in zip(COLUMNS, table[-1], strict=True):
            print(f"{column:>22}  {value}", flush=True)
        print()
    if options.out:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *table])
    return 0


if __name__ == "__main__":
    sys.exit(main())
