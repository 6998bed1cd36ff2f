"""deploy/quickstart.sh with stand-ins for the binaries: the order of steps, the server's life, the error paths."""

import gzip
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
# Each stand-in writes down how it was called.
CALLED = '#!/usr/bin/env bash\nprintf "%s" "${0##*/}" >>"$CALLS"; printf " %q" "$@" >>"$CALLS"; echo >>"$CALLS"\n'
SERVER = r"""
if [[ $1 == serve ]]; then
  echo $$ >"$CALLS.pid"
  trap 'exit "${EXIT_CODE:-0}"' TERM
  if [[ -n ${BROKEN:-} ]]; then echo "error: $BROKEN" >&2; exit 1; fi
  echo "warming up"
  sleep 0.2
  echo "listening on 127.0.0.1:4321"
  echo "HTTP on 127.0.0.1:4322"
  while true; do sleep 0.05; done
fi
"""
QUESTIONS = [f'{{"_id": "q{number}", "text": "what is  number {number}?"}}\n' for number in range(12)]


class QuickstartTest(unittest.TestCase):
    """Each test has its own root with a copy of the script."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()
        self.root, self.calls = self.scratch / "root", self.scratch / "calls"
        (self.root / "deploy").mkdir(parents=True)
        for name in ("quickstart.sh", "steps.sh"):
            shutil.copy(DEPLOY / name, self.root / "deploy")
        bodies = {"bin/cargo": "", "root/deploy/libtorch.sh": "", "root/deploy/model.sh": 'mkdir -p "$2"\n'}
        for name in ("dyad-encoder", "dyad-indexer", "dyad-bench"):
            bodies[f"root/target/ci/{name}"] = ""
        bodies["root/target/ci/dyad-searcher"] = SERVER
        for name, body in bodies.items():
            path = self.scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CALLED + body)
            path.chmod(0o755)
        self.data = self.scratch / "data"
        (self.data / "qrels").mkdir(parents=True)
        (self.data / "corpus.jsonl").write_text('{"_id": "d", "title": "", "text": "t"}\n')
        (self.data / "queries.jsonl").write_text("".join(QUESTIONS))
        (self.data / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td\t1\n")

    def start(self, **environment):
        """The script, running."""
        kept = {key: value for key, value in os.environ.items() if key not in ("MODEL", "SPLIT", "SERVE", "LISTEN", "HTTP")}
        kept |= {"PATH": f"{self.scratch}/bin:{kept['PATH']}", "CALLS": str(self.calls), "PROFILE": "ci"}
        kept |= {"DATA": "data"} | environment
        kept.pop("CARGO_TARGET_DIR", None)
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.root / "deploy/quickstart.sh"],
            cwd=self.scratch,
            env=kept,
            stdout=pipe,
            stderr=pipe,
            text=True,
            # Tests that run in the background ignore it, and a script that inherits that cannot be interrupted.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def run_quickstart(self, **environment):
        """(exit code, stdout, stderr), after making sure that no server is left."""
        process = self.start(**environment)
        out, err = process.communicate(timeout=60)
        self.assert_no_server()
        return process.returncode, out, err

    def assert_no_server(self):
        """The stand-in that served is gone."""
        pid = self.calls.with_suffix(".pid")
        if pid.exists():
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid.read_text()), 0)

    def test_the_whole_way(self):
        code, out, err = self.run_quickstart()
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(out.splitlines()[-1], "quickstart: ok")
        calls = self.calls.read_text().splitlines()
        self.assertEqual(
            [" ".join(call.split()[:2]) for call in calls],
            ["libtorch.sh ''", "model.sh all-MiniLM-L6-v2", "cargo build", "dyad-encoder embed", "dyad-indexer build"]
            + ["dyad-indexer inspect", "dyad-searcher serve", *["dyad-searcher query"] * 3, "dyad-bench quality"],
        )
        embed, build, serve, query, quality = calls[3], calls[4], calls[6], calls[7], calls[-1]
        work = embed.split(" --out ")[1].removesuffix("/embeddings")
        self.assertIn(f"--model .models/all-MiniLM-L6-v2 --tower answer --corpus {self.data} --out", embed)
        self.assertIn(f"--index {work}/index --embeddings {work}/embeddings --shards 2", build)
        self.assertIn(f"--index {work}/index --question-tower .models/all-MiniLM-L6-v2 --listen 127.0.0.1:0", serve)
        self.assertIn(r"--server http://127.0.0.1:4321 --mode compare --k 5 -- what\ is\ number\ 2\?", query)
        # What the READMEs go on with.
        left = {name: os.path.realpath(self.root / ".quickstart" / name) for name in ("corpus", "embeddings", "index")}
        expected = {"corpus": self.data, "embeddings": self.root / work / "embeddings", "index": self.root / work / "index"}
        self.assertEqual(left, {name: str(path) for name, path in expected.items()})
        self.assertIn(f"--data {self.data} --split test --modes dense\\,bm25\\,hybrid --run-dir {work}/runs", quality)

    def test_a_second_run_reuses_embeddings_and_another_corpus_does_not(self):
        works = []
        for text in ("one", "one", "two"):
            (self.data / "corpus.jsonl").write_text(f'{{"_id": "d", "text": "{text}"}}\n')
            self.calls.unlink(missing_ok=True)
            self.assertEqual(self.run_quickstart()[0], 0)
            works.append(self.calls.read_text().split(" --out ")[1].split("\n")[0])
        self.assertEqual(works[0], works[1])
        self.assertNotEqual(works[0], works[2])

    def test_packed_files(self):
        for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
            path = self.data / name
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        code, out, _ = self.run_quickstart()
        self.assertEqual(code, 0)
        self.assertIn("what is number 10?", out)
        self.assertIn("dyad-bench quality", out)

    def test_a_missing_split_is_said(self):
        code, out, _ = self.run_quickstart(SPLIT="dev")
        self.assertEqual(code, 0)
        self.assertIn('no judgements for the split "dev"', out)
        self.assertIn("Set SPLIT to one of: test\n", out)
        self.assertNotIn("dyad-bench quality", out)

    def test_a_folder_that_is_not_a_corpus(self):
        (self.data / "queries.jsonl").unlink()
        code, _, err = self.run_quickstart()
        self.assertEqual((code, "no queries.jsonl" in err), (1, True), err)
        code, _, err = self.run_quickstart(DATA="nowhere")
        self.assertEqual((code, f"in DATA: {self.scratch}/nowhere" in err), (1, True), err)

    def test_a_step_that_fails_ends_it_by_name(self):
        with open(self.root / "target/ci/dyad-indexer", "a") as stand_in:
            stand_in.write("exit 7\n")
        code, out, err = self.run_quickstart()
        self.assertEqual(code, 7)
        self.assertIn('step "build the index" failed with exit code 7', err)
        self.assertNotIn("quickstart: ok", out)

    def test_a_server_that_does_not_start(self):
        code, _, err = self.run_quickstart(BROKEN="the address is in use")
        self.assertEqual(code, 1)
        self.assertIn("error: the address is in use", err)
        self.assertIn("did not say where it listens", err)

    def test_a_server_that_does_not_stop_cleanly(self):
        code, out, err = self.run_quickstart(EXIT_CODE="3")
        self.assertEqual(code, 1)
        self.assertIn("the server ended with exit code 3", err)
        self.assertNotIn("quickstart: ok", out)

    def test_a_failing_question_leaves_no_server(self):
        with open(self.root / "target/ci/dyad-bench", "a") as stand_in:
            stand_in.write("exit 1\n")
        self.assertEqual(self.run_quickstart()[0], 1)

    def test_serving_until_told_to_stop(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            process = self.start(SERVE="1", MODEL=str(self.data))
            head = []
            for line in process.stdout:
                head.append(line)
                if "grpcurl" in line:
                    break
            self.assertIn("query --server http://127.0.0.1:4321 --mode hybrid --k 10 'what is number 2?'", "".join(head))
            self.assertIn("Open http://127.0.0.1:4322/ in a browser", "".join(head))
            self.assertIn("127.0.0.1:4321 dyad.v1.Searcher/Search", head[-1])
            time.sleep(0.2)
            process.send_signal(sent)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (0, ""), out)
            self.assertTrue(out.endswith("quickstart: ok\n"), out)
            self.assert_no_server()
        self.assertNotIn("model.sh", self.calls.read_text())


if __name__ == "__main__":
    unittest.main()
