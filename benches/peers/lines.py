"""The frame of every worker: JSON lines between harness and engine, and the command line in front of them."""

import argparse
import ctypes
import gc
import json
import os
import pathlib
import sys


def main(description, names, create, operations):
    """`--engine NAME` serves one engine, `--list` prints them all."""
    parser = argparse.ArgumentParser(description=description)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--engine", metavar="NAME")
    choice.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for name in names:
            print(name)
        return
    if arguments.engine not in names:
        sys.exit(f"error: unknown engine {arguments.engine!r}, expected one of: {', '.join(names)}")
    serve(arguments.engine, create, operations)


def serve(name, create, operations):
    """Answers requests by the methods of `create(name)` that `operations` names, until `quit` or the end of stdin."""
    # Engines print to stdout, from C too: the replies get a file descriptor of their own.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        worker, missing = create(name), None
    except Exception as error:  # the first request is answered with it
        worker, missing = None, f"{name}: {type(error).__name__}: {error}"
    for line in sys.stdin:
        try:
            request = json.loads(line)
            operation = request["op"]
            if operation == "quit":
                break
            if worker is None:
                raise RuntimeError(missing)
            if operation not in operations:
                raise ValueError(f"op: expected one of {', '.join(operations)}, quit, got {operation!r}")
            reply = getattr(worker, operation)(request)
        except Exception as error:  # a failed request answers, and the worker lives on
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)
    replies.close()


def trim():
    """Hands freed memory back to the kernel, so that the allocator's habits do not count against an engine."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def memory(settle):
    """Resident memory and its peak as the kernel counts them; with `settle` freed memory is given back and a new peak begins."""
    if settle:
        trim()
        # Sets the peak back to what is resident now (man 5 proc).
        pathlib.Path("/proc/self/clear_refs").write_text("5", "ascii")
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text("ascii").splitlines())
    return {key: int(status[name].split()[0]) * 1024 for key, name in [("rss_bytes", "VmRSS"), ("peak_bytes", "VmHWM")]}
