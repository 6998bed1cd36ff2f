#!/usr/bin/env python3
"""A worker whose recall and speed are known: with the value v it finds the first v of k true neighbours in v times its own pace.

Called as `fake_worker.py --engine NAME` or `fake_worker.py worker ann --engine NAME`. The pace is in the name: `fake-20` takes
20 ms times v; `dyad` takes 10. Names also say how to misbehave: `dies`, `hangs`, `refuses`, `chatters`, `lies`, `strays`,
`omits`, `family`, `leaks` (rows that do not pass); `reads` evaluates conditions itself. Every request is noted in `log` beside this file.
"""

import json
import os
import pathlib
import struct
import sys
import time

NAME = sys.argv[sys.argv.index("--engine") + 1]
LOG = pathlib.Path(__file__).with_name("log")
PACE = 10 if NAME == "dyad" else int(NAME.rpartition("-")[2]) if NAME[-1].isdigit() else 20


def read_npy(path, code="f"):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<H", data[8:10])
    shape = eval(data[10 : 10 + length])["shape"]
    values = struct.unpack(f"<{shape[0] * shape[1]}{code}", data[10 + length :])
    return values if code == "i" else [values[row * shape[1] : (row + 1) * shape[1]] for row in range(shape[0])]


def write_npy(path, descr, code, shape, values):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape})
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    pathlib.Path(path).write_bytes(header + struct.pack(f"<{len(values)}{code}", *values))


class Fake:
    def describe(self, request):
        if "family" in NAME:
            return {**self.words(), "variants": ["fake-20", "fake-30"]}
        return self.words()

    def words(self):
        name = "someone-else" if "lies" in NAME else NAME
        sweep = {"sweep": "v", "defaults": [2, 5, 9, 10]}
        return {"engine": name, "version": "1", "settings": "made up, for tests", "reads_attributes": "reads" in NAME, **sweep}

    def build(self, request):
        if "refuses" in NAME:
            raise ValueError("this data does not suit me")
        assert os.listdir(request["dir"]) == []
        pathlib.Path(request["dir"], "base").write_text(request["base"])
        return {"build_s": PACE / 10, "index_bytes": 1000 * PACE}

    def open(self, request):
        self.base = read_npy(pathlib.Path(request["dir"], "base").read_text())
        return {"open_ms": 0.5}

    def prepare(self, request):
        self.k = request["k"]
        queries = read_npy(request["queries"])
        score = lambda query, row: sum(left * right for left, right in zip(query, self.base[row]))
        rows = range(len(self.base))
        self.ranked = [sorted(rows, key=lambda row: (-score(query, row), row)) for query in queries]
        self.filter({"filters": []})
        return {} if "omits" in NAME else {"queries": len(queries)}

    def filter(self, request):
        passes = [range(len(self.base))] * len(self.ranked)
        for one in request["filters"]:
            rows = set(read_npy(one["rows"], "i"))
            for query in one["queries"]:
                passes[query] = range(len(self.base)) if "leaks" in NAME else rows
        near = [[row for row in ranked if row in rows][: self.k] for ranked, rows in zip(self.ranked, passes)]
        self.near = near
        return {}

    def search(self, request):
        value = request["value"]
        if "dies" in NAME and value == 5:
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        if "hangs" in NAME and value == 5:
            time.sleep(300)
        ids = [id for near in self.near for id in (near[:value] + [-1] * self.k)[: self.k]]
        if "strays" in NAME:
            ids[0] = len(self.base)
        write_npy(request["out"], "<i4", "i", (len(self.near), self.k), ids)
        seconds = value * PACE / 1000 / request["threads"]
        if request["mode"] == "each":
            latencies = [(at + 1) * value * PACE / 90 for at in range(len(self.near))]
            write_npy(request["latencies"], "<f8", "d", (len(self.near),), latencies)
        return {"seconds": seconds}

    def memory(self, request):
        opened = hasattr(self, "base")
        return {"rss_bytes": (1 + PACE * opened) * 1_000_000, "peak_bytes": 0}

    def evict(self, request):
        return {}

    def quit(self, request):
        sys.exit(0)


fake = Fake()
for line in sys.stdin:
    request = json.loads(line)
    words = [request["op"], request.get("value", ""), request.get("threads", ""), request.get("mode", "")]
    with LOG.open("a") as log:
        print(os.getpid(), NAME, *words, file=log)
    if "chatters" in NAME:
        print("warning: a library that prints to stdout")
    try:
        reply = getattr(fake, request["op"])(request)
    except ValueError as error:
        reply = {"error": str(error)}
    print(json.dumps(reply), flush=True)
