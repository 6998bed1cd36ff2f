"""An index of the quick start's documents, for the tests of roots and leaves."""

import json
import pathlib
import subprocess

from build_index import built

QUICKSTART = pathlib.Path(__file__).resolve().parents[2] / "deploy/quickstart"
COMMAND_S = 120


def lines(path):
    """The objects of a JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def questions_of(path=QUICKSTART / "queries.jsonl"):
    """The questions of a file."""
    return [line["text"] for line in lines(path)]


def written(path, documents):
    """A corpus in a file; returns its path."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def index_of_quickstart(binaries, model, folder, encoder):
    """An index of shards of different sizes, with deleted documents and changed metadata; returns its path."""
    documents, index = lines(QUICKSTART / "corpus.jsonl"), folder / "index"
    built(binaries, model, index, documents[:280], "--shards", "5")

    def run(*words):
        command = [binaries / "dyad-indexer", *words, "--index", index]
        subprocess.run(command, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)

    for some in (documents[280:300], documents[300:]):
        run("append", "--corpus", written(folder / "more.jsonl", some), "--encoder", f"http://{encoder}")
    run("delete", "--key", "p010", "--key", "p200", "--key", "p290")
    return index
