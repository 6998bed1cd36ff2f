"""An index of documents, by the programs of a build."""

import json
import subprocess

COMMAND_S = 120


def built(binaries, model, index, documents, *more):
    """Embeds documents and builds an index of them in the folder `index`; corpus and embeddings are next to it."""
    corpus, embeddings = index.with_suffix(".jsonl"), index.with_name(index.name + "-embeddings")
    corpus.write_text("".join(json.dumps(document) + "\n" for document in documents))
    for command in (
        ["dyad-encoder", "embed", "--model", model, "--tower", "answer", "--corpus", corpus, "--out", embeddings],
        ["dyad-indexer", "build", "--corpus", corpus, "--index", index, "--embeddings", embeddings, *more],
    ):
        subprocess.run([binaries / command[0], *command[1:]], check=True, timeout=COMMAND_S, capture_output=True, text=True)
