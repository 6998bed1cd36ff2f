"""Replies as frozen dataclasses."""

from __future__ import annotations

import array
import dataclasses
import json
from typing import Any

from ._generated import admin_pb2, common_pb2, index_pb2, searcher_pb2
from .document import Document
from .errors import InvalidReply

#: Names of the modes and fusions by number.
_MODES = {0: "", 1: "dense", 2: "bm25", 3: "hybrid", 4: "compare"}
_FUSIONS = {0: None, 1: "rrf", 2: "weighted-sum", 3: "min-max", 4: "log-odds"}


@dataclasses.dataclass(frozen=True)
class Placement:
    """A document's place in one ranking."""

    #: From 1.
    rank: int
    score: float


@dataclasses.dataclass(frozen=True)
class Snippet:
    """A part of a document's text."""

    text: str
    #: Start and end of each of the question's words, as indices of `text`.
    highlights: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """The group of which a hit is the best."""

    #: None where the document has no value.
    value: str | float | bool | None
    #: Its next best hits.
    hits: tuple[Hit, ...]


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document among the hits."""

    rank: int
    key: str
    score: float
    #: None where that ranking does not hold the document.
    dense: Placement | None
    bm25: Placement | None
    document: Document | None
    snippet: Snippet | None
    group: Group | None
    #: Place among the hits that the cross encoder has scored, and its score.
    rerank: Placement | None


@dataclasses.dataclass(frozen=True)
class SearchResponse:
    """The reply of a search. What it does not name is in `message`, the protobuf message."""

    hits: tuple[Hit, ...]
    #: The rankings `dense`, `bm25` and `hybrid` in mode `compare`; else empty.
    rankings: dict[str, tuple[Hit, ...]]
    mode: str
    fusion: str | None
    #: Hits that the cross encoder has scored.
    reranked: int
    #: How much its scores counted in their order, 0 to 1.
    rerank_weight: float
    #: What is missing from the answer, and why; empty where nothing is.
    degraded: str
    #: Name of the index that answered.
    index: str
    generation: int
    fingerprint: str
    #: What the request refers to that does not exist.
    notes: tuple[str, ...]
    message: searcher_pb2.SearchResponse = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Documents:
    """Stored documents by key."""

    documents: tuple[Document, ...]
    #: Keys that the index does not hold.
    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Sample:
    """Stored documents chosen at random."""

    #: Each once, in random order.
    documents: tuple[Document, ...]
    #: Documents that they were chosen from.
    of: int
    generation: int


@dataclasses.dataclass(frozen=True)
class Page:
    """Documents that follow each other in the order of their keys."""

    documents: tuple[Document, ...]
    #: Where the next page begins.
    next_after_key: str
    has_more: bool


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """A field that documents have."""

    #: As filters name it.
    name: str
    #: Documents with a value that is not None.
    documents: int
    #: Of these, those that have `texts`, `numbers` or `flags`; without the types that none has.
    types: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Fields:
    """The fields that documents of an index have."""

    #: By their names in the metadata, and then `title`.
    fields: tuple[FieldInfo, ...]
    #: Whether there are more than the server lists.
    has_more: bool
    #: Documents that were looked at.
    documents: int
    generation: int


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Why a document is, or is not, among the hits of a search."""

    #: None where it is none of them.
    hit: Placement | None
    #: Why it is none of them.
    reasons: tuple[str, ...]
    #: Whether the filter allows it.
    allowed: bool
    dense_exact: Placement | None
    bm25: Placement | None
    message: searcher_pb2.ExplainResponse = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Status:
    """What a searcher serves of an index."""

    version: str
    #: The commit that the searcher was built of; `unknown` where its build did not know it.
    revision: str
    #: Name of the index.
    index: str
    generation: int
    documents: int
    #: Of the model that made the index.
    fingerprint: str
    dim: int
    message: admin_pb2.StatusResponse = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class IndexInfo:
    """One of the indexes that a searcher serves."""

    name: str
    #: Whether it answers requests that name no index.
    is_default: bool
    generation: int
    documents: int
    shards: int
    #: Shards in which damage was found.
    damaged_shards: int
    #: Of the model that made the index.
    fingerprint: str
    #: Whether a question tower embeds for it.
    has_question_tower: bool
    #: Why a part of its answers is missing; empty where nothing is.
    degraded: str
    #: By which BM25 analyses texts and questions, such as "en"; empty of a server before there were others.
    language: str = ""


@dataclasses.dataclass(frozen=True)
class ChangeReply:
    """What a change came to: `read` = `indexed` + `unchanged` + `superseded` + `rejected`."""

    #: The generation that has the change; 0 where nothing had to be changed.
    generation: int
    #: Documents of the index after the change; 0 where the API key has a filter.
    documents: int
    #: Documents, or keys, that were sent; of a filter, documents that match.
    read: int
    #: Of these, those that were added, replaced or deleted.
    indexed: int
    #: Of these, those that were in the index as they are.
    unchanged: int
    #: Of these, those whose key came again later.
    superseded: int
    #: Of these, keys to delete that no document has.
    rejected: int
    #: Documents that kept their vectors, because only their metadata have changed.
    reused: int
    #: Whether the server's searchers serve the change; None where the call did not wait for that (`wait="searchable"`).
    searchable: bool | None
    message: index_pb2.ChangeResponse = dataclasses.field(repr=False)


