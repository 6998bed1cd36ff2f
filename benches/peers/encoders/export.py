"""Exports a transformer for ONNX Runtime: python -m encoders.export MODEL OUT writes OUT/plain.onnx and OUT/fused.onnx.

In f32 with eager attention, rows and tokens dynamic; then, where the family is known to it, ONNX Runtime's own `optimize_model`
fuses attention, layer norms and gelu.
"""

import json
import pathlib
import shutil
import sys

import torch
from onnxruntime.transformers import optimizer
from transformers import AutoModel

# Families that `optimize_model` fuses, and what it calls them.
FUSED = {"bert": "bert", "roberta": "bert", "distilbert": "bert", "xlm-roberta": "bert", "camembert": "bert"}
OPSET = 17


def export(folder, path):
    """The transformer alone: ids and mask in, the last hidden states out."""
    model = AutoModel.from_pretrained(str(folder), attn_implementation="eager", dtype=torch.float32).eval()

    class Hidden(torch.nn.Module):
        """Positional arguments, one output."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0]])
    dynamic = {name: {0: "rows", 1: "tokens"} for name in ("input_ids", "attention_mask", "hidden")}
    with torch.no_grad():
        torch.onnx.export(
            Hidden().eval(),
            (ids, (ids > 0).long()),
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["hidden"],
            dynamic_axes=dynamic,
            opset_version=OPSET,
            dynamo=False,
        )


def fuse(config, plain, path, family):
    """Attention, layer norms and gelu as one operator each."""
    heads = config.get("num_attention_heads") or config.get("n_heads")
    hidden = config.get("hidden_size") or config.get("dim")
    model = optimizer.optimize_model(str(plain), model_type=family, num_heads=heads, hidden_size=hidden, opt_level=1)
    model.save_model_to_file(str(path))


def main(folder, out):
    """Both graphs; the folder is renamed into place when whole, so that an interrupted export is made again."""
    temporary = out.with_suffix(".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    export(folder, temporary / "plain.onnx")
    family = FUSED.get(config.get("model_type"))
    if family:
        fuse(config, temporary / "plain.onnx", temporary / "fused.onnx", family)
    temporary.rename(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
