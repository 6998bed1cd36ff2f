"""`AsyncStore`: a `Store` in one event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .async_index import AsyncIndex
from .async_searcher import AsyncSearcher
from .document import Document
from .filters import Filter
from .filters import keys as with_keys
from .replies import Hit
from .store import MOST_KEYS, MOST_NEW, Store, batches, by_vectors, check_cosine, dense, diverse, made, told
from .vectors import Vector


class AsyncStore:
    """The searches and changes of a `Store`, with clients of their own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.searcher = AsyncSearcher(
            store.searcher_target, tls=store.tls, api_key=store.api_key, timeout=store.timeout, index=store.index_name
        )
        self._index: AsyncIndex | None = None

    @property
    def index(self) -> AsyncIndex:
        """The client that changes the index."""
        target = self.store.writable()
        if self._index is None:
            self._index = AsyncIndex(target, tls=self.store.tls, api_key=self.store.indexer_api_key, timeout=self.store.timeout)
        return self._index

    async def close(self) -> None:
        """Closes both clients."""
        await self.searcher.close()
        if self._index is not None:
            await self._index.close()

    async def search(
        self, text: str, vector: Vector | None, k: int, filter: Filter | None, arguments: Mapping[str, Any]
    ) -> tuple[Hit, ...]:
        """As `Store.search`."""
        fingerprint = await self.fingerprint() if vector is not None else ""
        return told(await self.searcher.search(self.store.request(text, vector, fingerprint, k, filter, arguments)))

    async def diverse(
        self, text: str, vector: Vector | None, k: int, fetch_k: int, weight: float, filter: Filter | None, arguments: Mapping[str, Any]
    ) -> list[Hit]:
        """As `Store.diverse`."""
        check_cosine(await self.searcher.status())
        hits = await self.search(text, vector, max(k, fetch_k), filter, dense(arguments))
        if not hits:
            return []
        found = self.searcher.scroll(filter=with_keys([hit.key for hit in hits]), with_vectors=True, fields=["key"])
        return diverse(hits, [document async for document in found], k, weight)

    async def fingerprint(self) -> str:
        """As `Store.fingerprint`."""
        if not self.store.known_fingerprint:
            self.store.known_fingerprint = (await self.searcher.status()).fingerprint
        return self.store.known_fingerprint

    async def read(self, keys: Sequence[str]) -> list[Document]:
        """As `Store.read`."""
        found: list[Document] = []
        for some in batches(list(dict.fromkeys(keys)), MOST_KEYS):
            found += (await self.searcher.documents(some)).documents
        return found

    async def upsert(self, documents: Sequence[Document]) -> None:
        """As `Store.upsert`."""
        for some, has_vectors in by_vectors(documents):
            fingerprint = await self.fingerprint() if has_vectors else ""
            made(await self.index.upsert_all(some, fingerprint=fingerprint, wait=self.store.wait))

    async def insert(self, documents: Sequence[Document], added: set[str] | None = None) -> None:
        """As `Store.insert`."""
        for some, has_vectors in by_vectors(documents):
            fingerprint = await self.fingerprint() if has_vectors else ""
            for batch in batches(some, MOST_NEW):
                new = {document.key: None for document in batch}
                made(await self.index.upsert(batch, fingerprint=fingerprint, expected=new, wait=self.store.wait))
                if added is not None:
                    added.update(new)

    async def update(self, keys: Sequence[str], metadata: Mapping[str, Any]) -> int:
        """As `Store.update`."""
        count = 0
        for some in batches(keys, MOST_NEW):
            found = (await self.searcher.documents(some)).documents
            expected = {document.key: document.etag for document in found}
            if found:
                made(await self.index.upsert(self.store.changed(found, metadata), expected=expected, wait=self.store.wait))
            count += len(found)
        return count

    async def delete(self, keys: Sequence[str]) -> None:
        """As `Store.delete`."""
        if keys:
            made(await self.index.delete_all(keys, wait=self.store.wait))

    async def delete_where(self, filter: Filter) -> int:
        """As `Store.delete_where`."""
        return made(await self.index.delete_where(filter, wait=self.store.wait)).indexed
