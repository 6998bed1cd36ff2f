#!/usr/bin/env python3
"""One engine of `dyad-bench train-step`, in a process of its own.

    train_step.py --engine NAME      speaks JSON lines: one request on stdin, one reply on stdout, the engine's own noise on stderr
    train_step.py --list             prints every engine name

The harness sends `describe`, `open`, `prepare`, `steps`, `memory` and `quit`; `trainers/worker.py` holds that loop, and what is
timed and what is not. benches/peers/encode-venv.sh makes the environment.

A step is that of `SentenceTransformerTrainer` on one device, without the trainer around it: forward of both columns,
MultipleNegativesRankingLoss, backward, clipping to norm 1, AdamW as `adamw_torch_fused` (the default of transformers 5), no
weight decay (their default), gradients set to none.

| engine | how it is called |
|---|---|
| sentence-transformers | in training mode, as the trainer has it: the dropout that the model's `config.json` asks for |
| sentence-transformers-no-dropout | without dropout: the same mathematics as ours |
| sentence-transformers-bf16-no-dropout | the same under `torch.autocast` to bf16, as the trainer's `bf16=True` |
"""

import lines
from trainers import engines, worker

if __name__ == "__main__":
    lines.main(__doc__.splitlines()[0], engines.NAMES, worker.Worker, worker.OPERATIONS)
