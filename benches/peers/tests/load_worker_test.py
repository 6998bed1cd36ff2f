"""benches/peers/load.py: the protocol, and text to hits on a tiny model, by exact search against what the model itself says."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = ROOT / "benches/peers/load.py"
MODEL = ROOT / "encoder/tests/golden/tiny/classic-mean"
TORCH_PYTHON = pathlib.Path(os.environ.get("DYAD_PYTHON") or ROOT / ".venv/bin/python")
PEERS_PYTHON = ROOT / ".venv-encode/bin/python"
WAIT_S = 300


def session(python, engine, *requests):
    """The replies to some requests."""
    sent = "".join(json.dumps(request) + "\n" for request in requests)
    command = [str(python), str(WORKER), "--engine", engine]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, input=sent, capture_output=True, text=True, env=environment, timeout=WAIT_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Names(unittest.TestCase):
    """What needs no package at all."""

    def test_engines_are_listed_and_others_refused(self):
        listed = subprocess.run([sys.executable, str(WORKER), "--list"], capture_output=True, text=True, check=True)
        self.assertIn("st-qdrant-edge", listed.stdout.split())
        command = [sys.executable, str(WORKER), "--engine", "no"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("unknown engine 'no', expected one of: st-qdrant-edge,", refused.stderr)


class TextToHits(unittest.TestCase):
    """Texts that stand in the corpus find themselves."""

    def check(self, python, engine, share):
        # As many as qdrant-edge makes an index of; letters are words of the tiny model's vocabulary.
        texts = [f"{first} river {second}" for first in "bcdefghijklmnopqrstu" for second in "bcdefghijklmnopqrstu"]
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            rows = ({"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts))
            (scratch / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            (scratch / "texts.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8")
            paths = {name: str(scratch / name) for name in ("latencies", "hits")} | {"texts": str(scratch / "texts.jsonl")}
            ask = {"op": "ask", "k": 3, "threads": 1, "warm_up_s": 0.0, "seconds": 2.0} | paths
            ask["latencies"] += ".npy"
            opening = {"op": "open", "model": str(MODEL), "corpus": str(scratch), "threads": 1, "cache": str(scratch / "cache")}
            early, described, opened = session(python, engine, ask, {"op": "describe"}, opening)
            (meta,) = (scratch / "cache").glob(f"{engine}-*/meta.json")
            # As an interrupted build leaves it: it is made again.
            meta.unlink()
            again, kept, asked = session(python, engine, opening, opening, ask)
            hits = [json.loads(row) for row in (scratch / "hits").read_text(encoding="utf-8").splitlines()]
            size = pathlib.Path(ask["latencies"]).stat().st_size
        self.assertIn("expected an open before it", early["error"])
        self.assertEqual(described["engine"], engine)
        self.assertTrue(all(reply["open_ms"] > 0 for reply in (opened, again, kept)), (opened, again, kept))
        self.assertGreater(asked["asked"], 0)
        self.assertEqual(size, 128 + 8 * asked["asked"])
        self.assertEqual(len(hits), min(asked["asked"], len(texts)))
        self.assertTrue(all(len(row["keys"]) == 3 for row in hits), hits)
        found = sum(row["keys"][0] == f"d{row['question']}" for row in hits)
        self.assertGreaterEqual(found, share * len(hits))

    @unittest.skipUnless(TORCH_PYTHON.exists(), f"no {TORCH_PYTHON}: deploy/venv.sh makes it")
    def test_exact(self):
        self.check(TORCH_PYTHON, "st-exact", 1.0)

    @unittest.skipUnless(PEERS_PYTHON.exists(), f"no {PEERS_PYTHON}: benches/peers/encode-venv.sh makes it")
    def test_qdrant_edge(self):
        # The tiny model's vectors lie so close together that codes of int8 do not tell all of them apart.
        self.check(PEERS_PYTHON, "st-qdrant-edge", 0.2)


if __name__ == "__main__":
    unittest.main()
