"""Runs a script of ann-benchmarks with the files of its folder `data` as data sets, besides those that it knows:

    python local_datasets.py run.py --local --dataset minilm-384-angular --algorithm dyad

in the root of ann-benchmarks, whose `--dataset` takes none but its own names.
"""

import pathlib
import runpy
import sys


def register(datasets, folder):
    """Adds a name for each HDF5 file that is there; the framework opens a file that exists, and makes none then."""
    names = sorted(file.stem for file in folder.glob("*.hdf5"))
    for name in names:
        datasets.setdefault(name, None)
    return names


def main():
    if len(sys.argv) < 2:
        raise SystemExit("expected a script of ann-benchmarks, such as run.py, and its arguments, got nothing")
    sys.path.insert(0, str(pathlib.Path.cwd()))
    from ann_benchmarks.datasets import DATASETS

    register(DATASETS, pathlib.Path("data"))
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
