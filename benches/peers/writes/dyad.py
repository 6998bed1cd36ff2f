"""dyad by its two programs: `dyad-indexer serve` makes each write durable before it answers, and merges by itself."""

import json
import subprocess
import time

import numpy
from dyad_client import Index, Searcher

FINGERPRINT = "f00d"
START_S, SETTLE_S = 60, 60


def started(command, what):
    """A server, and the address that it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    until = time.monotonic() + START_S
    for line in process.stdout:
        if line.startswith("listening on "):
            return process, line.split()[2]
        if time.monotonic() > until:
            break
    process.kill()
    raise RuntimeError(f"{what} does not start: {' '.join(map(str, command))}")


class Dyad:
    """An indexer and a searcher over one folder; the searcher follows the indexer (`--watch`)."""

    name = "dyad"

    def __init__(self, programs):
        self.programs = programs
        self.folder = self.indexer = self.searcher = self.client = None
        self.address = ""

    def begin(self, folder, plan):
        """Builds the index of the first documents, and starts both programs."""
        corpus, vectors, self.folder = folder / "corpus.jsonl", folder / "vectors.npy", folder / "index"
        with corpus.open("w", encoding="utf-8") as file:
            for document in plan.documents:
                file.write(json.dumps({"_id": document.key, "text": document.text}) + "\n")
        numpy.save(vectors, numpy.array([document.vector for document in plan.documents], dtype=numpy.float32))
        build = ["build", "--corpus", corpus, "--index", self.folder, "--vectors", vectors, "--model-name", "minilm", "--fingerprint", FINGERPRINT]
        subprocess.run([self.programs / "dyad-indexer", *build], check=True, capture_output=True)
        corpus.unlink()
        vectors.unlink()
        serve = [self.programs / "dyad-indexer", "serve", "--index", self.folder, "--listen", "127.0.0.1:0"]
        self.indexer, self.address = started(serve, "dyad-indexer")
        serve = [self.programs / "dyad-searcher", "serve", "--index", self.folder, "--question-tower", "none"]
        self.searcher, address = started([*serve, "--listen", "127.0.0.1:0", "--watch"], "dyad-searcher")
        self.client = Searcher(address)

    def connect(self):
        """A client of the indexer."""
        return DyadClient(self.address)

    def settle(self, plan):
        """Waits until the searcher has what was written; the indexer merges meanwhile."""
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            if self.documents() == plan.documents_after() and self._manifest()["generation"] == self.client.status().generation:
                return
            time.sleep(0.1)

    def search(self, question, hits):
        """The hits of the vector."""
        return self.client.search("", vector=question, fingerprint=FINGERPRINT, k=hits).hits

    def _manifest(self):
        name = (self.folder / "CURRENT").read_text().split()[0]
        return json.loads((self.folder / name).read_text())

    def documents(self):
        """Documents that are not deleted."""
        shards = self._manifest()["shards"]
        return sum(shard["documents"] - (shard.get("deleted") or {"documents": 0})["documents"] for shard in shards)

    def state(self):
        """Shards and generations."""
        return f"{len(self._manifest()['shards'])} shards, {len(list(self.folder.glob('manifest-*')))} generations"

    def end(self):
        """Ends both programs."""
        for process in (self.searcher, self.indexer):
            if process is not None:
                process.terminate()
                process.wait()


class DyadClient:
    """One connection."""

    def __init__(self, address):
        self.index = Index(address)

    def write(self, write):
        """One call."""
        if write.vector is None:
            self.index.delete([write.key])
        else:
            document = {"key": write.key, "text": write.text}
            self.index.upsert([document], vectors=[write.vector], fingerprint=FINGERPRINT)
