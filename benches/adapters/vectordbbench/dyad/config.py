"""Where dyad's programs listen, and how it searches."""

from typing import ClassVar

from pydantic import BaseModel

from ..api import DBCaseConfig, DBConfig, MetricType

METRICS = {MetricType.COSINE: "cosine", MetricType.IP: "dot", MetricType.L2: "l2"}


class DyadConfig(DBConfig):
    """The addresses of `dyad-searcher serve` and `dyad-indexer serve`, and the name of the index where the searcher has several."""

    searcher: str = "127.0.0.1:7700"
    indexer: str = "127.0.0.1:7702"
    index: str = ""

    _extra_empty_skip: ClassVar[frozenset[str]] = frozenset({"index"})

    def to_dict(self) -> dict:
        return {"searcher": self.searcher, "indexer": self.indexer, "index": self.index}


class DyadCaseConfig(BaseModel, DBCaseConfig):
    """`ef` is the width of the beam; `target_recall` chooses it by what the index has measured. The server's default holds without both.

    The graph's parameters and the metric are the index's: `server.py` of this adapter gives them when it makes one."""

    metric_type: MetricType | None = None
    ef: int | None = None
    target_recall: float | None = None

    def index_param(self) -> dict:
        if self.metric_type is None:
            return {}
        if self.metric_type not in METRICS:
            raise ValueError(f"`metric_type`: expected one of {', '.join(METRICS)}, got {self.metric_type}")
        return {"metric": METRICS[self.metric_type]}

    def search_param(self) -> dict:
        if self.ef is not None and self.target_recall is not None:
            raise ValueError(f"`ef`, `target_recall`: expected one of them, got {self.ef} and {self.target_recall}")
        chosen = {"ef": self.ef, "target_recall": self.target_recall}
        return {name: value for name, value in chosen.items() if value is not None}