def _placement(parent: Any, name: str) -> Placement | None:
    place = getattr(parent, name)
    return Placement(place.rank, place.score) if parent.HasField(name) else None


def document(message: common_pb2.Document) -> Document:
    """A stored document."""
    try:
        metadata = json.loads(message.metadata_json or "{}")
    except ValueError as error:
        raise InvalidReply(f"metadata of `{message.key}`: expected JSON, got other text") from error
    return Document(message.key, message.text, message.title, metadata if isinstance(metadata, dict) else {}, etag=message.etag)


def _snippet(message: searcher_pb2.Snippet) -> Snippet:
    # The server counts bytes of UTF-8, Python characters.
    encoded = message.text.encode()
    try:
        places = [(len(encoded[: one.start].decode()), len(encoded[: one.end].decode())) for one in message.highlights]
    except UnicodeDecodeError as error:
        raise InvalidReply("highlights: expected ranges of whole characters, got others") from error
    return Snippet(message.text, tuple(places))


def _group(message: searcher_pb2.Group) -> Group:
    kind = message.value.WhichOneof("value")
    value = getattr(message.value, kind) if kind else None
    return Group(int(message.value.integer) if kind == "integer" else value, tuple(map(hit, message.hits)))


def hit(message: searcher_pb2.Hit) -> Hit:
    """A hit."""
    return Hit(
        message.rank,
        message.key,
        message.score,
        _placement(message, "dense"),
        _placement(message, "bm25"),
        document(message.document) if message.HasField("document") else None,
        _snippet(message.snippet) if message.HasField("snippet") else None,
        _group(message.group) if message.HasField("group") else None,
        _placement(message, "rerank"),
    )


def search(message: searcher_pb2.SearchResponse) -> SearchResponse:
    """The reply of a search."""
    names = ("dense", "bm25", "hybrid") if message.HasField("comparison") else ()
    return SearchResponse(
        tuple(map(hit, message.hits)),
        {name: tuple(map(hit, getattr(message.comparison, name))) for name in names},
        _MODES.get(message.mode, str(message.mode)),
        _FUSIONS.get(message.fusion, str(message.fusion)),
        message.reranked,
        message.rerank_weight,
        (message.degraded_reason or "for an unknown reason") if message.degraded else "",
        message.index,
        message.generation,
        message.fingerprint,
        tuple(message.notes),
        message,
    )


def documents(message: searcher_pb2.GetDocumentsResponse) -> Documents:
    """The reply of GetDocuments."""
    return Documents(tuple(map(document, message.documents)), tuple(message.missing))


def sample(message: searcher_pb2.SampleDocumentsResponse) -> Sample:
    """The reply of SampleDocuments."""
    return Sample(tuple(map(document, message.documents)), message.of, message.generation)


def page(message: searcher_pb2.ScrollDocumentsResponse) -> Page:
    """The reply of ScrollDocuments."""
    return Page(tuple(map(_scrolled, message.documents)), message.next_after_key, message.has_more)


def _scrolled(message: searcher_pb2.ScrolledDocument) -> Document:
    read = document(message.document)
    if not message.HasField("vector"):
        return read
    return Document(read.key, read.text, read.title, read.metadata, array.array("f", message.vector.values))


def fields(message: searcher_pb2.ListFieldsResponse) -> Fields:
    """The reply of ListFields."""
    listed = (FieldInfo(one.name, one.documents, {kind.name: count for kind, count in one.types.ListFields()}) for one in message.fields)
    return Fields(tuple(listed), message.has_more, message.documents, message.generation)


def explanation(message: searcher_pb2.ExplainResponse) -> Explanation:
    """The reply of Explain."""
    places = (_placement(message, "dense_exact"), _placement(message, "bm25"))
    return Explanation(_placement(message, "hit"), tuple(message.reasons), message.allowed, *places, message)


def indexes(message: admin_pb2.ListIndexesResponse) -> list[IndexInfo]:
    """The reply of ListIndexes."""
    return [
        IndexInfo(
            name=one.name,
            is_default=one.is_default,
            generation=one.generation,
            documents=one.documents,
            shards=one.shards,
            damaged_shards=one.damaged_shards,
            fingerprint=one.model.fingerprint,
            has_question_tower=one.has_question_tower,
            degraded=one.degraded_reason,
            language=one.language,
        )
        for one in message.indexes
    ]


def status(message: admin_pb2.StatusResponse) -> Status:
    """The reply of Status."""
    model = message.index_model
    return Status(
        message.version, message.revision, message.name, message.generation, message.documents, model.fingerprint, model.dim, message
    )


def change(message: index_pb2.ChangeResponse) -> ChangeReply:
    """The reply of Upsert and Delete."""
    return ChangeReply(
        message.generation,
        message.documents,
        message.read,
        message.indexed,
        message.unchanged,
        message.superseded,
        message.rejected,
        message.reused,
        message.searchable if message.HasField("searchable") else None,
        message,
    )
