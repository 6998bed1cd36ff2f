"""benches/peers/encode.py: the protocol, and every engine that is installed on tiny models against sentence-transformers."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = ROOT / "benches/peers/encode.py"
MODEL = ROOT / "encoder/tests/golden/tiny/classic-mean"
CROSS_ENCODER = ROOT / "encoder/tests/golden/tiny/cross-classic"
TORCH_PYTHON = pathlib.Path(os.environ.get("DYAD_PYTHON") or ROOT / ".venv/bin/python")
ONNX_PYTHON = ROOT / ".venv-encode/bin/python"
WAIT_S = 100


class Session:
    """One worker and its pipes."""

    def __init__(self, python, engine):
        command = [str(python), str(WORKER), "--engine", engine]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )

    def ask(self, operation, **fields):
        """One request, one reply."""
        self.process.stdin.write(json.dumps({"op": operation} | fields) + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            raise AssertionError(f"the worker ended with {self.process.wait(WAIT_S)} at {operation}")
        return json.loads(reply)

    def close(self):
        """Ends it; the exit status."""
        if self.process.poll() is None:
            self.process.stdin.write('{"op": "quit"}\n')
            self.process.stdin.close()
        status = self.process.wait(WAIT_S)
        self.process.stdout.close()
        return status


def floats(path):
    """A float32 .npy as rows, without numpy."""
    data = pathlib.Path(path).read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:start].decode()
    (rows, width) = eval(header)["shape"]  # written by numpy a moment ago
    values = memoryview(data[start:]).cast("f")
    return [list(values[row * width : (row + 1) * width]) for row in range(rows)]


class Names(unittest.TestCase):
    """What needs no package at all."""

    def test_engines_are_listed_and_others_refused(self):
        listed = subprocess.run([sys.executable, WORKER, "--list"], capture_output=True, text=True, check=True)
        names = listed.stdout.split()
        self.assertIn("sentence-transformers", names)
        self.assertIn("matmul", names)
        refused = subprocess.run([sys.executable, WORKER, "--engine", "no"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("unknown engine 'no', expected one of: sentence-transformers,", refused.stderr)

    @unittest.skipIf(importlib.util.find_spec("onnxruntime"), "this Python has onnxruntime")
    def test_an_engine_without_its_package_says_so(self):
        session = Session(sys.executable, "onnxruntime")
        reply = session.ask("describe")
        self.assertEqual(session.close(), 0)
        self.assertIn("onnxruntime: ModuleNotFoundError", reply["error"])


class Engines(unittest.TestCase):
    """Vectors, tokens and memory of every engine."""

    def check(self, python, engine):
        reference = json.loads((MODEL / "vectors.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            texts, out = scratch / "texts.jsonl", scratch / "out.npy"
            texts.write_text("".join(json.dumps(text) + "\n" for text in reference["texts"]), encoding="utf-8")
            session = Session(python, engine)
            try:
                self.assertEqual(session.ask("describe")["engine"], engine)
                self.assertIn("expected a prepare before it", session.ask("encode")["error"])
                self.assertIn("op: expected one of", session.ask("sing")["error"])
                before = session.ask("memory", settle=True)
                opened = session.ask("open", model=str(MODEL), device="cpu", threads=1, cache=str(scratch))
                self.assertNotIn("error", opened)
                self.assertEqual(session.ask("prepare", texts=str(texts)), {"texts": len(reference["texts"])})
                self.assertIn("batch", session.ask("tune")["settings"])
                encoded = session.ask("encode", out=str(out))
                rows = floats(out)
                after = session.ask("memory", settle=False)
            finally:
                session.close()
        self.assertGreater(encoded["seconds"], 0)
        self.assertGreater(encoded["computed_tokens"], encoded["tokens"])
        self.assertGreaterEqual(after["peak_bytes"], before["rss_bytes"])
        for ours, theirs in zip(rows, reference["answer"], strict=True):
            self.assertGreater(sum(a * b for a, b in zip(ours, theirs, strict=True)), 0.99999)
        return encoded["tokens"]

    @unittest.skipUnless(TORCH_PYTHON.exists(), f"no {TORCH_PYTHON}: deploy/venv.sh makes it")
    def test_sentence_transformers(self):
        self.check(TORCH_PYTHON, "sentence-transformers")

    @unittest.skipUnless(ONNX_PYTHON.exists(), f"no {ONNX_PYTHON}: benches/peers/encode-venv.sh makes it")
    def test_onnxruntime_reads_the_same_tokens(self):
        self.assertEqual(self.check(ONNX_PYTHON, "onnxruntime"), self.check(ONNX_PYTHON, "sentence-transformers"))

    @unittest.skipUnless(TORCH_PYTHON.exists(), f"no {TORCH_PYTHON}: deploy/venv.sh makes it")
    def test_pairs_are_scored_by_a_cross_encoder(self):
        reference = json.loads((CROSS_ENCODER / "scores.json").read_text())
        with tempfile.TemporaryDirectory() as scratch:
            pairs, out = pathlib.Path(scratch, "pairs.jsonl"), pathlib.Path(scratch, "out.npy")
            pairs.write_text("".join(json.dumps(pair) + "\n" for pair in reference["pairs"]), encoding="utf-8")
            session = Session(TORCH_PYTHON, "sentence-transformers")
            try:
                self.assertNotIn("error", session.ask("open", model=str(CROSS_ENCODER), device="cpu", threads=1, cache=scratch))
                self.assertEqual(session.ask("prepare", texts=str(pairs)), {"texts": len(reference["pairs"])})
                self.assertIn("batch", session.ask("tune")["settings"])
                encoded = session.ask("encode", out=str(out))
            finally:
                session.close()
            rows = floats(out)
        self.assertGreater(encoded["computed_tokens"], encoded["tokens"])
        for (ours,), theirs in zip(rows, reference["scores"], strict=True):
            self.assertAlmostEqual(ours, theirs, places=5)

    @unittest.skipUnless(TORCH_PYTHON.exists(), f"no {TORCH_PYTHON}: deploy/venv.sh makes it")
    def test_the_limit_is_a_speed(self):
        session = Session(TORCH_PYTHON, "matmul")
        try:
            self.assertGreater(session.ask("matmul", dtype="f32", device="cpu", threads=1)["gflops"], 0)
            self.assertIn("expected one of f32, bf16", session.ask("matmul", dtype="f64", device="cpu", threads=1)["error"])
            self.assertIn("error", session.ask("open", model=str(MODEL), device="cpu", threads=1, cache="."))
        finally:
            session.close()


if __name__ == "__main__":
    unittest.main()
