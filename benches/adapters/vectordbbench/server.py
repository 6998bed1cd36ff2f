#!/usr/bin/env python3
"""An empty index with both of dyad's programs over it, for a benchmark that fills it; Ctrl-C or SIGTERM ends them.

    server.py --programs target/release --index FOLDER --dim 384 --metric cosine

prints the addresses, which are on the loopback interface; `served` is the same for programs.
"""

import argparse
import contextlib
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

START_S, END_S = 60, 30
MODEL = "vectordbbench"


def run(command):
    """A program that ends by itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"expected {command[0]} {command[1]} to end with 0, got {done.returncode}: {done.stderr.strip()}"
        )


def make_empty(programs, folder, dim, metric, m, ef_construction):
    """Publishes an index without documents, which knows the length of its vectors and their metric."""
    with tempfile.TemporaryDirectory() as given:
        vectors, keys = pathlib.Path(given, "none.npy"), pathlib.Path(given, "none.keys")
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {dim}), }}"
        # The format of .npy, version 1.0: the header ends a multiple of 64 bytes after the magic.
        header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
        vectors.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        keys.write_text("")
        run(
            [
                *(
                    str(programs / "dyad-indexer"),
                    "build",
                    "--index",
                    str(folder),
                    "--vectors",
                    str(vectors),
                    "--keys",
                    str(keys),
                ),
                *(
                    "--model-name",
                    MODEL,
                    "--metric",
                    metric,
                    "--m",
                    str(m),
                    "--ef-construction",
                    str(ef_construction),
                    "--allow-empty",
                ),
            ]
        )


class Program:
    """A server that prints `listening on ADDRESS`."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.address = ""
        until = time.monotonic() + START_S
        while not self.address:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            line = self.process.stdout.readline() if ready else ""
            if not line:
                self.end()
                raise RuntimeError(
                    f"expected `listening on` of {command[0]} within {START_S} s, got none; {log.name} says why"
                )
            if line.startswith("listening on "):
                self.address = line.split()[2]

    def end(self):
        """Ends the process, and waits."""
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def served(programs, folder, dim, metric="cosine", m=16, ef_construction=200):
    """The addresses of a searcher and an indexer over a new, empty index. Their logs are in the folder."""
    programs, folder = pathlib.Path(programs), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index"
    make_empty(programs, index, dim, metric, m, ef_construction)
    with contextlib.ExitStack() as stack:
        addresses = []
        for name, more in (("dyad-searcher", ["--question-tower", "none", "--watch"]), ("dyad-indexer", [])):
            log = stack.enter_context((folder / f"{name}.log").open("w", encoding="utf-8"))
            command = [str(programs / name), "serve", "--index", str(index), "--listen", "127.0.0.1:0", *more]
            program = Program(command, log)
            stack.callback(program.end)
            addresses.append(program.address)
        yield tuple(addresses)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--programs", required=True, type=pathlib.Path, help="the folder of dyad-indexer and dyad-searcher"
    )
    parser.add_argument("--index", required=True, type=pathlib.Path, help="a folder for the index and the logs")
    parser.add_argument("--dim", required=True, type=int)
    parser.add_argument("--metric", choices=("cosine", "dot", "l2"), default="cosine")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--ef-construction", type=int, default=200)
    given = parser.parse_args()
    with served(given.programs, given.index, given.dim, given.metric, given.m, given.ef_construction) as (
        searcher,
        indexer,
    ):
        print(f"--searcher {searcher} --indexer {indexer}", flush=True)
        # A shell starts background programs with SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: sys.exit(0))
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
