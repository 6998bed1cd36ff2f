"""benches/peers/train_step.py: the protocol, and steps of a tiny model."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = ROOT / "benches/peers/train_step.py"
MODEL = ROOT / "encoder/tests/golden/tiny/classic-mean"
TORCH_PYTHON = pathlib.Path(os.environ.get("DYAD_PYTHON") or ROOT / ".venv/bin/python")
WAIT_S = 100


class Names(unittest.TestCase):
    """What needs no package at all."""

    def test_engines_are_listed_and_others_refused(self):
        listed = subprocess.run([sys.executable, WORKER, "--list"], capture_output=True, text=True, check=True)
        names = ["sentence-transformers", "sentence-transformers-no-dropout", "sentence-transformers-bf16-no-dropout"]
        self.assertEqual(listed.stdout.split(), names)
        refused = subprocess.run([sys.executable, WORKER, "--engine", "no"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("unknown engine 'no'", refused.stderr)


@unittest.skipUnless(TORCH_PYTHON.exists(), f"no {TORCH_PYTHON}: deploy/venv.sh makes it")
class Steps(unittest.TestCase):
    """What a step does."""

    def losses(self, engine, model=MODEL, learning_rate=1e-2):
        """Of three passes over two batches."""
        pairs = [["the river", "water of the river"], ["a king", "the king and the queen"], ["city", "light"]] * 2
        command = [str(TORCH_PYTHON), str(WORKER), "--engine", engine]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch) / "pairs.jsonl"
            path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
            numbers = {"learning_rate": learning_rate, "temperature": 0.05}
            requests = [
                {"op": "describe"},
                {"op": "steps"},
                {"op": "open", "model": str(model), "device": "cpu", "threads": 1} | numbers,
                {"op": "prepare", "pairs": str(path), "batch": 3},
                *[{"op": "steps"}] * 3,
                {"op": "quit"},
            ]
            lines = "".join(json.dumps(request) + "\n" for request in requests)
            ran = subprocess.run(
                command, input=lines, capture_output=True, text=True, env=environment, check=True, timeout=WAIT_S
            )
        described, early, opened, prepared, *passes = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertEqual(described["engine"], engine)
        self.assertIn("expected a prepare before it", early["error"])
        self.assertNotIn("error", opened)
        self.assertEqual(prepared, {"batches": 2, "pairs": 6})
        for stepped in passes:
            self.assertGreater(stepped["seconds"], 0)
            self.assertGreater(stepped["computed_tokens"], stepped["tokens"])
        return [stepped["losses"] for stepped in passes]

    def test_steps_learn_and_dropout_is_the_difference(self):
        losses = self.losses("sentence-transformers-no-dropout")
        self.assertLess(sum(losses[-1]), sum(losses[0]))
        self.assertNotEqual(self.losses("sentence-transformers")[0], losses[0])

    def test_weights_are_in_f32_whatever_the_file_has(self):
        with tempfile.TemporaryDirectory() as scratch:
            narrow = pathlib.Path(scratch) / "narrow"
            shutil.copytree(MODEL, narrow)
            rounded = (
                "import sys, torch; from safetensors.torch import load_file, save_file; path = sys.argv[1];"
                "tensors = {k: v.bfloat16() if v.is_floating_point() else v for k, v in load_file(path).items()};"
                "save_file(tensors, path, {'format': 'pt'})"
            )
            weights = next(narrow.rglob("model.safetensors"))
            subprocess.run([str(TORCH_PYTHON), "-c", rounded, str(weights)], check=True, timeout=WAIT_S)
            # Steps of this rate are lost in bf16's 8 bits.
            losses = self.losses("sentence-transformers-no-dropout", narrow, 1e-6)
            self.assertLess(sum(losses[-1]), sum(losses[0]))


if __name__ == "__main__":
    unittest.main()
