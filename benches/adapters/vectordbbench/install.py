#!/usr/bin/env python3
"""Puts the client `dyad` into an installed VectorDBBench, whose list of databases is closed: run it with that environment's Python.

    VENV/bin/pip install vectordb-bench==2.0.0 ./searcher/clients/python
    VENV/bin/python benches/adapters/vectordbbench/install.py

copies the folder `dyad` to `vectordb_bench/backend/clients` and adds a member to `DB`, a branch to each of its three properties, and the
command. A second run changes nothing but the copied files.
"""

import importlib.util
import pathlib
import shutil
import sys

BRANCH = "        if self == DB.Dyad:\n            from .dyad.{module} import {name}\n\n            return {name}\n\n"
FIRST = "        if self == DB.Milvus:\n            from .milvus.{module} import "
#: What is put before which text, of which file.
CHANGES = {
    "backend/clients/__init__.py": (
        ('    Milvus = "Milvus"\n', '    Dyad = "Dyad"\n'),
        (FIRST.format(module="milvus") + "Milvus\n", BRANCH.format(module="dyad", name="Dyad")),
        (FIRST.format(module="config") + "MilvusConfig\n", BRANCH.format(module="config", name="DyadConfig")),
        (
            FIRST.format(module="config") + "_milvus_case_config\n",
            BRANCH.format(module="config", name="DyadCaseConfig"),
        ),
    ),
    "cli/vectordbbench.py": (
        ("from ..backend.clients.elastic_cloud.cli import (\n", "from ..backend.clients.dyad.cli import Dyad\n"),
        ("cli.add_command(MemoryDB)\n", "cli.add_command(Dyad)\n"),
    ),
}


def with_changes(name, text):
    """A file with what is added to it; the same where it is there already."""
    for before, added in CHANGES[name]:
        if added + before in text:
            continue
        if text.count(before) != 1:
            raise SystemExit(
                f"{name}: expected one place that reads {before.strip().splitlines()[0]!r}, got {text.count(before)}. "
                "Install vectordb-bench 2.0.0"
            )
        text = text.replace(before, added + before)
    return text


def install(package):
    """Changes the files of the package's folder."""
    changed = {name: with_changes(name, (package / name).read_text(encoding="utf-8")) for name in CHANGES}
    source = pathlib.Path(__file__).resolve().parent / "dyad"
    shutil.copytree(
        source, package / "backend/clients/dyad", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    for name, text in changed.items():
        (package / name).write_text(text, encoding="utf-8")


def main():
    found = importlib.util.find_spec("vectordb_bench")
    if found is None:
        raise SystemExit(
            f"`vectordb_bench`: expected to be installed. `{sys.executable} -m pip install vectordb-bench==2.0.0`"
        )
    package = pathlib.Path(found.origin).parent
    install(package)
    print(f"dyad is in {package}")


if __name__ == "__main__":
    main()
