"""The retrievers of Haystack's `DyadDocumentStore`: by text and vector (hybrid), by an embedding, and by BM25.

`arguments` are of `dyad_client.Request`: `{"rerank_depth": 20}`.
"""

from __future__ import annotations

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy, apply_filter_policy

from .haystack_store import DyadDocumentStore


class Retriever:
    """What all of them have."""

    def __init__(
        self,
        document_store: DyadDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(document_store, DyadDocumentStore):
            raise TypeError(f"`document_store`: expected a DyadDocumentStore, got {type(document_store).__name__}")
        self.document_store, self.filters, self.top_k = document_store, filters, top_k
        self.filter_policy, self.arguments = filter_policy, arguments or {}

    def to_dict(self) -> dict[str, Any]:
        """The component's arguments, for a pipeline that is written down."""
        written: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            filter_policy=self.filter_policy.value,
            arguments=self.arguments,
        )
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The component of `to_dict`."""
        parameters = data["init_parameters"]
        if isinstance(parameters["document_store"], dict):
            parameters["document_store"] = DyadDocumentStore.from_dict(parameters["document_store"])
        parameters["filter_policy"] = FilterPolicy.from_str(parameters["filter_policy"])
        made: Self = default_from_dict(cls, data)
        return made

    def _search(
        self, text: str, vector: list[float] | None, mode: str | None, filters: dict[str, Any] | None, top_k: int | None
    ) -> dict[str, list[Document]]:
        return self.document_store.retrieved(text, vector, *self._with_own(mode, filters, top_k))

    async def _search_async(
        self, text: str, vector: list[float] | None, mode: str | None, filters: dict[str, Any] | None, top_k: int | None
    ) -> dict[str, list[Document]]:
        return await self.document_store.retrieved_async(text, vector, *self._with_own(mode, filters, top_k))

    def _with_own(
        self, mode: str | None, filters: dict[str, Any] | None, top_k: int | None
    ) -> tuple[int, dict[str, Any] | None, dict[str, Any]]:
        matching = apply_filter_policy(self.filter_policy, self.filters, filters)
        return (self.top_k if top_k is None else top_k), matching, {"mode": mode, **self.arguments}


@component
class DyadHybridRetriever(Retriever):
    """The best documents for a question, by vectors and by BM25; the server embeds it where no embedding is given. Another `mode` of the store,
    or of `arguments`, counts."""

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Searches by one question."""
        return self._search(query, query_embedding, None, filters, top_k)

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        query_embedding: list[float] | None = None,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """As `run`."""
        return await self._search_async(query, query_embedding, None, filters, top_k)


@component
class DyadEmbeddingRetriever(Retriever):
    """The documents nearest to an embedding."""

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Searches by one embedding."""
        return self._search("", query_embedding, "dense", filters, top_k)

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """As `run`."""
        return await self._search_async("", query_embedding, "dense", filters, top_k)


@component
class DyadBM25Retriever(Retriever):
    """The best documents by BM25: no model is asked."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        """Searches by one question."""
        return self._search(query, None, "bm25", filters, top_k)

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, list[Document]]:
        """As `run`."""
        return await self._search_async(query, None, "bm25", filters, top_k)
