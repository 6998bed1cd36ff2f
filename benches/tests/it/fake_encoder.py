#!/usr/bin/env python3
"""A worker of `dyad-bench encode` whose speed and vectors are known: a text's vector says its length and its first letter.

Called as `fake_encoder.py --engine NAME` or `fake_encoder.py worker encode --engine NAME`. The pace is in the name: `fake-20`
takes 20 ms per text, `dyad` 10. Names also say how to misbehave: `dies`, `hangs`, `refuses`, `lies`, `short`, `turned`,
`fewer`. Every request is noted in `encode-log` beside this file, with the threads that OpenMP was given.
"""

import json
import os
import pathlib
import struct
import sys
import time

NAME = sys.argv[sys.argv.index("--engine") + 1]
LOG = pathlib.Path(__file__).with_name("encode-log")
PACE = 10 if NAME == "dyad" else int(NAME.rpartition("-")[2]) if NAME[-1].isdigit() else 20


def write_npy(path, rows):
    text = repr({"descr": "<f4", "fortran_order": False, "shape": (len(rows), len(rows[0]))})
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    values = [value for row in rows for value in row]
    pathlib.Path(path).write_bytes(header + struct.pack(f"<{len(values)}f", *values))


class Fake:
    def describe(self, request):
        if NAME == "matmul" and LOG.with_name("no-limit").exists():
            raise ValueError("no matrices here")
        name = "someone-else" if "lies" in NAME else NAME
        return {"engine": name, "version": "1", "dtype": "bf16" if "bf16" in NAME else "f32", "settings": "made up"}

    def open(self, request):
        if "refuses" in NAME:
            raise ValueError("this model does not suit me")
        self.model = pathlib.Path(request["model"])
        return {"open_ms": 3.0}

    def prepare(self, request):
        self.texts = [json.loads(line) for line in pathlib.Path(request["texts"]).read_text().split("\n") if line]
        return {"texts": len(self.texts)}

    def tune(self, request):
        return {"settings": "" if NAME == "dyad" else "batch 7"}

    def encode(self, request):
        if "dies" in NAME and not request.get("out"):
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        if "hangs" in NAME and not request.get("out"):
            time.sleep(300)
        if request.get("out"):
            # A pair has a score: its length.
            pair = isinstance(self.texts[0], list)
            rows = [[len(" ".join(text)) + 1.0] if pair else [len(text) + 1.0, float(ord(text[0]))] for text in self.texts]
            if "turned" in NAME:
                rows[-1] = [-value for value in rows[-1]]
            write_npy(request["out"], rows[1:] if "fewer" in NAME else rows)
        # The tokenizer of the tests gives [CLS] and [SEP] to single texts alone, and the model reads 7 tokens of a pair.
        def of(text):
            return min(len(" ".join(text).split()), 7) if isinstance(text, list) else len(text.split()) + 2

        words = sum(map(of, self.texts)) - ("short" in NAME)
        return {"seconds": PACE * len(self.texts) / 1000, "tokens": words, "computed_tokens": words * 2}

    def memory(self, request):
        opened = hasattr(self, "model")
        return {"rss_bytes": 1_000_000, "peak_bytes": (1 + PACE * opened) * 1_000_000}

    def matmul(self, request):
        return {"gflops": 100.0 if request["dtype"] == "f32" else 400.0}

    def quit(self, request):
        sys.exit(0)


fake = Fake()
for line in sys.stdin:
    request = json.loads(line)
    words = [request["op"], request.get("dtype", ""), "out" if request.get("out") else ""]
    with LOG.open("a") as log:
        print(os.getpid(), os.environ.get("OMP_NUM_THREADS"), NAME, *words, file=log)
    try:
        reply = getattr(fake, request["op"])(request)
    except ValueError as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), flush=True)
