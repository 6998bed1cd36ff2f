"""Haystack's document store, `DyadDocumentStore`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, Self

from haystack import Document, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret, deserialize_secrets_inplace

from . import document as stored
from .errors import Aborted
from .filters import Filter
from .replies import Hit
from .store import Store
from .store_filters import everything, of_haystack

#: What a document of Haystack may have that an index does not hold.
_NOT_HELD = ("blob", "sparse_embedding")
#: Attempts to leave out documents that are there, while others add some.
_ATTEMPTS = 5


class DyadDocumentStore:
    """A document store of Haystack. `indexer` is needed where the index is to be changed; other arguments are as for
    `dyad_client.store.StoreOptions`, and `return_embedding` says whether `filter_documents` reads the vectors too, as the index has them:
    of unit length where it compares by cosine, and rounded where it stores half precision."""

    def __init__(
        self,
        searcher: str = "127.0.0.1:7700",
        indexer: str | None = None,
        *,
        index: str = "",
        mode: str | None = None,
        title: str | None = "title",
        fingerprint: str = "",
        timeout: float = 30.0,
        tls: bool | None = None,
        api_key: Secret | None = None,
        indexer_api_key: Secret | None = None,
        return_embedding: bool = False,
    ) -> None:
        self._parameters = {
            "searcher": searcher, "indexer": indexer, "index": index, "mode": mode, "title": title, "fingerprint": fingerprint,
            "timeout": timeout, "tls": tls, "return_embedding": return_embedding,
        }  # fmt: skip
        self._secrets = {"api_key": api_key, "indexer_api_key": indexer_api_key}
        self.return_embedding = return_embedding
        self.store = Store(
            searcher,
            indexer,
            index=index,
            mode=mode,
            title=title,
            fingerprint=fingerprint,
            timeout=timeout,
            tls=tls,
            api_key=api_key.resolve_value() if api_key else None,
            indexer_api_key=indexer_api_key.resolve_value() if indexer_api_key else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """The store's arguments, for a pipeline that is written down."""
        secrets = {name: secret.to_dict() if secret else None for name, secret in self._secrets.items()}
        written: dict[str, Any] = default_to_dict(self, **self._parameters, **secrets)
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The store of `to_dict`."""
        deserialize_secrets_inplace(data["init_parameters"], ["api_key", "indexer_api_key"])
        made: Self = default_from_dict(cls, data)
        return made

    # Reads.

    def count_documents(self) -> int:
        """How many documents there are."""
        return self.store.searcher.count()

    async def count_documents_async(self) -> int:
        """As `count_documents`."""
        return await self.store.for_loop().searcher.count()

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """How many documents match."""
        return self.store.searcher.count(self.filter_of(filters))

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `count_documents_by_filter`."""
        return await self.store.for_loop().searcher.count(self.filter_of(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """All documents, or those that match, in the order of their ids."""
        found = self.store.searcher.scroll(filter=self.filter_of(filters), with_vectors=self.return_embedding)
        return [self._document(document) for document in found]

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """As `filter_documents`."""
        found: AsyncIterable[stored.Document] = self.store.for_loop().searcher.scroll(
            filter=self.filter_of(filters), with_vectors=self.return_embedding
        )
        return [self._document(document) async for document in found]

    def filter_of(self, filters: Mapping[str, Any] | None) -> Filter | None:
        """The searcher's filter. What it does not have is a `FilterError`."""
        try:
            return of_haystack(filters, self.store.named)
        except (TypeError, ValueError) as error:
            raise FilterError(str(error)) from error

    # Changes.

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Writes documents, and counts those that were written; the next search finds them. Without a policy it is `FAIL`: up to 256 documents
        with embeddings, or without, are written together or not at all."""
        given = self._stored(documents)
        if policy == DuplicatePolicy.OVERWRITE:
            self.store.upsert(given)
            return len({document.key for document in given})
        if policy != DuplicatePolicy.SKIP:
            _check_unique(given)
            try:
                self.store.insert(given)
            except Aborted as error:
                raise DuplicateDocumentError(_duplicate(error)) from error
            return len(given)
        added = set[str]()
        for attempt in range(_ATTEMPTS):
            there = {document.key for document in self.store.read([document.key for document in given])}
            try:
                self.store.insert(_first_of_new(given, there | added), added)
                return len(added)
            except Aborted:
                # Somebody else has added one of them meanwhile, or the searcher does not serve it yet.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    async def write_documents_async(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """As `write_documents`."""
        given, store = self._stored(documents), self.store.for_loop()
        if policy == DuplicatePolicy.OVERWRITE:
            await store.upsert(given)
            return len({document.key for document in given})
        if policy != DuplicatePolicy.SKIP:
            _check_unique(given)
            try:
                await store.insert(given)
            except Aborted as error:
                raise DuplicateDocumentError(_duplicate(error)) from error
            return len(given)
        added = set[str]()
        for attempt in range(_ATTEMPTS):
            there = {document.key for document in await store.read([document.key for document in given])}
            try:
                await store.insert(_first_of_new(given, there | added), added)
                return len(added)
            except Aborted:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def delete_documents(self, document_ids: list[str]) -> None:
        """Deletes documents; ids that none has are left alone."""
        self.store.delete(document_ids)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """As `delete_documents`."""
        await self.store.for_loop().delete(document_ids)

    def delete_all_documents(self) -> None:
        """Deletes all documents; the index stays."""
        self.store.delete_where(everything())

    async def delete_all_documents_async(self) -> None:
        """As `delete_all_documents`."""
        await self.store.for_loop().delete_where(everything())

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Deletes the documents that match, and counts them."""
        return self.store.delete_where(self._needed(filters))

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `delete_by_filter`."""
        return await self.store.for_loop().delete_where(self._needed(filters))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Sets fields of the metadata of the documents that match, and counts them."""
        found = self.store.searcher.scroll(filter=self._needed(filters), fields=["key"])
        return self.store.update([document.key for document in found], meta)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """As `update_by_filter`."""
        store = self.store.for_loop()
        found: AsyncIterable[stored.Document] = store.searcher.scroll(filter=self._needed(filters), fields=["key"])
        return await store.update([document.key async for document in found], meta)

    def close(self) -> None:
        """Closes the connections."""
        self.store.close()

    async def aclose(self) -> None:
        """Closes those of the event loop that runs."""
        await self.store.aclose()

    def _needed(self, filters: dict[str, Any]) -> Filter:
        matching = self.filter_of(filters)
        if matching is None:
            raise FilterError("`filters`: expected a condition, got an empty one. Use delete_all_documents to delete everything")
        return matching

    def _stored(self, documents: list[Document]) -> list[stored.Document]:
        if not isinstance(documents, list):
            raise ValueError(f"`documents`: expected a list of Documents, got {type(documents).__name__}")
        made = []
        for document in documents:
            if not isinstance(document, Document):
                raise ValueError(f"`documents`: expected Documents, got {type(document).__name__}")
            for name in _NOT_HELD:
                if getattr(document, name) is not None:
                    raise ValueError(f"document {document.id!r:.80}: `{name}`: expected None, since an index does not hold it. Keep it elsewhere")
            if document.content is None:
                raise ValueError(f"document {document.id!r:.80}: `content`: expected a text, got None")
            made.append(self.store.document(document.id, document.content, document.meta, document.embedding))
        return made

    def _document(self, given: stored.Document, score: float | None = None) -> Document:
        vector: Any = given.vector
        embedding = None if vector is None else [float(value) for value in vector]
        return Document(id=given.key, content=given.text, meta=self.store.metadata(given), score=score, embedding=embedding)

    # Searches, for the retrievers.

    def retrieved(
        self, text: str, vector: Sequence[float] | None, top_k: int, filters: Mapping[str, Any] | None, arguments: Mapping[str, Any]
    ) -> dict[str, list[Document]]:
        """The best documents, as a retriever gives them."""
        return self._retrieved(self.store.search(text, vector, top_k, self.filter_of(filters), arguments))

    async def retrieved_async(
        self, text: str, vector: Sequence[float] | None, top_k: int, filters: Mapping[str, Any] | None, arguments: Mapping[str, Any]
    ) -> dict[str, list[Document]]:
        """As `retrieved`."""
        return self._retrieved(await self.store.for_loop().search(text, vector, top_k, self.filter_of(filters), arguments))

    def _retrieved(self, hits: Iterable[Hit]) -> dict[str, list[Document]]:
        return {"documents": [self._document(hit.document, hit.score) for hit in hits if hit.document is not None]}


def _check_unique(documents: Sequence[stored.Document]) -> None:
    seen: set[str] = set()
    for document in documents:
        if document.key in seen:
            raise DuplicateDocumentError(f"`documents`: expected each id once, got {document.key!r:.80} again. Use the policy OVERWRITE or SKIP")
        seen.add(document.key)


def _duplicate(error: Aborted) -> str:
    return f"a document with one of these ids is there: {error.message}. Use the policy OVERWRITE or SKIP"


def _first_of_new(documents: Iterable[stored.Document], there: set[str]) -> list[stored.Document]:
    new: dict[str, stored.Document] = {}
    for document in documents:
        if document.key not in there:
            new.setdefault(document.key, document)
    return list(new.values())
