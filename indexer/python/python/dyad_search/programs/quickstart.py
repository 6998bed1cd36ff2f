"""The command `dyad-quickstart [DIR]`: from a fresh installation to answers, on a small corpus that the wheel carries.

It fetches libtorch (0.5 GB, once for a user) where no PyTorch is installed, and the model all-MiniLM-L6-v2 (90 MB); embeds the
corpus, builds an index, serves it, asks three questions, and searches from Python. In DIR, by default the current folder, it leaves
`.models` and `.quickstart` with `corpus`, `embeddings` and `index`, with which the commands of the READMEs go on. A second run
fetches nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from .. import Index
from . import SCRIPTS, MissingProgram, encoder_environment, fetch_libtorch, program, run_script

CORPUS = SCRIPTS / "quickstart"
MODEL = "all-MiniLM-L6-v2"
START_S = 120
STOP_S = 30
QUESTIONS = 3


class Failed(Exception):
    """A program ended otherwise than it should."""


class QuickStart:
    """The steps, in a folder of their own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.model = folder / ".models" / MODEL
        self.corpus = folder / ".quickstart" / "corpus"
        self.embeddings = folder / ".quickstart" / "embeddings"
        self.index = folder / ".quickstart" / "index"
        self.environment = dict(os.environ)

    def command(self, name: str, *arguments: object) -> list[str]:
        """A command, which is shown as it would be typed."""
        words = [str(argument) for argument in arguments]
        print(f"\n$ {shlex.join([name, *words])}", flush=True)
        return [str(program(name)), *words]

    def run(self, name: str, *arguments: object) -> None:
        """Runs a program to its end."""
        status = subprocess.run(self.command(name, *arguments), env=self.environment, check=False).returncode
        if status != 0:
            raise Failed(f"{name}: ended with exit code {status}")

    @contextlib.contextmanager
    def serving(self, *arguments: object) -> Iterator[str]:
        """A server at a port of the system's choice, with its address; it is ended afterwards."""
        command = self.command(*map(str, arguments), "--listen", "127.0.0.1:0")
        environment = {"RUST_LOG": "warn"} | self.environment
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            # A program that says nothing is ended, which ends its output.
            watchdog = threading.Timer(START_S, server.kill)
            watchdog.start()
            try:
                assert server.stdout is not None
                lines = iter(server.stdout.readline, "")
                said = next((line for line in lines if line.startswith("listening on ")), None)
                watchdog.cancel()
                if said is None:
                    raise Failed(f"{command[0]}: expected its address within {START_S} s, got none")
                print(said.strip(), flush=True)
                yield said.split()[-1]
            finally:
                watchdog.cancel()
                server.terminate()
                try:
                    server.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    server.kill()

    def all_steps(self) -> None:
        """Runs them."""
        started = time.monotonic()
        self.model.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(CORPUS, self.corpus, dirs_exist_ok=True)
        print("libtorch and the model", flush=True)
        self.environment = encoder_environment(fetch_libtorch())
        run_script("model.py", MODEL, str(self.model))
        fetched = time.monotonic()
        self.run("dyad-encoder", "embed", "--model", self.model, "--tower", "answer", "--corpus", self.corpus, "--out", self.embeddings)
        self.run("dyad-indexer", "build", "--corpus", self.corpus, "--index", self.index, "--embeddings", self.embeddings)
        questions = self.questions()
        with (
            self.serving("dyad-encoder", "serve", "--model", self.model) as encoder,
            self.serving("dyad-searcher", "serve", "--index", self.index, "--question-tower", f"http://{encoder}") as searcher,
        ):
            for question in questions:
                self.run("dyad-searcher", "query", "--server", f"http://{searcher}", "--mode", "compare", "--k", 5, "--", question)
        index = Index.open(self.index)
        print(f"\nfrom Python: {index!r}")
        print(f"\nfetched in {fetched - started:.1f} s, all the rest in {time.monotonic() - fetched:.1f} s")
        encoder_command = shlex.join(["dyad-encoder", "serve", "--model", str(self.model), "--listen", "127.0.0.1:7701"])
        tower = ["--question-tower", "http://127.0.0.1:7701", "--http", "127.0.0.1:7780"]
        searcher_command = shlex.join(["dyad-searcher", "serve", "--index", str(self.index), *tower])
        print(f"to go on, with a page at http://127.0.0.1:7780/:\n  {encoder_command} &\n  {searcher_command}")
        print("quickstart: ok")

    def questions(self) -> list[str]:
        """Some questions of the corpus, from its beginning, middle and end."""
        lines = (CORPUS / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        places = [len(lines) * (2 * number + 1) // (2 * QUESTIONS) for number in range(QUESTIONS)]
        return [str(json.loads(lines[place])["text"]) for place in places]


def main() -> int:
    """Runs the quick start; returns the exit code."""
    if len(sys.argv) > 2 or sys.argv[1:2] in (["--help"], ["-h"]):
        print(__doc__)
        return 2 if len(sys.argv) > 2 else 0
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else "")
    try:
        QuickStart(folder).all_steps()
    except (MissingProgram, Failed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
