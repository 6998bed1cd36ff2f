"""LlamaIndex: `DyadVectorStore` and `DyadRetriever`, over an index that a searcher serves and `dyad-indexer serve` changes.

Nodes that have embeddings are stored with them, and others are embedded by the server. `VectorStoreIndex.from_vector_store` embeds nodes
and questions by its embed model; `DyadRetriever` needs none: the server embeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise ImportError(
        f"dyad_client.llama_index: expected llama-index-core, got {error}. Install the extra: pip install 'dyad-client[llama-index]'"
    ) from error

from .document import Document
from .filters import Filter, all_of, field
from .replies import Hit
from .store import Store, StoreOptions
from .store_filters import everything, nothing, of_llama_index

#: What LlamaIndex stores next to a node's own metadata.
_OF_NODES = ("_node_content", "_node_type", "ref_doc_id")
#: Modes of LlamaIndex and of the searcher; `default` is that of the store.
_MODES = {
    VectorStoreQueryMode.DEFAULT: None,
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.TEXT_SEARCH: "bm25",
    VectorStoreQueryMode.SPARSE: "bm25",
    VectorStoreQueryMode.MMR: "dense",
}


class DyadVectorStore(BasePydanticVectorStore):
    """A vector store of LlamaIndex. `indexer` is needed where the index is to be changed.

    A question is searched by its vector and by its text (hybrid), by one of them where there is one, or as `mode` says; where it has no
    vector, the server embeds it. Queries take the arguments of `dyad_client.Request` besides, such as `rerank_depth=20`."""

    stores_text: bool = True
    flat_metadata: bool = False
    _store: Store = PrivateAttr()

    def __init__(self, searcher: str = "127.0.0.1:7700", indexer: str | None = None, **options: Unpack[StoreOptions]) -> None:
        super().__init__(stores_text=True)
        self._store = Store(searcher, indexer, **options)

    @classmethod
    def class_name(cls) -> str:
        """Of LlamaIndex's serialization."""
        return "DyadVectorStore"

    @property
    def client(self) -> Any:
        """The searcher's client."""
        return self._store.searcher

    # Changes.

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Adds nodes and replaces those whose ids are there; gives the ids."""
        documents = self._documents(nodes, kwargs)
        self._store.upsert(documents)
        return [document.key for document in documents]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        documents = self._documents(nodes, kwargs)
        await self._store.for_loop().upsert(documents)
        return [document.key for document in documents]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Deletes the nodes of a document."""
        _refuse("delete", delete_kwargs)
        self._store.delete_where(field("ref_doc_id") == ref_doc_id)

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        _refuse("delete", delete_kwargs)
        await self._store.for_loop().delete_where(field("ref_doc_id") == ref_doc_id)

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any) -> None:
        """Deletes nodes by ids, by filters, or those that have both."""
        _refuse("delete_nodes", delete_kwargs)
        if (matching := self._matching(node_ids, filters)) is not None:
            self._store.delete_where(matching)

    async def adelete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any) -> None:
        """As `delete_nodes`."""
        _refuse("delete_nodes", delete_kwargs)
        if (matching := self._matching(node_ids, filters)) is not None:
            await self._store.for_loop().delete_where(matching)

    def clear(self) -> None:
        """Deletes all nodes."""
        self._store.delete_where(everything())

    async def aclear(self) -> None:
        """As `clear`."""
        await self._store.for_loop().delete_where(everything())

    # Reads.

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes with these ids, or that match, in the order of their ids; with neither all."""
        return [self._node(document) for document in self._store.searcher.scroll(filter=self._matching(node_ids, filters))]

    async def aget_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """As `get_nodes`."""
        found = self._store.for_loop().searcher.scroll(filter=self._matching(node_ids, filters))
        return [self._node(document) async for document in found]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nodes that answer a question best, with the scores of the mode: larger is better."""
        matching, arguments = self._filter_of(query), self._arguments_of(query, kwargs)
        text, vector, k = query.query_str or "", query.query_embedding, _hits_of(query)
        if query.mode != VectorStoreQueryMode.MMR:
            return self._result(self._store.search(text, vector, k, matching, arguments))
        weight, fetch_k = _diversity_of(query, arguments)
        return self._result(self._store.diverse(text, vector, k, fetch_k, weight, matching, arguments))

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        matching, arguments = self._filter_of(query), self._arguments_of(query, kwargs)
        text, vector, k = query.query_str or "", query.query_embedding, _hits_of(query)
        store = self._store.for_loop()
        if query.mode != VectorStoreQueryMode.MMR:
            return self._result(await store.search(text, vector, k, matching, arguments))
        weight, fetch_k = _diversity_of(query, arguments)
        return self._result(await store.diverse(text, vector, k, fetch_k, weight, matching, arguments))

    def close(self) -> None:
        """Closes the connections."""
        self._store.close()

    async def aclose(self) -> None:
        """Closes those of the event loop that runs."""
        await self._store.aclose()

    def _arguments_of(self, query: VectorStoreQuery, given: Mapping[str, Any]) -> dict[str, Any]:
        if query.mode not in _MODES:
            expected = ", ".join(mode.value for mode in _MODES)
            raise ValueError(f"`mode`: expected one of {expected}, got {query.mode.value}")
        for name in ("output_fields", "embedding_field"):
            if getattr(query, name) is not None:
                raise ValueError(f"`{name}`: expected None, since nodes are read whole, and an index has one vector of each, got {getattr(query, name)!r:.80}")
        arguments = {"mode": _MODES[query.mode], **given}
        if query.alpha is not None and (arguments["mode"] or self._store.mode or "hybrid") == "hybrid":
            arguments["dense_weight"] = query.alpha
        return arguments

    def _filter_of(self, query: VectorStoreQuery) -> Filter | None:
        # `VectorStoreIndex` gives an empty list of ids where all nodes are meant.
        of_documents = _one_of("ref_doc_id", query.doc_ids) if query.doc_ids else None
        return _all((self._matching(query.node_ids or None, query.filters), of_documents))

    def _matching(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> Filter | None:
        with_ids = None if node_ids is None else _one_of("key", node_ids)
        return _all((of_llama_index(filters, self._store.named), with_ids))

    def _documents(self, nodes: Iterable[BaseNode], given: Mapping[str, Any]) -> list[Document]:
        _refuse("add", given)
        return [self._document(node) for node in nodes]

    def _document(self, node: BaseNode) -> Document:
        for name in _OF_NODES:
            if name in node.metadata:
                raise ValueError(f"node {node.node_id!r:.80}: metadata: expected other names than {', '.join(_OF_NODES)}, which are LlamaIndex's, got {name!r}")
        text = node.get_content(MetadataMode.NONE)
        of_node = node_to_metadata_dict(node, remove_text=True, flat_metadata=self.flat_metadata)
        # The node's own metadata are stored once, next to what LlamaIndex adds.
        content = {**json.loads(of_node["_node_content"]), "metadata": {}}
        metadata = {**node.metadata, "_node_content": json.dumps(content, ensure_ascii=False), "_node_type": of_node["_node_type"]}
        if node.ref_doc_id is not None:
            metadata["ref_doc_id"] = node.ref_doc_id
        vector: list[float] | None = node.embedding
        return self._store.document(node.node_id, text, metadata, vector)

    def _node(self, document: Document) -> BaseNode:
        metadata = self._store.metadata(document)
        own = {name: value for name, value in metadata.items() if name not in _OF_NODES}
        if "_node_content" not in metadata:
            # Of another program: its metadata are all its own.
            return TextNode(id_=document.key, text=document.text, metadata=metadata)
        node = metadata_dict_to_node(metadata, text=document.text)
        node.metadata = own
        return node

    def _result(self, hits: Sequence[Hit]) -> VectorStoreQueryResult:
        return VectorStoreQueryResult(
            nodes=[self._node(hit.document) for hit in hits if hit.document is not None],
            similarities=[hit.score for hit in hits],
            ids=[hit.key for hit in hits],
        )


def _one_of(name: str, values: Sequence[str]) -> Filter:
    """Of an empty list no node."""
    return field(name).one_of(values) if values else nothing(field(name))


def _all(filters: Iterable[Filter | None]) -> Filter | None:
    given = [one for one in filters if one is not None]
    return all_of(given) if given else None


def _refuse(call: str, given: Mapping[str, Any]) -> None:
    for name in given:
        raise TypeError(f"{call}: expected no arguments besides those of LlamaIndex, got {name!r}")


def _hits_of(query: VectorStoreQuery) -> int:
    hits = query.hybrid_top_k if query.mode == VectorStoreQueryMode.HYBRID else None
    hits = query.sparse_top_k if query.mode in (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH) else hits
    return int(hits or query.similarity_top_k)


def _diversity_of(query: VectorStoreQuery, arguments: dict[str, Any]) -> tuple[float, int]:
    """The weight of the relevance, and how many candidates there are, as LlamaIndex's retrievers give them."""
    given = arguments.pop("mmr_threshold", query.mmr_threshold)
    weight = 0.5 if given is None else float(given)
    most = arguments.pop("mmr_prefetch_k", None)
    factor = arguments.pop("mmr_prefetch_factor", None)
    if most is not None and factor is not None:
        raise ValueError("`mmr_prefetch_factor`: expected it or `mmr_prefetch_k`, got both")
    return weight, int(most or query.similarity_top_k * (factor or 4.0))


class DyadRetriever(BaseRetriever):
    """The best nodes of a store for a question, which the server embeds: no embed model is needed. `arguments` are of its searches."""

    def __init__(
        self, store: DyadVectorStore, *, similarity_top_k: int = 10, filters: MetadataFilters | None = None, **arguments: Any
    ) -> None:
        super().__init__()
        self._vector_store, self._top_k, self._filters, self._arguments = store, similarity_top_k, filters, arguments

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _scored(self._vector_store.query(self._query(query_bundle), **self._arguments))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _scored(await self._vector_store.aquery(self._query(query_bundle), **self._arguments))

    def _query(self, bundle: QueryBundle) -> VectorStoreQuery:
        return VectorStoreQuery(
            query_str=bundle.query_str, query_embedding=bundle.embedding, similarity_top_k=self._top_k, filters=self._filters
        )


def _scored(result: VectorStoreQueryResult) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=score) for node, score in zip(result.nodes or [], result.similarities or [], strict=True)]
