"""Where the servers of `integrations.py` are, and how their indexes are emptied."""

import contextlib
import json
import os
import pathlib

from dyad_client import Index, Searcher, field

ADDRESSES = json.loads(pathlib.Path(os.environ["DYAD_INTEGRATIONS"]).read_text())
PLANETS = [
    "Saturn has rings of ice.",
    "Venus turns slowly, and backwards.",
    "Mercury is the nearest to the sun.",
    "Mars is red from rust.",
    "Jupiter is the largest of them.",
]


@contextlib.contextmanager
def empty(name):
    """An index that is empty when a test begins."""
    with Searcher(ADDRESSES["searcher"], index=name) as searcher, Index(ADDRESSES[name]) as index:
        if searcher.count():
            index.delete_where(field("key").exists(), wait="searchable")
        assert searcher.count() == 0
    yield
