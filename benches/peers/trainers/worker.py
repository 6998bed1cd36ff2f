"""The worker's side of the JSON lines, and what is timed.

`prepare` tokenizes and pads, which a trainer does beside the step; what `steps` times begins with token ids on the device and
ends with new weights, once for every batch. The losses are read from the device behind the last step.
"""

import json
import pathlib
import time

import lines
from trainers import engines

OPERATIONS = ("describe", "open", "prepare", "steps", "memory")


class Worker:
    """State between requests."""

    def __init__(self, name):
        self.name = name
        self.engine = engines.create(name)
        self.batches = None
        self.tokens = [0, 0]

    def describe(self, _request):
        """Who this is."""
        return {"engine": self.name, "version": self.engine.version, "settings": self.engine.settings}

    def open(self, request):
        """From files to ready to train."""
        started = time.perf_counter()
        self.engine.open(request)
        return {"open_ms": (time.perf_counter() - started) * 1e3}

    def prepare(self, request):
        """Reads the pairs and makes batches of them, in order."""
        rows = pathlib.Path(request["pairs"]).read_text(encoding="utf-8").split("\n")
        pairs, size = [json.loads(row) for row in rows if row], int(request["batch"])
        made = [self.engine.collate(pairs[at : at + size]) for at in range(0, len(pairs), size)]
        self.batches = [features for features, _ in made]
        self.tokens = [sum(counts[place] for _, counts in made) for place in range(2)]
        return {"batches": len(made), "pairs": len(pairs)}

    def steps(self, _request):
        """One step with every batch."""
        if self.batches is None:
            raise ValueError("steps: expected a prepare before it")
        self.engine.synchronize()
        started = time.perf_counter()
        losses = [self.engine.step(features) for features in self.batches]
        self.engine.synchronize()
        seconds = time.perf_counter() - started
        tokens, computed = self.tokens
        return {"seconds": seconds, "losses": [float(loss) for loss in losses], "tokens": tokens, "computed_tokens": computed}

    def memory(self, request):
        """Resident memory and its peak."""
        return lines.memory(request["settle"])
