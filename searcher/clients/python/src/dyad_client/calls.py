"""The calls of the services: their paths, messages and replies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from . import replies
from ._generated import admin_pb2, index_pb2, searcher_pb2
from .connection import MAX_MESSAGE_BYTES
from .filters import Filter, checked, texts
from .request import Request

R = TypeVar("R")

#: Requests of a stream that are sent ahead of their replies.
READ_AHEAD = 64
#: What grpc.aio says where a request could not be sent, for the server had ended the stream: that failure replaces the status.
LOST_STATUS = "Internal error from Core"


@dataclasses.dataclass(frozen=True)
class Call(Generic[R]):
    """A call: its path, and how its reply is read."""

    path: str
    parse: Callable[[bytes], Any]
    reply: Callable[[Any], R]


SEARCH = Call("/dyad.v1.Searcher/Search", searcher_pb2.SearchResponse.FromString, replies.search)
SEARCH_BATCH: Call[list[replies.SearchResponse]] = Call(
    "/dyad.v1.Searcher/SearchBatch",
    searcher_pb2.SearchBatchResponse.FromString,
    lambda reply: list(map(replies.search, reply.responses)),
)
SEARCH_STREAM: Call[replies.SearchResponse] = Call(
    "/dyad.v1.Searcher/SearchStream",
    searcher_pb2.SearchStreamResponse.FromString,
    lambda reply: replies.search(reply.response),
)
DOCUMENTS = Call("/dyad.v1.Searcher/GetDocuments", searcher_pb2.GetDocumentsResponse.FromString, replies.documents)
SAMPLE = Call("/dyad.v1.Searcher/SampleDocuments", searcher_pb2.SampleDocumentsResponse.FromString, replies.sample)
SCROLL = Call("/dyad.v1.Searcher/ScrollDocuments", searcher_pb2.ScrollDocumentsResponse.FromString, replies.page)
COUNT: Call[int] = Call(
    "/dyad.v1.Searcher/CountDocuments", searcher_pb2.CountDocumentsResponse.FromString, lambda reply: int(reply.documents)
)
FIELDS = Call("/dyad.v1.Searcher/ListFields", searcher_pb2.ListFieldsResponse.FromString, replies.fields)
EXPLAIN = Call("/dyad.v1.Searcher/Explain", searcher_pb2.ExplainResponse.FromString, replies.explanation)
INDEXES = Call("/dyad.v1.Admin/ListIndexes", admin_pb2.ListIndexesResponse.FromString, replies.indexes)
STATUS = Call("/dyad.v1.Admin/Status", admin_pb2.StatusResponse.FromString, replies.status)
UPSERT = Call("/dyad.v1.Index/Upsert", index_pb2.ChangeResponse.FromString, replies.change)
DELETE = Call("/dyad.v1.Index/Delete", index_pb2.ChangeResponse.FromString, replies.change)


def serialize(message: Any) -> bytes:
    """The bytes of a request. One that no server reads is refused here: gRPC's own refusal has the code of a full server."""
    serialized: bytes = message.SerializeToString()
    if len(serialized) > MAX_MESSAGE_BYTES:
        expected = f"at most {MAX_MESSAGE_BYTES >> 20} MiB"
        raise ValueError(f"request: expected {expected}, got {len(serialized):,} bytes. Send fewer questions in it, or a smaller filter")
    return serialized


def batch(requests: Iterable[Request], index: str) -> searcher_pb2.SearchBatchRequest:
    """The message of a batch."""
    return searcher_pb2.SearchBatchRequest(requests=[request.message(index=index) for request in requests])


def documents(keys: Iterable[str], fields: Iterable[str], index: str) -> searcher_pb2.GetDocumentsRequest:
    """The message of GetDocuments."""
    return searcher_pb2.GetDocumentsRequest(keys=texts("keys", keys), fields=texts("fields", fields), index=index)


def sample(
    count: int, seed: int, fields: Iterable[str], filter: Filter | None, index: str
) -> searcher_pb2.SampleDocumentsRequest:
    """The message of SampleDocuments."""
    message = searcher_pb2.SampleDocumentsRequest(count=count, seed=seed, fields=texts("fields", fields), index=index)
    if filter is not None:
        message.filter.CopyFrom(checked(filter).message)
    return message


def scroll(
    page_size: int, after: str, fields: Iterable[str], filter: Filter | None, with_vectors: bool, index: str
) -> searcher_pb2.ScrollDocumentsRequest:
    """The message of ScrollDocuments, for the first page."""
    message = searcher_pb2.ScrollDocumentsRequest(
        page_size=page_size, after_key=after, fields=texts("fields", fields), with_vectors=with_vectors, index=index
    )
    if filter is not None:
        message.filter.CopyFrom(checked(filter).message)
    return message


def count(filter: Filter | None, index: str) -> searcher_pb2.CountDocumentsRequest:
    """The message of CountDocuments."""
    message = searcher_pb2.CountDocumentsRequest(index=index)
    if filter is not None:
        message.filter.CopyFrom(checked(filter).message)
    return message


def fields(index: str) -> searcher_pb2.ListFieldsRequest:
    """The message of ListFields."""
    return searcher_pb2.ListFieldsRequest(index=index)


def explain(key: str, request: Request, index: str) -> searcher_pb2.ExplainRequest:
    """The message of Explain."""
    return searcher_pb2.ExplainRequest(key=key, search=request.message(index=index))


def status(index: str) -> admin_pb2.StatusRequest:
    """The message of Status."""
    return admin_pb2.StatusRequest(index=index)


def indexes() -> admin_pb2.ListIndexesRequest:
    """The message of ListIndexes."""
    return admin_pb2.ListIndexesRequest()
