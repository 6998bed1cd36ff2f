#!/usr/bin/env python3
"""Exact neighbours of one step of a runbook, with the options of DiskANN's `compute_groundtruth`, which big-ann-benchmarks calls:

    python benchmark/streaming/compute_gt.py --dataset random-xs --runbook_file neurips23/runbooks/simple_runbook.yaml \\
      --gt_cmdline_tool "python $DYAD/benches/adapters/big_ann/groundtruth.py"

Files are the framework's: two uint32, rows and columns, and then the rows. What is written has ids as uint32 and then distances as float32.
Ids are tags, since a replaced vector keeps the tag of the one before.
"""

import argparse

import numpy

TYPES = {"float": numpy.float32, "uint8": numpy.uint8, "int8": numpy.int8}
#: Queries that are compared with all vectors at once.
BLOCK = 256


def rows(path, dtype):
    """The rows of a file."""
    count, columns = numpy.fromfile(path, dtype=numpy.uint32, count=2)
    return numpy.fromfile(path, dtype=dtype, offset=8).reshape(count, columns)


def nearest(base, queries, k, distance):
    """Row numbers and distances of the `k` nearest rows, in the order of their distances and then of their numbers."""
    base, queries = base.astype(numpy.float64), queries.astype(numpy.float64)
    squares = (base * base).sum(axis=1)
    found, distances = [], []
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK]
        far = -(some @ base.T)
        if distance == "l2":
            far = squares + 2 * far + (some * some).sum(axis=1)[:, None]
        order = numpy.argsort(far, axis=1, kind="stable")[:, :k]
        found.append(order)
        distances.append(numpy.take_along_axis(far, order, axis=1))
    return numpy.concatenate(found), numpy.concatenate(distances)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist_fn", choices=("l2", "mips"), required=True)
    parser.add_argument("--data_type", choices=TYPES, required=True)
    parser.add_argument("--K", type=int, required=True)
    for name in ("query_file", "base_file", "gt_file", "tags_file"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    dtype = TYPES[arguments.data_type]
    base, tags = rows(arguments.base_file, dtype), rows(arguments.tags_file, numpy.uint32)[:, 0]
    if len(base) < arguments.K:
        raise SystemExit(f"`--K`: expected at most {len(base)}, the vectors of this step, got {arguments.K}")
    found, distances = nearest(base, rows(arguments.query_file, dtype), arguments.K, arguments.dist_fn)
    with open(arguments.gt_file, "wb") as file:
        numpy.array(found.shape, dtype=numpy.uint32).tofile(file)
        tags[found].astype(numpy.uint32).tofile(file)
        distances.astype(numpy.float32).tofile(file)


if __name__ == "__main__":
    main()
