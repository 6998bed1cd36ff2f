#!/usr/bin/env python3
"""Stage times of kinds of searches, one after another, from which the constants of searcher/src/plan/cost/mod.rs are taken.

search-costs.py PORT: the HTTP port of `dyad-searcher serve --http 127.0.0.1:PORT --question-tower none --filter-cache-mb 0` over the index that
load-neighbours.sh makes. Prints microseconds, the least of ten for each stage.
"""

import json
import random
import sys
import urllib.request

BASE = f"http://127.0.0.1:{sys.argv[1]}"
TRIES = 10
WORDS = "word3 word17 word40 word99 word8 word150 word2 word1"
chance = random.Random(1)


def call(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(BASE + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def fingerprint(value):
    """The first one anywhere in a reply."""
    if isinstance(value, dict) and isinstance(value.get("fingerprint"), str):
        return value["fingerprint"]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for found in map(fingerprint, inner) if found), None)


MODEL = fingerprint(call("/v1/indexes"))


def measure(name, **search):
    times = {}
    for _ in range(TRIES):
        body = {"mode": "MODE_DENSE", "k": 10, "keys_only": True, **search}
        if body["mode"] != "MODE_BM25":
            body.update(vector=[chance.gauss(0, 1) for _ in range(64)], fingerprint=MODEL)
        for stage, took in call("/v1/search", body)["timings"].items():
            times[stage] = min(times.get(stage, int(took)), int(took))
    print(f"{name:24}", " ".join(f"{stage} {took}" for stage, took in times.items() if took))


measure("dense")
measure("ef 1,000", ef=1_000)
measure("ef 10,000", ef=10_000)
measure("k 10,000", k=10_000)
measure("exact", exact=True)
measure("1,000 documents", k=1_000, keys_only=False)
measure("1,000 snippets", k=1_000, query=WORDS, snippet_bytes=200)
measure("8 words", mode="MODE_BM25", query=WORDS)
measure("80 words", mode="MODE_BM25", query=" ".join(f"word{number}" for number in range(80)))
measure("hybrid", mode="MODE_HYBRID", query=WORDS)
measure("hybrid, depth 10,000", mode="MODE_HYBRID", query=WORDS, fusion_depth=10_000)
measure("one group", group_by={"field": "kind", "hits": 1})
measure("range", filter={"range": {"field": "number", "below": {"number": 30_000}}})
measure("exists", filter={"exists": {"field": "number"}})
measure("one of", filter={"equals": {"field": "kind", "value": {"text": "one"}}})
