"""Re-embeds an index while a searcher answers questions: `deploy/tests/reembed_load.py --binaries DIR --model DIR [--passages N] [--rate QPS]`.

Builds an index of passages of `$DYAD_DATA/wikipedia-articles`, serves it with the question towers of its model and of another one (the same weights rounded to
bfloat16), and asks questions at a constant rate (open loop: a late answer delays no other question) before, while `dyad-indexer reembed` runs, and after.
Prints failed requests and latencies of each as JSON, and the generations that answered. It is run by hand, where `pip install ./searcher/clients/python` was:
`deploy/test.sh` measures nothing.
"""

import argparse
import gzip
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WORDS = 20
QUIET_S = 20
START_S = 120
THREADS = 32


def passages(path, wanted):
    """Passages of 20 words each, from the beginnings of articles on."""
    with gzip.open(path, "rt") as lines:
        found = 0
        for line in lines:
            article = json.loads(line)
            words = article["text"].split()
            for at in range(0, len(words) - WORDS, WORDS):
                yield {"_id": f"{article['_id']}-{at}", "title": article["title"], "text": " ".join(words[at : at + WORDS])}
                found += 1
                if found == wanted:
                    return


class Server:
    """A server that is ended by its process id; its address is read from its log."""

    def __init__(self, command, log):
        self.log = log
        self.process = subprocess.Popen([str(part) for part in command], stdout=log.open("w"), stderr=subprocess.STDOUT)

    def address(self):
        for _ in range(10 * START_S):
            for line in self.log.read_text().splitlines():
                if line.startswith("listening on "):
                    return line.split()[2]
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"{self.process.args}: {self.log.read_text()}")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class Load:
    """Questions at a constant rate; latencies count from when a question was due."""

    def __init__(self, address, questions, rate):
        self.address, self.questions, self.rate = address, questions, rate
        self.due, self.results, self.phase = queue.Queue(), [], "before"
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(THREADS)] + [threading.Thread(target=self.schedule)]

    def schedule(self):
        begin, number = time.monotonic(), 0
        while not self.over.is_set():
            due = begin + number / self.rate
            time.sleep(max(0.0, due - time.monotonic()))
            self.due.put((due, self.questions[number % len(self.questions)]))
            number += 1
        for _ in range(THREADS):
            self.due.put(None)

    def ask(self):
        from dyad_client import RetryPolicy, Searcher

        with Searcher(self.address, timeout=10, retry=RetryPolicy(attempts=1)) as searcher:
            while (item := self.due.get()) is not None:
                due, question = item
                try:
                    reply = searcher.search(question, k=10)
                    outcome = (reply.message.generation, bool(reply.message.degraded), None)
                except Exception as error:  # Whatever fails is counted, and shown.
                    outcome = (None, False, f"{type(error).__name__}: {error}")
                self.results.append((self.phase, time.monotonic() - due, *outcome))


def summary(results):
    latencies = sorted(1000 * latency for _, latency, *_ in results)
    at = lambda share: round(latencies[min(len(latencies) - 1, int(share * len(latencies)))], 2)
    errors = [error for *_, error in results if error]
    return {
        "requests": len(results),
        "failed": len(errors),
        "degraded": sum(degraded for _, _, _, degraded, _ in results),
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "max_ms": at(1),
        "generations": sorted({generation for _, _, generation, *_ in results if generation}),
        "errors": errors[:3],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=20)
    options = parser.parse_args()
    data = Path(os.environ["DYAD_DATA"])
    binary = lambda name: options.binaries / name
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        corpus, index, other = folder / "corpus.jsonl", folder / "index", folder / "bf16"
        with corpus.open("w") as out:
            for passage in passages(data / "wikipedia-articles" / "corpus.jsonl.gz", options.passages):
                out.write(json.dumps(passage) + "\n")
        with gzip.open(data / "nq-oracle" / "queries.jsonl.gz", "rt") as lines:
            questions = [json.loads(line)["text"] for line in lines]
        run = lambda *command: subprocess.run([str(part) for part in command], check=True)
        run(binary("dyad-encoder"), "export", "--model", options.model, "--dtype", "bf16", "--out", other)
        servers = []
        try:
            towers = []
            for name, model in (("before", options.model), ("after", other)):
                serve = [binary("dyad-encoder"), "serve", "--model", model, "--dtype", "int8", "--listen", "127.0.0.1:0"]
                servers.append(Server(serve, folder / f"{name}.log"))
                towers.append("http://" + servers[-1].address())
            began = time.monotonic()
            run(binary("dyad-indexer"), "build", "--corpus", corpus, "--index", index, "--encoder", towers[0])
            build_s = time.monotonic() - began
            serve = [binary("dyad-searcher"), "serve", "--index", index, "--listen", "127.0.0.1:0", "--watch", "1"]
            for tower in towers:
                serve += ["--question-tower", tower]
            servers.append(Server(serve, folder / "searcher.log"))
            load = Load(servers[-1].address(), questions, options.rate)
            for thread in load.threads:
                thread.start()
            time.sleep(QUIET_S)
            load.phase = "while"
            began = time.monotonic()
            run(binary("dyad-indexer"), "reembed", "--index", index, "--encoder", towers[1])
            reembed_s = time.monotonic() - began
            load.phase = "after"
            time.sleep(QUIET_S)
            load.over.set()
            for thread in load.threads:
                thread.join()
        finally:
            for server in reversed(servers):
                server.stop()
        report = {"passages": options.passages, "rate": options.rate, "build_s": round(build_s, 1), "reembed_s": round(reembed_s, 1)}
        for phase in ("before", "while", "after"):
            report[phase] = summary([result for result in load.results if result[0] == phase])
        print(json.dumps(report, indent=2))
        sys.exit(any(report[phase]["failed"] for phase in ("before", "while", "after")))


if __name__ == "__main__":
    main()
