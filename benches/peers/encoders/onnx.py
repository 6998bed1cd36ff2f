"""ONNX Runtime: the transformer exported once (export.py, in a process of its own), and what stands around it in numpy.

Run. Texts are tokenized in parallel by the model's own tokenizer without padding, sorted by length, cut into batches and
padded per batch. Mean or [CLS] pooling and normalisation in numpy. `intra_op_num_threads` as asked, one thread between
operators, threads that stop spinning after each run, so that nobody else is slowed. Graph and batch size are swept once.
"""

import hashlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from encoders import tuning


class OnnxRuntime:
    """One exported transformer."""

    dtype = "f32"

    def __init__(self):
        self.version = onnxruntime.__version__
        self.settings = f"f32, exported and fused, sorted by length, best graph and batch size of {tuning.BATCHES}"
        self.sessions = {}
        self.tokenizer = None
        self.pad = 0
        self.pooling = "mean"
        self.prompt = ""
        self.chosen = ("plain", tuning.BATCHES[0])

    def open(self, model, device, threads, cache):
        """Exports where that was not done before, and loads."""
        folder = pathlib.Path(model)
        self._settings(folder)
        for name, path in graphs(folder, cache).items():
            self.sessions[name] = session(path, device, threads)
        self.chosen = (next(iter(self.sessions)), tuning.BATCHES[0])

    def _settings(self, folder):
        """Tokenizer, lengths, pooling and prompt, as sentence-transformers takes them; what cannot be done is refused."""
        names = read(folder / "config.json").get("architectures") or []
        if any(name.endswith("ForSequenceClassification") for name in names):
            raise ValueError(f"{folder}: expected a model of vectors, got a cross encoder")
        kinds = [entry["type"].rpartition(".")[2] for entry in read(folder / "modules.json") or []]
        if kinds not in ([], ["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
            raise ValueError(f"{folder}: expected Transformer, Pooling and Normalize, got {', '.join(kinds)}")
        settings = read(folder / "1_Pooling/config.json") or {}
        modes = [name for name, on in settings.items() if name.startswith("pooling_mode_") and on]
        modes = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}.get(modes[0] if len(modes) == 1 else "")
        self.pooling = modes or settings.get("pooling_mode", "mean")
        if self.pooling not in ("mean", "cls"):
            raise ValueError(f"{folder}: expected mean or cls pooling, got {self.pooling!r}")
        most = (read(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
        tokenizing = read(folder / "tokenizer_config.json") or {}
        most = most or tokenizing.get("model_max_length")
        config = read(folder / "config.json")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.pad = config.get("pad_token_id") or 0
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(min(int(most), config.get("max_position_embeddings", int(most))))
        prompts = (read(folder / "config_sentence_transformers.json") or {}).get("prompts") or {}
        self.prompt = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")

    def tune(self, texts):
        """Graphs and batch sizes."""
        tried = tuning.sample(texts, tuning.BATCHES)
        settings = [(graph, batch) for graph in self.sessions for batch in tuning.BATCHES]
        self.chosen = tuning.fastest(settings, lambda setting: self._encode(tried, *setting))
        # The other graph's weights are not needed any more.
        self.sessions = {self.chosen[0]: self.sessions[self.chosen[0]]}
        return f"{self.chosen[0]} graph, batch {self.chosen[1]}"

    def encode(self, texts):
        """Texts to unit vectors."""
        return self._encode(texts, *self.chosen)

    def tokens(self, texts):
        """With and without padding."""
        encodings, batches = self._batches(texts, self.chosen[1])
        lengths = [len(encoding.ids) for encoding in encodings]
        return sum(lengths), sum(len(batch) * max(lengths[at] for at in batch) for batch in batches)

    def _batches(self, texts, size):
        encodings = self.tokenizer.encode_batch_fast([self.prompt + text for text in texts])
        order = sorted(range(len(texts)), key=lambda at: -len(encodings[at].ids))
        return encodings, [order[start : start + size] for start in range(0, len(order), size)]

    def _encode(self, texts, graph, size):
        running = self.sessions[graph]
        names = {entry.name for entry in running.get_inputs()}
        encodings, batches = self._batches(texts, size)
        vectors = None
        for batch in batches:
            lengths = np.array([len(encodings[at].ids) for at in batch])
            mask = (np.arange(lengths.max())[None, :] < lengths[:, None]).astype(np.int64)
            ids = np.full(mask.shape, self.pad, dtype=np.int64)
            for row, at in enumerate(batch):
                ids[row, : lengths[row]] = encodings[at].ids
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            (hidden,) = running.run(None, {name: value for name, value in inputs.items() if name in names})
            if self.pooling == "cls":
                rows = hidden[:, 0]
            else:
                rows = np.matmul(mask[:, None, :].astype(np.float32), hidden)[:, 0] / lengths[:, None]
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            if vectors is None:
                vectors = np.empty((len(texts), rows.shape[1]), dtype=np.float32)
            vectors[batch] = rows
        return vectors


def read(path):
    """A JSON file; None where it is not there."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def session(path, device, threads):
    """A graph ready to run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.force_spinning_stop", "1")
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise ValueError(f"device: this ONNX Runtime has no {provider} (package onnxruntime-gpu), got {device!r}")
    return onnxruntime.InferenceSession(str(path), options, providers=[(provider, {"device_id": int(number or 0)})])


def graphs(folder, cache):
    """The plain and, where there is one, the fused graph, kept by what they were made from."""
    made_from = hashlib.sha256()
    for name in ("config.json", "model.safetensors"):
        with open(folder / name, "rb") as file:
            made_from.update(hashlib.file_digest(file, "sha256").digest())
    made_from.update(f"{onnxruntime.__version__} {pathlib.Path(__file__).with_name('export.py').read_text('utf-8')}".encode())
    place = cache / f"onnx-{made_from.hexdigest()[:16]}"
    if not place.exists():
        # PyTorch shall not count as memory of this engine.
        command = [sys.executable, "-m", "encoders.export", str(folder), str(place)]
        done = subprocess.run(command, cwd=pathlib.Path(__file__).parent.parent, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the export failed: {done.stderr.strip()[-1000:]}")
    return {path.stem: path for path in sorted(place.glob("*.onnx"), reverse=True)}
