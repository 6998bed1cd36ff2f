"""What calls of Upsert and Delete send: documents or keys, as messages of bounded size.

Every document is made a message of its own at once: messages of one type are joined by joining their bytes.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, Literal, TypeVar

from ._generated import common_pb2, index_pb2
from .calls import serialize
from .document import AnyDocument, Document, document_of
from .filters import Filter, checked
from .metadata import metadata_json
from .vectors import Vector, float32s

T = TypeVar("T")

#: Documents or keys of one message.
MOST_OF_MESSAGE = 1024
#: Bytes of one message, where one document alone has no more: servers ask for messages of a few MiB, and take 4 MiB of keys.
MESSAGE_BYTES = 3 << 20
#: Bytes of one document, at any server.
DOCUMENT_BYTES = 32 << 20
#: Bytes of one call.
CALL_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A document or a key, as the message that has it alone."""

    key: str
    payload: bytes


class Records(Generic[T]):
    """Makes each of many documents or keys a record, in order. Errors say which one is wrong."""

    def __init__(self, kind: str, record: Callable[[T, Vector | None], Record], ending: bytes, vectors: Iterable[Vector] | None) -> None:
        if vectors is not None and not isinstance(vectors, Iterable):
            raise TypeError(f"`vectors`: expected one vector for each document, got {type(vectors).__name__}")
        self._kind, self._record, self._count = kind, record, 0
        self._vectors: Iterator[Vector] | None = None if vectors is None else iter(vectors)
        #: What every message has besides its records.
        self.ending = ending

    def next(self, given: T) -> Record:
        """The record of the next one."""
        vector = None
        if self._vectors is not None:
            vector = next(self._vectors, None)
            if vector is None:
                raise ValueError(f"`vectors`: expected as many as documents, got {self._count} and more documents")
        try:
            record = self._record(given, vector)
            if len(record.payload) > DOCUMENT_BYTES:
                raise ValueError(f"expected at most {DOCUMENT_BYTES >> 20} MiB, got {len(record.payload):,} bytes")
        except (TypeError, ValueError) as error:
            key = given.get("key") if isinstance(given, Mapping) else getattr(given, "key", None)
            named = f" ({key!r:.80})" if isinstance(key, str) else ""
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{self._kind} {self._count}{named}: {error}") from error
        self._count += 1
        return record

    def end(self) -> None:
        """There are no more."""
        if self._vectors is not None and next(self._vectors, None) is not None:
            raise ValueError(f"`vectors`: expected as many as documents, {self._count}, got more")

    def one_call(self, all_given: Iterable[T], opening: bytes, *, expects: bool) -> list[bytes]:
        """The messages of one call that changes all of them at once; the first has also what `opening` says."""
        records, size = [], 0
        for given in all_given:
            records.append(self.next(given))
            size += len(records[-1].payload)
            if size > CALL_BYTES:
                expected = f"at most {CALL_BYTES >> 20} MiB in one call"
                raise ValueError(f"expected {expected}, got more in the first {len(records)}. `upsert_all` and `delete_all` make several calls")
        self.end()
        if expects and not records:
            raise ValueError("`expected`: expected a change with it, got none")
        return self.messages(records, opening)

    def messages(self, records: Iterable[Record], opening: bytes) -> list[bytes]:
        """The messages of a call with these records; the first has also what `opening` says."""
        made: list[bytes] = []
        parts: list[bytes] = []
        size = 0
        for record in records:
            if parts and (len(parts) == MOST_OF_MESSAGE or size + len(record.payload) > MESSAGE_BYTES):
                made.append(b"".join([*parts, self.ending]))
                parts, size = [], 0
            parts.append(record.payload)
            size += len(record.payload)
        if parts:
            made.append(b"".join([*parts, self.ending]))
        if made:
            made[0] = opening + made[0]
        return made


def upserts(vectors: Iterable[Vector] | None, fingerprint: str, context: str) -> Records[AnyDocument]:
    """Makes documents records. With a fingerprint each comes with a vector, and without one none does."""
    for name, value in (("fingerprint", fingerprint), ("context", context)):
        if not isinstance(value, str):
            raise TypeError(f"`{name}`: expected a text, got {type(value).__name__}")
    for name, given in (("context", context != ""), ("vectors", vectors is not None)):
        if given and not fingerprint:
            raise ValueError(f"`fingerprint`: expected with `{name}` that of the model that made the vectors, got none. {_FINGERPRINT}")

    def record(given: AnyDocument, vector: Vector | None) -> Record:
        document = document_of(given)
        vector = document.vector if vector is None else vector
        if vector is None and fingerprint:
            raise ValueError("`vector`: expected one for every document, since `fingerprint` is given, got none")
        if vector is not None and not fingerprint:
            raise ValueError(f"`fingerprint`: expected that of the model that made the vector, got none. {_FINGERPRINT}")
        request = index_pb2.UpsertRequest(documents=[_message(document)])
        if vector is not None:
            request.vectors.add(values=float32s(vector))
        return Record(document.key, request.SerializeToString())

    ending = index_pb2.UpsertRequest(fingerprint=fingerprint, context=context).SerializeToString()
    return Records("document", record, ending, vectors)


