#!/usr/bin/env python3
"""Questions per second by recall, from the result files of VIBE or ann-benchmarks:

    table.py --data data/minilm-384-normalized.hdf5 --results results/minilm-384-normalized/10

Recall is theirs: a hit counts that is at most .001 farther than the k-th neighbour. Questions per second are theirs too, of the mean time of a
query in the best run; a mean grows where other programs want the same core, and the median of the last run hardly does, so both are told.

A file of ann-benchmarks has one run in its root, and a file of VIBE a group for each of its query arguments. Either has the attributes
`algo`, `count`, `best_search_time` (s), `build_time` (s) and `index_size` (KiB), and the arrays `times` [queries] (s), `neighbors` and
`distances` [queries, k], of which -1 and infinity are none.
"""

import argparse
import pathlib

LEVELS = (0.9, 0.95, 0.97, 0.99)
EPSILON = 1e-3


def runs(results, truth):
    """What each run came to; `truth` has the distances of the exact neighbours [queries, k or more]."""
    import h5py
    import numpy

    for path in sorted(results.rglob("*.hdf5")):
        with h5py.File(path) as file:
            for run in [file] if "times" in file else file.values():
                k = int(run.attrs["count"])
                if len(run["times"]) != len(truth) or truth.shape[1] < k:
                    raise SystemExit(
                        f"`--data`: expected {len(run['times'])} queries with {k} neighbours, got {truth.shape}: {path}"
                    )
                near = run["distances"][:, :k] <= truth[:, k - 1, None] + EPSILON
                yield {
                    "algorithm": run.attrs["algo"],
                    "name": run.attrs["name"],
                    "recall": float(near.mean()),
                    "qps": 1 / run.attrs["best_search_time"],
                    "of_median": 1 / float(numpy.median(run["times"])),
                    "build_s": run.attrs["build_time"],
                    "size_mb": run.attrs["index_size"] / 1024,
                }


def best(rows, rate, levels=LEVELS):
    """For each algorithm its build time and size, and the highest rate at each recall or above; None where there is none."""
    found = {}
    for row in sorted(rows, key=lambda row: row["algorithm"]):
        line = found.setdefault(row["algorithm"], {name: row[name] for name in ("build_s", "size_mb")})
        for level in levels:
            if row["recall"] >= level and row[rate] > (line.get(level) or 0):
                line[level] = row[rate]
    return {name: line | {level: line.get(level) for level in levels} for name, line in found.items()}


def print_table(title, rows, rate):
    """One row for each algorithm."""
    print(f"\n| {title} | " + " | ".join(str(level) for level in LEVELS) + " | build, s | size, MB |")
    print("|---|" + "---|" * (len(LEVELS) + 2))
    for name, line in best(rows, rate).items():
        rates = " | ".join("-" if line[level] is None else f"{line[level]:,.0f}" for level in LEVELS)
        print(f"| {name} | {rates} | {line['build_s']:.1f} | {line['size_mb']:.0f} |")


def main():
    import h5py

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the data set's HDF5 file")
    parser.add_argument(
        "--results", required=True, type=pathlib.Path, help="the folder of the runs of one data set and k"
    )
    given = parser.parse_args()
    with h5py.File(given.data) as file:
        rows = list(runs(given.results, file["distances"][:]))
    if not rows:
        raise SystemExit(f"`--results`: expected .hdf5 files, got none. Run the framework first: {given.results}")
    print_table("QPS of the best run, by recall", rows, "qps")
    print_table("1 / median time of a query, by recall", rows, "of_median")


if __name__ == "__main__":
    main()
