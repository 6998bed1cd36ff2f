"""`Request`: one search and its arguments, and its message."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypedDict

from ._generated import searcher_pb2
from .filters import Filter, checked, texts
from .vectors import Vector, float32s

_MODES = {"dense": 1, "bm25": 2, "hybrid": 3, "compare": 4}
_FUSIONS = {None: 0, "rrf": 1, "weighted-sum": 2, "min-max": 3, "log-odds": 4}


class Arguments(TypedDict, total=False):
    """The arguments of `Request` besides the question."""

    mode: str | None
    k: int
    offset: int
    score_threshold: float | None
    vector: Vector | None
    fingerprint: str
    ef: int
    target_recall: float | None
    exact: bool
    keys_only: bool
    fields: Sequence[str]
    max_text_bytes: int
    snippet_bytes: int
    surrounding_bytes: int
    group_by: str | None
    group_hits: int
    rerank_depth: int
    rerank_weight: float | None
    filter: Filter | None
    fusion: str | None
    dense_weight: float | None
    document_weight: float | None
    min_coverage: float | None
    fusion_depth: int
    rrf_k: int
    index: str


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """One search. What is left out, the server chooses; limits are the server's, which names the field that is above one."""

    #: The question. May be left out where there is a `vector`, in mode `dense`.
    query: str = ""
    _: dataclasses.KW_ONLY
    #: `dense`, `bm25`, `hybrid`, or `compare` for all three; None: `dense` where there is a `vector` alone, and else `hybrid`.
    mode: str | None = None
    #: Hits wanted.
    k: int = 10
    #: Best hits to leave out, for pages.
    offset: int = 0
    #: Least score of a hit, in the unit of the mode.
    score_threshold: float | None = None
    #: The question's vector: numbers, or a numpy array of one dimension.
    vector: Vector | None = None
    #: Fingerprint of the model that made `vector`; required with it.
    fingerprint: str = ""
    #: Beam width of the graph search.
    ef: int = 0
    #: Target recall of the graph search, above 0 and below 1.
    target_recall: float | None = None
    #: Compare with every vector instead of searching the graph.
    exact: bool = False
    #: Leave the documents out of the hits.
    keys_only: bool = False
    #: Stored fields of the hits' documents; all where there is none.
    fields: Sequence[str] = ()
    #: Bytes of each hit's text at most; 0 for whole texts.
    max_text_bytes: int = 0
    #: Bytes of each hit's snippet; 0 for none.
    snippet_bytes: int = 0
    #: Bytes of what stands around each hit in its document, where it is a passage of one; 0 for none.
    surrounding_bytes: int = 0
    #: Field whose values group the hits; `k` and `offset` then count groups.
    group_by: str | None = None
    #: Hits of each group.
    group_hits: int = 1
    #: Best hits that the server's cross encoder scores again; 0 for none.
    rerank_depth: int = 0
    #: Weight of its scores in the order of these hits, 0 to 1; the fused scores of `log-odds` have the rest.
    rerank_weight: float | None = None
    #: Which documents can be hits.
    filter: Filter | None = None
    #: `rrf`, `weighted-sum`, `min-max` or `log-odds`.
    fusion: str | None = None
    #: Weight of the dense ranking in the fusion, 0 to 1.
    dense_weight: float | None = None
    #: Weight of a document's BM25 in the BM25 scores of its passages, 0 to 10.
    document_weight: float | None = None
    #: Least share of the documents that must be searched, where leaves hold the shards and some do not answer; 1 where absent.
    min_coverage: float | None = None
    #: Hits that each ranking gives to the fusion.
    fusion_depth: int = 0
    #: Constant of `rrf`.
    rrf_k: int = 0
    #: Name of the index, where the server serves several; the client's where there is none.
    index: str = ""

    def message(self, number: int = 0, index: str = "") -> searcher_pb2.SearchRequest:
        """The message, with its number in a stream, and the client's index."""
        mode = self.mode
        if mode is None:
            mode = "dense" if self.vector is not None and not self.query else "hybrid"
        if mode not in _MODES:
            raise ValueError(f"`mode`: expected one of {', '.join(_MODES)} or None, got {mode!r}")
        if self.fusion not in _FUSIONS:
            raise ValueError(f"`fusion`: expected one of rrf, weighted-sum, min-max, log-odds or None, got {self.fusion!r}")
        message = searcher_pb2.SearchRequest(
            id=number,
            query=self.query,
            mode=_MODES[mode],  # type: ignore[arg-type]
            k=self.k,
            offset=self.offset,
            score_threshold=self.score_threshold,
            fingerprint=self.fingerprint,
            ef=self.ef,
            target_recall=self.target_recall,
            exact=self.exact,
            keys_only=self.keys_only,
            fields=texts("fields", self.fields),
            max_text_bytes=self.max_text_bytes,
            snippet_bytes=self.snippet_bytes,
            surrounding_bytes=self.surrounding_bytes,
            fusion=_FUSIONS[self.fusion],  # type: ignore[arg-type]
            dense_weight=self.dense_weight,
            document_weight=self.document_weight,
            min_coverage=self.min_coverage,
            fusion_depth=self.fusion_depth,
            rrf_k=self.rrf_k,
            rerank_depth=self.rerank_depth,
            rerank_weight=self.rerank_weight,
            index=self.index or index,
        )
        if self.vector is not None:
            message.vector.extend(float32s(self.vector))
        if self.group_by is not None:
            message.group_by.field, message.group_by.hits = self.group_by, self.group_hits
        if self.filter is not None:
            message.filter.CopyFrom(checked(self.filter).message)
        return message


def request_of(query: str | Request, arguments: Arguments) -> Request:
    """A question with its arguments, or a request with some of them changed."""
    if isinstance(query, Request):
        return dataclasses.replace(query, **arguments)
    return Request(query, **arguments)
