#!/usr/bin/env python3
"""One engine of `dyad-bench encode`, in a process of its own.

    encode.py --engine NAME      speaks JSON lines: one request on stdin, one reply on stdout, the engine's own noise on stderr
    encode.py --list             prints every engine name with what it stands for

The harness sends `describe`, `open`, `prepare`, `tune`, `encode`, `memory`, `matmul` and `quit`; `encoders/worker.py` holds that
loop, and what is timed and what is not. benches/peers/encode-venv.sh makes the environment.

All engines get all texts of a shape in one call and give float32 vectors of unit length, or all pairs of a question and a text and
give a logit for each (a vector of one value); tokenizing counts. Threads are those that the harness asks for (`torch.set_num_threads`, OMP_NUM_THREADS, RAYON_NUM_THREADS for the tokenizers).

| engine | how it is called |
|---|---|
| sentence-transformers | f32, `encode_document`, its own sorting by length, batch size swept once over 16, 32, 64, 128; `predict` of a cross encoder |
| sentence-transformers-bf16 | the same with bf16 weights |
| sentence-transformers-compiled | the transformer through `torch.compile`, bf16 on a GPU, f32 else |
| onnxruntime | f32, exported by `torch.onnx.export` and fused by ONNX Runtime; sorted by length, padded per batch, graph and batch size swept once |
| matmul | no texts: the machine's limit, a large matrix product by PyTorch |
"""

import lines
from encoders import engines, worker

if __name__ == "__main__":
    lines.main(__doc__.splitlines()[0], engines.NAMES, worker.Worker, worker.OPERATIONS)
