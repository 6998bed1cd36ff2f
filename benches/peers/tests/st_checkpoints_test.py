"""benches/peers/st_checkpoints.py and st_load.py: what one writes is whole, and the other tells right vectors from wrong ones."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = ROOT / "benches/peers"
PYTHON = pathlib.Path(os.environ.get("DYAD_PYTHON") or ROOT / ".venv/bin/python")
WAIT_S = 300
PLAIN = {"bert", "distilbert", "roberta", "mpnet", "t5-relu", "t5-gated"}
DPR = {f"{name}/{tower}" for name in ("dpr", "dpr-projected") for tower in ("question", "answer")}
ONE_TOWER = {"st5"}
ROTARY = {"modernbert", "gte", "gte-own-code", "nomic-bert", "nomic-own-code", "qwen3", "gemma3", "gemma3-causal"}
TWO_PROMPTS = {"gtr", "qwen3-embedding", "embeddinggemma"}
TWO_TOWERS = {"router-shared-dense", "router-shared-all", "router-dense-behind", "router-newer"}


def run(script, *arguments, python=PYTHON):
    """One script, without a network."""
    command = [str(python), str(PEERS / script), *map(str, arguments)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=environment, check=False)


@unittest.skipUnless(PYTHON.exists(), f"no {PYTHON}: deploy/venv.sh makes it")
class Checkpoints(unittest.TestCase):
    """Made once for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.scratch.name) / "models"
        cls.written = run("st_checkpoints.py", "--out", cls.out)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def references(self, model):
        """Every reference of a model by its tower."""
        read = [json.loads(path.read_text()) for path in sorted((self.out / model).glob("reference*.json"))]
        return {reference["tower"]: reference for reference in read}

    def test_every_model_has_its_weights_and_references(self):
        self.assertEqual(self.written.returncode, 0, self.written.stderr)
        models = set(json.loads(self.written.stdout)["models"])
        self.assertEqual(models, PLAIN | ROTARY | DPR | ONE_TOWER | TWO_PROMPTS | TWO_TOWERS)
        for model in models:
            weights = sorted(path.name for path in (self.out / model).rglob("model*.safetensors"))
            self.assertTrue(weights, model)
            towers = self.references(model)
            if model in TWO_TOWERS | TWO_PROMPTS:
                self.assertEqual(set(towers), {"question", "answer"}, model)
            for tower, reference in towers.items():
                self.assertEqual(len(reference["texts"]), len(reference["vectors"]), (model, tower))
                self.assertEqual(len({len(row) for row in reference["vectors"]}), 1, (model, tower))

    def test_towers_and_prompts_make_a_difference(self):
        for model in TWO_TOWERS | TWO_PROMPTS:
            towers = self.references(model)
            self.assertNotEqual(towers["question"]["vectors"][0], towers["answer"]["vectors"][0], model)

    def test_a_folder_of_another_origin_is_left_alone(self):
        kept = pathlib.Path(self.scratch.name) / "kept"
        kept.mkdir()
        (kept / "file").write_text("mine")
        refused = run("st_checkpoints.py", "--out", kept)
        self.assertEqual((refused.returncode, (kept / "file").read_text()), (2, "mine"))

    def golden_copy(self, model, change=lambda golden: None):
        """A copy of a model's golden vectors, as a model of ours has them."""
        golden = [
            {"tower": tower, "text": text, "vector": vector}
            for tower, reference in self.references(model).items()
            for text, vector in zip(reference["texts"], reference["vectors"])
        ]
        change(golden)
        (self.out / model / "dyad.json").write_text(json.dumps({"golden": golden}))
        return self.out / model

    def test_models_whose_vectors_are_right_pass(self):
        models = ["gtr", "router-shared-dense"]
        loaded = run("st_load.py", *map(self.golden_copy, models))
        self.assertEqual(loaded.returncode, 0, loaded.stderr)
        results = [json.loads(line) for line in loaded.stdout.splitlines()]
        self.assertEqual([pathlib.Path(result["model"]).name for result in results], models)
        for result in results:
            self.assertEqual(set(result["towers"]), {"question", "answer"})
            self.assertGreater(result["smallest_cosine"], 0.999999)

    def test_logits_of_a_cross_encoder_pass_and_wrong_ones_do_not(self):
        for off, code in ((0.0, 0), (0.01, 1)):
            scores = json.loads((self.out / "cross-newer" / "scores.json").read_text())
            golden = [
                {"tower": "pair", "text": "\t".join(pair), "vector": [logit + off]}
                for pair, logit in zip(scores["pairs"], scores["logits"])
            ]
            (self.out / "cross-newer" / "dyad.json").write_text(json.dumps({"golden": golden}))
            loaded = run("st_load.py", self.out / "cross-newer")
            self.assertEqual(loaded.returncode, code, loaded)
            self.assertEqual(json.loads(loaded.stdout)["logits"], len(golden))
        self.assertEqual(scores["logits"], scores["scores"], "without an activation")

    def test_swapped_towers_and_broken_files_do_not(self):
        def swap(golden):
            for entry in golden:
                entry["tower"] = {"question": "answer", "answer": "question"}[entry["tower"]]

        swapped = self.golden_copy("router-dense-behind", swap)
        shorter = self.golden_copy("st5", lambda golden: golden[0]["vector"].pop())
        unknown = self.golden_copy("router-newer", lambda golden: golden[0].update(tower="both"))
        empty = self.golden_copy("router-shared-all", lambda golden: golden.clear())
        loaded = run("st_load.py", swapped, shorter, unknown, empty)
        self.assertEqual(loaded.returncode, 1)
        (result,) = (json.loads(line) for line in loaded.stdout.splitlines())
        self.assertLess(result["smallest_cosine"], 0.999)
        self.assertIn("vectors of one length, got 9 by us and 10", loaded.stderr)
        self.assertIn("`golden[0].tower`: expected question, answer or pair, got 'both'", loaded.stderr)
        self.assertIn("`golden`: expected a list", loaded.stderr)


if __name__ == "__main__":
    unittest.main()