_FINGERPRINT = "The index takes its own: `fingerprint` of Searcher.status()"


def deletes() -> Records[str]:
    """Makes keys records."""

    def record(key: str, _: Vector | None) -> Record:
        return Record(key, index_pb2.DeleteRequest(keys=[_text("key", key)]).SerializeToString())

    return Records("key", record, b"", None)


def matching(filter: Filter, opening: bytes) -> list[bytes]:
    """The message that deletes what matches."""
    return [opening + serialize(index_pb2.DeleteRequest(filter=checked(filter).message))]


#: The etag that the document with each key must have; None: there must be no such document.
Expected = Mapping[str, str | None]


#: What the reply of a change waits for: that it is on disk, or that searchers serve it, too.
Wait = Literal["durable", "searchable"]


def opening_of_upsert(expected: Expected | None = None, request_key: str | None = None, wait: Wait = "durable") -> bytes:
    """What the first message of a call to upsert has besides documents: what it expects of the index, the name of the call, and what its
    reply waits for."""
    return index_pb2.UpsertRequest(
        expected=_expected(expected), request_key=_request_key(request_key), wait=_wait(wait)
    ).SerializeToString()


def opening_of_delete(expected: Expected | None = None, request_key: str | None = None, wait: Wait = "durable") -> bytes:
    """The same of a call to delete."""
    return index_pb2.DeleteRequest(
        expected=_expected(expected), request_key=_request_key(request_key), wait=_wait(wait)
    ).SerializeToString()


def _wait(given: str) -> index_pb2.Wait:
    # A server of an earlier release does not know the field: the default leaves it out.
    values = {"durable": index_pb2.WAIT_UNSPECIFIED, "searchable": index_pb2.WAIT_SEARCHABLE}
    if given not in values:
        raise ValueError(f"`wait`: expected 'durable' or 'searchable', got {given!r:.80}")
    return values[given]


def _request_key(given: str | None) -> str:
    if given is None:
        return uuid.uuid4().hex
    if not _text("request_key", given):
        raise ValueError("`request_key`: expected a text, got an empty one. None makes one")
    return given


def _expected(expected: Expected | None) -> list[index_pb2.ExpectedDocument]:
    if expected is None:
        return []
    if not isinstance(expected, Mapping):
        raise TypeError(f"`expected`: expected a dict of keys and etags, got {type(expected).__name__}")
    if len(expected) > MOST_OF_MESSAGE:
        raise ValueError(f"`expected`: expected at most {MOST_OF_MESSAGE} documents, got {len(expected)}")
    made = []
    for key, etag in expected.items():
        if etag == "":
            raise ValueError(f"`expected`: expected the etag of {key!r:.80}, got an empty one. None says that there is no such document")
        made.append(index_pb2.ExpectedDocument(key=_text("expected", key), etag=_text("expected", "" if etag is None else etag)))
    return made


def documents_of(given: AnyDocument | Iterable[AnyDocument]) -> Iterable[AnyDocument]:
    """One document, or many."""
    if isinstance(given, (Document, Mapping)):
        return [given]
    _check_many("documents", given, "a Document, a dict, or some of them")
    return given


def keys_of(given: str | Iterable[str]) -> Iterable[str]:
    """One key, or many."""
    if isinstance(given, str):
        return [given]
    _check_many("keys", given, "a key, or some of them")
    return given


def _check_many(name: str, given: object, expected: str) -> None:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"`{name}`: expected {expected}, got {type(given).__name__}")
    if hasattr(given, "columns"):
        raise TypeError(f"`{name}`: expected {expected}, got a table ({type(given).__name__}). Use `upsert_table`")


def _message(document: Document) -> common_pb2.Document:
    return common_pb2.Document(
        key=_text("key", document.key),
        title=_text("title", document.title),
        text=_text("text", document.text),
        metadata_json=_text("metadata", metadata_json(document.metadata)),
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        fix = ". Give str(value)" if name == "key" else ""
        raise TypeError(f"`{name}`: expected a text, got {type(value).__name__}{fix}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"`{name}`: expected Unicode, got a lone surrogate at position {error.start}. Encode it again") from None
    return value
