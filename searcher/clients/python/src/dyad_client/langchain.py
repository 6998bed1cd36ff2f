"""LangChain: `DyadVectorStore` and `DyadRetriever`, over an index that a searcher serves and `dyad-indexer serve` changes.

Without an embeddings object the servers embed questions and documents, and searches are hybrid: by vectors and by BM25.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from pydantic import ConfigDict, Field
except ImportError as error:
    raise ImportError(f"dyad_client.langchain: expected langchain-core, got {error}. Install the extra: pip install 'dyad-client[langchain]'") from error

from . import document as stored
from .filters import Filter
from .replies import Hit
from .store import Store, StoreOptions, check_cosine
from .store_filters import everything, of_langchain

#: A filter of the client, or a dict such as `{"lang": "en", "year": {"$gte": 2020}}`.
AnyFilter = Filter | Mapping[str, Any] | None


class DyadVectorStore(VectorStore):
    """A vector store of LangChain. `indexer` is needed where the index is to be changed.

    With `embeddings` the vectors of texts and questions are theirs, and otherwise the servers'. Searches take the arguments of
    `dyad_client.Request` besides, such as `mode="dense"`, `rerank_depth=20` or `exact=True`."""

    def __init__(
        self,
        searcher: str = "127.0.0.1:7700",
        indexer: str | None = None,
        *,
        embeddings: Embeddings | None = None,
        **options: Unpack[StoreOptions],
    ) -> None:
        self.store = Store(searcher, indexer, **options)
        self._embeddings = embeddings

    @property
    def embeddings(self) -> Embeddings | None:
        """What embeds texts and questions; None where the servers do."""
        return self._embeddings

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        searcher: str = "127.0.0.1:7700",
        indexer: str | None = "127.0.0.1:7702",
        **options: Any,
    ) -> Self:
        """A store with these texts; `embedding` is None where the servers embed."""
        made = cls(searcher, indexer, embeddings=embedding, **options)
        made.add_texts(texts, metadatas, ids=ids)
        return made

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        searcher: str = "127.0.0.1:7700",
        indexer: str | None = "127.0.0.1:7702",
        **options: Any,
    ) -> Self:
        """As `from_texts`."""
        made = cls(searcher, indexer, embeddings=embedding, **options)
        await made.aadd_texts(texts, metadatas, ids=ids)
        return made

    # Changes.

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Adds texts and replaces those whose ids are there; gives the ids, which are made where there are none."""
        listed = list(texts)
        vectors = self._embeddings.embed_documents(listed) if self._embeddings and listed else None
        documents = self._documents(listed, metadatas, ids, vectors, kwargs)
        self.store.upsert(documents)
        return [document.key for document in documents]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """As `add_texts`."""
        listed = list(texts)
        vectors = await self._embeddings.aembed_documents(listed) if self._embeddings and listed else None
        documents = self._documents(listed, metadatas, ids, vectors, kwargs)
        await self.store.for_loop().upsert(documents)
        return [document.key for document in documents]

    def _documents(
        self,
        texts: Sequence[str],
        metadatas: Sequence[dict[str, Any]] | None,
        ids: Sequence[str | None] | None,
        vectors: Sequence[Sequence[float]] | None,
        kwargs: Mapping[str, Any],
    ) -> list[stored.Document]:
        for name in kwargs:
            raise TypeError(f"add: expected `metadatas` and `ids`, got {name!r}")
        for name, given in (("metadatas", metadatas), ("ids", ids), ("vectors of the embeddings object", vectors)):
            if given is not None and len(given) != len(texts):
                raise ValueError(f"`{name}`: expected as many as texts, {len(texts)}, got {len(given)}")
        documents = []
        for at, text in enumerate(texts):
            key = (ids[at] if ids else None) or str(uuid.uuid4())
            documents.append(self.store.document(key, text, (metadatas[at] if metadatas else None) or {}, vectors[at] if vectors else None))
        return documents

    def delete(self, ids: list[str] | None = None, *, filter: AnyFilter = None, **kwargs: Any) -> bool:
        """Deletes by ids, or by a filter; with neither everything, as LangChain defines it. Ids that are not there are left alone."""
        matching = self._to_delete(ids, filter, kwargs)
        if ids is not None:
            self.store.delete(ids)
        else:
            self.store.delete_where(matching)
        return True

    async def adelete(self, ids: list[str] | None = None, *, filter: AnyFilter = None, **kwargs: Any) -> bool:
        """As `delete`."""
        matching = self._to_delete(ids, filter, kwargs)
        if ids is not None:
            await self.store.for_loop().delete(ids)
        else:
            await self.store.for_loop().delete_where(matching)
        return True

    def _to_delete(self, ids: list[str] | None, filter: AnyFilter, kwargs: Mapping[str, Any]) -> Filter:
        for name in kwargs:
            raise TypeError(f"delete: expected `ids` or `filter`, got {name!r}")
        if ids is not None and filter is not None:
            raise ValueError("delete: expected `ids` or `filter`, got both")
        if filter is None:
            return everything()
        matching = of_langchain(filter, self.store.named)
        if matching is None:
            raise ValueError("`filter`: expected a condition, got an empty one. Leave it out to delete everything")
        return matching

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids that there are, in their order."""
        return [self._document(one) for one in self.store.read(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        return [self._document(one) for one in await self.store.for_loop().read(ids)]

    # Searches.

    def similarity_search(self, query: str, k: int = 4, filter: AnyFilter = None, **kwargs: Any) -> list[Document]:
        """The best `k` documents."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **kwargs)]

    async def asimilarity_search(self, query: str, k: int = 4, filter: AnyFilter = None, **kwargs: Any) -> list[Document]:
        """As `similarity_search`."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, filter, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: AnyFilter = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The same with their scores in the unit of the mode: larger is better."""
        return self._scored(self.store.search(query, self._vector(query, kwargs), k, of_langchain(filter, self.store.named), kwargs))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: AnyFilter = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score`."""
        vector, matching = await self._avector(query, kwargs), of_langchain(filter, self.store.named)
        return self._scored(await self.store.for_loop().search(query, vector, k, matching, kwargs))

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, filter: AnyFilter = None, **kwargs: Any) -> list[Document]:
        """The documents nearest to a vector."""
        hits = self.store.search("", embedding, k, of_langchain(filter, self.store.named), kwargs)
        return [document for document, _ in self._scored(hits)]

    async def asimilarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: AnyFilter = None, **kwargs: Any
    ) -> list[Document]:
        """As `similarity_search_by_vector`."""
        hits = await self.store.for_loop().search("", embedding, k, of_langchain(filter, self.store.named), kwargs)
        return [document for document, _ in self._scored(hits)]

    def _similarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        check_cosine(self.store.searcher.status())
        arguments = self._with_bounds(kwargs)
        return _relevance(arguments, self.similarity_search_with_score(query, k, **arguments))

    async def _asimilarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        check_cosine(await self.store.for_loop().searcher.status())
        arguments = self._with_bounds(kwargs)
        return _relevance(arguments, await self.asimilarity_search_with_score(query, k, **arguments))

    def _with_bounds(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a search whose scores have bounds: that of cosines, and of the fusion `min-max`."""
        mode = arguments.get("mode") or self.store.mode or "hybrid"
        fusion = arguments.get("fusion") or "min-max"
        if mode == "bm25" or (mode == "hybrid" and fusion != "min-max"):
            given = mode if mode == "bm25" else f"fusion {fusion}"
            raise ValueError(f"`mode`: expected dense, or hybrid by the fusion min-max, whose scores have bounds, for relevance scores, got {given}")
        return {**arguments, "mode": mode, **({"fusion": fusion} if mode == "hybrid" else {})}

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: AnyFilter = None, **kwargs: Any
    ) -> list[Document]:
        """Of the `fetch_k` nearest documents those that are near the question and not near each other, by the index's vectors."""
        vector, matching = self._vector(query, kwargs), of_langchain(filter, self.store.named)
        hits = self.store.diverse(query, vector, k, fetch_k, lambda_mult, matching, kwargs)
        return [document for document, _ in self._scored(hits)]

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: AnyFilter = None, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        vector, matching = await self._avector(query, kwargs), of_langchain(filter, self.store.named)
        hits = await self.store.for_loop().diverse(query, vector, k, fetch_k, lambda_mult, matching, kwargs)
        return [document for document, _ in self._scored(hits)]

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: AnyFilter = None, **kwargs: Any
    ) -> list[Document]:
        """The same for a vector."""
        hits = self.store.diverse("", embedding, k, fetch_k, lambda_mult, of_langchain(filter, self.store.named), kwargs)
        return [document for document, _ in self._scored(hits)]

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, filter: AnyFilter = None, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search_by_vector`."""
        matching = of_langchain(filter, self.store.named)
        hits = await self.store.for_loop().diverse("", embedding, k, fetch_k, lambda_mult, matching, kwargs)
        return [document for document, _ in self._scored(hits)]

    def close(self) -> None:
        """Closes the connections."""
        self.store.close()

    async def aclose(self) -> None:
        """Closes those of the event loop that runs."""
        await self.store.aclose()

    def _vector(self, query: str, arguments: Mapping[str, Any]) -> list[float] | None:
        return self._embeddings.embed_query(query) if self._embeddings and self._needs_vector(arguments) else None

    async def _avector(self, query: str, arguments: Mapping[str, Any]) -> list[float] | None:
        return await self._embeddings.aembed_query(query) if self._embeddings and self._needs_vector(arguments) else None

    def _needs_vector(self, arguments: Mapping[str, Any]) -> bool:
        return (arguments.get("mode") or self.store.mode) != "bm25"

    def _document(self, given: stored.Document) -> Document:
        return Document(id=given.key, page_content=given.text, metadata=self.store.metadata(given))

    def _scored(self, hits: Iterable[Hit]) -> list[tuple[Document, float]]:
        return [(self._document(hit.document), hit.score) for hit in hits if hit.document is not None]


def _relevance(arguments: Mapping[str, Any], found: list[tuple[Document, float]]) -> list[tuple[Document, float]]:
    """Scores from 0 to 1: those of hybrid are, and cosines are from -1."""
    if arguments["mode"] == "hybrid":
        return found
    # Rounding may take a cosine a little beyond 1.
    return [(document, min(max((1 + score) / 2, 0.0), 1.0)) for document, score in found]


class DyadRetriever(BaseRetriever):
    """The best `k` documents of a store for a question. `arguments` are of its searches: `{"mode": "hybrid", "rerank_depth": 20}`.

    `invoke` takes other values of them for one question: `retriever.invoke("what is a comet", k=3, filter={"lang": "en"})`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    store: DyadVectorStore
    k: int = 4
    filter: Any = None
    arguments: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any) -> list[Document]:
        return self.store.similarity_search(query, **self._arguments(kwargs))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return await self.store.asimilarity_search(query, **self._arguments(kwargs))

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"k": self.k, "filter": self.filter, **self.arguments, **given}
