#!/usr/bin/env python3
"""Data sets in the formats of the frameworks, from vectors in `.npy` files, with their exact neighbours.

    datasets.py --base base.npy --queries queries.npy --format vibe --out VIBE/data/minilm-384-normalized.hdf5
    datasets.py --base base.npy --queries queries.npy --format ann-benchmarks --out ANN_BENCHMARKS/data/minilm-384-angular.hdf5
    datasets.py --base base.npy --queries queries.npy --format vectordbbench --out FOLDER

Rows are [vectors, dim] of float16, float32 or float64, and are stored as float32. With `--metric cosine` (the default) they are scaled to
length 1 first, and neighbours are those of the largest cosine; with `--metric l2`, of the smallest Euclidean distance. The k nearest are found
by comparing all vectors in float64; of equal ones the lower row comes first.

| format | what is written | distances |
|---|---|---|
| `vibe` | HDF5: `train`, `test`, `neighbors`, `distances`, `avg_distances`; attributes `distance` (`normalized` or `euclidean`), `dimension`, `point_type` | 1 - cosine, or Euclidean |
| `ann-benchmarks` | HDF5: `train`, `test`, `neighbors`, `distances`; attributes `type`, `distance` (`angular` or `euclidean`), `dimension`, `point_type` | the same |
| `vectordbbench` | `train.parquet` (id, emb), `test.parquet` (id, emb), `neighbors.parquet` (id, neighbors_id) | none |

VIBE reads dimension and metric from the name of the file: NAME-DIM-METRIC.hdf5.
"""

import argparse
import pathlib

import numpy

FORMATS = ("vibe", "ann-benchmarks", "vectordbbench")
#: Queries that are compared with all vectors at once.
BLOCK = 64


def loaded(path, limit, metric):
    """The first rows of a file, as float32; of length 1 where the metric is the cosine."""
    rows = numpy.load(path, mmap_mode="r")
    if rows.ndim != 2:
        raise SystemExit(f"expected rows of numbers, [vectors, dim], got an array of {rows.ndim} dimensions: {path}")
    rows = numpy.array(rows[:limit], dtype=numpy.float32)
    if metric == "cosine":
        lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
        if not lengths.all():
            raise SystemExit(
                f"expected rows with a direction, got zeros in row {int(lengths[:, 0].argmin())}. Use `--metric l2`: {path}"
            )
        rows /= lengths
    return rows


def exact(base, queries, k, metric):
    """Row numbers and distances of the k nearest rows for each query, and the mean distance of all rows."""
    rows = base.astype(numpy.float64)
    squares = (rows * rows).sum(axis=1)
    neighbors = numpy.empty((len(queries), k), dtype=numpy.int64)
    distances, means = numpy.empty((len(queries), k)), numpy.empty(len(queries))
    for start in range(0, len(queries), BLOCK):
        some = queries[start : start + BLOCK].astype(numpy.float64)
        products = some @ rows.T
        if metric == "cosine":
            far = 1 - products
        else:
            far = numpy.sqrt(numpy.maximum(squares - 2 * products + (some * some).sum(axis=1)[:, None], 0))
        # The k nearest in any order, and all that are as far as the last of them: then ordered by distance and row.
        for row, line in enumerate(far, start):
            near = numpy.flatnonzero(line <= numpy.partition(line, k - 1)[k - 1])
            near = near[numpy.lexsort((near, line[near]))][:k]
            neighbors[row], distances[row], means[row] = near, line[near], line.mean()
    return neighbors, distances, means


def write_hdf5(path, form, metric, base, queries, k):
    """A file of VIBE or ann-benchmarks."""
    import h5py

    neighbors, distances, means = exact(base, queries, k, metric)
    path.parent.mkdir(parents=True, exist_ok=True)
    by_cosine = "normalized" if form == "vibe" else "angular"
    with h5py.File(path, "w") as file:
        if form == "ann-benchmarks":
            file.attrs["type"] = "dense"
        file.attrs["distance"] = by_cosine if metric == "cosine" else "euclidean"
        file.attrs["dimension"], file.attrs["point_type"] = base.shape[1], "float"
        arrays = {"train": base, "test": queries, "neighbors": neighbors, "distances": distances}
        if form == "vibe":
            arrays["avg_distances"] = means
        for name, values in arrays.items():
            file.create_dataset(name, data=values)


def write_parquet(folder, metric, base, queries, k):
    """A folder of VectorDBBench's custom data sets."""
    import pyarrow
    import pyarrow.parquet

    def rows_of(values, kind):
        flat = pyarrow.array(values.reshape(-1), type=kind)
        ends = pyarrow.array(numpy.arange(len(values) + 1, dtype=numpy.int32) * values.shape[1])
        return pyarrow.ListArray.from_arrays(ends, flat)

    neighbors, _, _ = exact(base, queries, k, metric)
    folder.mkdir(parents=True, exist_ok=True)
    for name, column, values, kind in (
        ("train", "emb", base, pyarrow.float32()),
        ("test", "emb", queries, pyarrow.float32()),
        ("neighbors", "neighbors_id", neighbors, pyarrow.int64()),
    ):
        table = pyarrow.table({"id": numpy.arange(len(values)), column: rows_of(values, kind)})
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--base", required=True, type=pathlib.Path, help="vectors that are searched: .npy, [vectors, dim]"
    )
    parser.add_argument(
        "--queries", required=True, type=pathlib.Path, help="vectors that are searched for: .npy, [queries, dim]"
    )
    parser.add_argument("--format", required=True, choices=FORMATS)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="a file, or a folder of `vectordbbench`")
    parser.add_argument("--metric", choices=("cosine", "l2"), default="cosine")
    parser.add_argument("--vectors", type=int, metavar="N", help="take the first N only")
    parser.add_argument("--limit-queries", type=int, metavar="N", help="take the first N queries only")
    parser.add_argument(
        "--neighbors", type=int, default=100, metavar="K", help="neighbours of each query (default: 100)"
    )
    arguments = parser.parse_args()
    base = loaded(arguments.base, arguments.vectors, arguments.metric)
    queries = loaded(arguments.queries, arguments.limit_queries, arguments.metric)
    if base.shape[1] != queries.shape[1]:
        raise SystemExit(
            f"`--queries`: expected rows of {base.shape[1]} numbers, as those of `--base`, got {queries.shape[1]}"
        )
    if not 0 < arguments.neighbors <= len(base):
        raise SystemExit(f"`--neighbors`: expected 1 to {len(base)}, the number of vectors, got {arguments.neighbors}")
    if arguments.format == "vectordbbench":
        write_parquet(arguments.out, arguments.metric, base, queries, arguments.neighbors)
    else:
        write_hdf5(arguments.out, arguments.format, arguments.metric, base, queries, arguments.neighbors)
    print(
        f"{arguments.out}: {len(base)} vectors, {len(queries)} queries, {base.shape[1]} values, {arguments.neighbors} neighbours"
    )


if __name__ == "__main__":
    main()
