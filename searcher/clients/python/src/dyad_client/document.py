"""`Document`: what an index stores and what is written to one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .vectors import Vector


@dataclasses.dataclass(frozen=True, init=False)
class Document:
    """A document. In replies, fields that were not asked for are empty: what is to be written again is read with all of them."""

    #: Unique in an index.
    key: str
    text: str
    title: str
    #: One JSON object.
    metadata: dict[str, Any]
    #: In changes only where the client has made it itself; in replies only in those of `scroll(with_vectors=True)`.
    vector: Vector | None = dataclasses.field(repr=False, compare=False)
    #: Of its content, in replies of `documents`: `Index.upsert(..., expected={key: etag})` replaces the document only as long as it is so.
    etag: str = dataclasses.field(repr=False, compare=False)

    def __init__(
        self,
        key: str,
        text: str,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        vector: Vector | None = None,
        etag: str = "",
    ) -> None:
        if metadata is not None and not isinstance(metadata, Mapping):
            raise TypeError(f"`metadata`: expected a dict, got {type(metadata).__name__}")
        # As dataclasses do it where they are frozen.
        values = (key, text, title, dict(metadata or {}), vector, etag)
        for field, value in zip(dataclasses.fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)


#: What is accepted as a document: a `Document`, or a dict with the same names.
AnyDocument = Document | Mapping[str, Any]

_NAMES = tuple(field.name for field in dataclasses.fields(Document))


def document_of(given: AnyDocument) -> Document:
    """The document that is given."""
    if isinstance(given, Document):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a Document or a dict, got {type(given).__name__}. Give Document(key, text)")
    for name in given:
        if name not in _NAMES:
            raise ValueError(f"expected the fields {', '.join(_NAMES)}, got {name!r}. Put others into `metadata`")
    for name in ("key", "text"):
        if name not in given:
            raise ValueError(f"`{name}`: expected a text, got no such field")
    return Document(**given)
