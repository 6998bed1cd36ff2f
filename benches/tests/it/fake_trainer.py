#!/usr/bin/env python3
"""A worker of `dyad-bench train-step` whose speed and losses are known.

Called as `fake_trainer.py --engine NAME`. `fake-20` takes 20 ms per step, and every loss of it is 20. `short` cuts a token, `dies`
ends in its first step.
"""

import json
import os
import pathlib
import sys

NAME = sys.argv[sys.argv.index("--engine") + 1]
PACE = int(NAME.rpartition("-")[2]) if NAME[-1].isdigit() else 20


class Fake:
    def describe(self, request):
        return {"engine": NAME, "version": "1", "settings": "made up"}

    def open(self, request):
        return {"open_ms": 3.0}

    def prepare(self, request):
        self.pairs = [json.loads(line) for line in pathlib.Path(request["pairs"]).read_text().split("\n") if line]
        self.batches = -(-len(self.pairs) // request["batch"])
        return {"pairs": len(self.pairs), "batches": self.batches}

    def steps(self, request):
        if NAME == "dies":
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        words = sum(len(text.split()) for pair in self.pairs for text in pair) - (NAME == "short")
        seconds = PACE * self.batches / 1000
        return {"seconds": seconds, "losses": [float(PACE)] * self.batches, "tokens": words, "computed_tokens": words * 2}

    def memory(self, request):
        return {"rss_bytes": 1_000_000, "peak_bytes": 2_000_000}

    def quit(self, request):
        sys.exit(0)


fake = Fake()
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps(getattr(fake, request["op"])(request)), flush=True)
