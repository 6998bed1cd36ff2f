"""sentence-transformers: `encode_document`, or `predict` of a `CrossEncoder`, with its own sorting by length, the batch size swept
once over the texts.

bf16: weights in bf16 (`model_kwargs={"dtype": torch.bfloat16}`). Compiled: the transformer through `torch.compile` with dynamic
shapes, in f32 on a processor and in bf16 on a GPU; what it compiles while tuning and warming up is not timed.
"""

import json
import pathlib

import sentence_transformers
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer

from encoders import tuning

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class SentenceTransformers:
    """One model in one number type."""

    def __init__(self, dtype, compiled):
        self.version = f"{sentence_transformers.__version__} (torch {torch.__version__})"
        self.compiled = compiled
        # A compiled model on a GPU is measured in bf16.
        self.dtype = dtype or ("bf16" if torch.cuda.is_available() else "f32")
        compiling = ", torch.compile with dynamic shapes" if compiled else ""
        self.settings = f"encode_document (of a cross encoder predict), {self.dtype}{compiling}, best batch size of {tuning.BATCHES}, on a GPU of {tuning.GPU_BATCHES}"
        self.model = None
        self.batch = tuning.BATCHES[0]
        self.device = torch.device("cpu")

    def open(self, model, device, threads, cache):
        """Loads the model onto the device."""
        del cache
        torch.set_num_threads(threads)
        self.device = torch.device(device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device: torch {torch.__version__} sees no GPU, got {device!r}")
        config = json.loads((pathlib.Path(model) / "config.json").read_text(encoding="utf-8"))
        scores = any(name.endswith("ForSequenceClassification") for name in config.get("architectures") or [])
        kind = CrossEncoder if scores else SentenceTransformer
        self.model = kind(str(model), device=device, model_kwargs={"dtype": DTYPES[self.dtype]})
        if self.compiled and scores:
            raise ValueError(f"{model}: expected a model of vectors to compile, got a cross encoder")
        if self.compiled:
            network = self.model[0]
            network.auto_model.forward = torch.compile(network.auto_model.forward, dynamic=True)

    def tune(self, texts):
        """Batch sizes."""
        batches = tuning.GPU_BATCHES if self.device.type == "cuda" else tuning.BATCHES
        tried = tuning.sample(texts, batches)
        self.batch = tuning.fastest(batches, lambda batch: self._encode(tried, batch))
        return f"batch {self.batch}"

    def encode(self, texts):
        """Texts to unit vectors, or pairs to logits."""
        return self._encode(texts, self.batch)

    def _encode(self, texts, batch):
        if isinstance(self.model, CrossEncoder):
            logits = self.model.predict(
                texts,
                batch_size=batch,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
                convert_to_tensor=True,
            )
            return logits.float().cpu().numpy().reshape(-1, 1)
        # A tensor, since numpy knows no bf16; on a GPU one copy in place of one per batch.
        vectors = self.model.encode_document(
            texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False, convert_to_tensor=True
        )
        return vectors.float().cpu().numpy()

    def tokens(self, texts):
        """What the transformer is given, counted in one more call whose transformer is not run."""
        counts = [0, 0]
        scores = isinstance(self.model, CrossEncoder)
        network = self.model if scores else self.model[0]
        forward = network.forward

        def count(features, *_arguments, **_more):
            ids, mask = features["input_ids"], features.get("attention_mask")
            # Without a mask the texts lie one behind the other, unpadded.
            counts[0] += ids.numel() if mask is None else int(mask.sum())
            counts[1] += ids.numel()
            if scores:
                return features | {"scores": torch.zeros(ids.shape[0], 1, device=self.device)}
            hidden = torch.zeros(*ids.shape, network.get_embedding_dimension(), device=self.device)
            return features | {"token_embeddings": hidden}

        network.forward = count
        try:
            self._encode(texts, self.batch)
        finally:
            network.forward = forward
        return tuple(counts)

    def release(self):
        """Memory that torch keeps on a GPU."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
