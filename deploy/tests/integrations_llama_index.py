"""LlamaIndex ships no tests of vector stores: these use a store as its indexes and retrievers do. Run by `integrations.py`."""

import hashlib
import math

import pytest
from dyad_client import Document, Index
from dyad_client.llama_index import DyadRetriever, DyadVectorStore
from integrations_index import ADDRESSES, PLANETS, empty
from llama_index.core import Document as LlamaDocument
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

QUESTION = "Which planet has rings?"


class OfWords(MockEmbedding):
    """Texts with the same words have the same vector, and others another one."""

    def _get_vector(self):
        raise NotImplementedError

    def _of(self, text):
        digest = hashlib.sha256(text.encode()).digest()
        values = [byte / 255 - 0.5 for byte in digest[: self.embed_dim]]
        return [value / math.hypot(*values) for value in values]

    def _get_query_embedding(self, query):
        return self._of(query)

    def _get_text_embedding(self, text):
        return self._of(text)

    async def _aget_query_embedding(self, query):
        return self._of(query)

    async def _aget_text_embedding(self, text):
        return self._of(text)


@pytest.fixture
def texts():
    """An empty store whose server embeds."""
    with empty("texts"):
        store = DyadVectorStore(ADDRESSES["searcher"], ADDRESSES["texts"], index="texts")
        yield store
        store.close()


@pytest.fixture
def six():
    """An empty store of vectors that an embed model makes."""
    with empty("six"):
        store = DyadVectorStore(ADDRESSES["searcher"], ADDRESSES["six"], index="six")
        yield store
        store.close()


def nodes(metadata=None):
    """One node for each planet, of two documents."""
    made = []
    for at, text in enumerate(PLANETS):
        relation = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"d{at % 2}")}
        node = TextNode(id_=f"n{at}", text=text, metadata={"n": at, **(metadata or {})}, relationships=relation)
        # The embed model reads the text alone.
        node.excluded_embed_metadata_keys = ["n"]
        made.append(node)
    return made


def filters(*some, condition=FilterCondition.AND):
    """Filters of a key, an operator and a value each."""
    listed = [one if isinstance(one, MetadataFilters) else MetadataFilter(key=one[0], operator=one[1], value=one[2]) for one in some]
    return MetadataFilters(filters=listed, condition=condition)


class TestIndex:
    """Through `VectorStoreIndex`, whose embed model makes all vectors."""

    def test_an_index_of_documents(self, six):
        documents = [
            LlamaDocument(text=text, doc_id=f"d{at}", metadata={"n": at}, excluded_embed_metadata_keys=["n"]) for at, text in enumerate(PLANETS)
        ]
        context = StorageContext.from_defaults(vector_store=six)
        VectorStoreIndex.from_documents(
            documents, storage_context=context, embed_model=OfWords(embed_dim=6), transformations=[SentenceSplitter()]
        )
        index = VectorStoreIndex.from_vector_store(six, embed_model=OfWords(embed_dim=6))
        (found,) = index.as_retriever(similarity_top_k=1, vector_store_kwargs={"mode": "dense"}).retrieve(PLANETS[2])
        assert found.score == pytest.approx(1, abs=1e-3)
        assert (found.node.get_content(), found.node.metadata, found.node.ref_doc_id) == (PLANETS[2], {"n": 2}, "d2")
        index.insert(LlamaDocument(text="Pluto is far away.", doc_id="d9"))
        assert len(six.get_nodes()) == 6
        index.delete_ref_doc("d2")
        assert {node.ref_doc_id for node in six.get_nodes()} == {"d0", "d1", "d3", "d4", "d9"}
        assert index.as_retriever(similarity_top_k=1).retrieve(PLANETS[2])[0].node.ref_doc_id != "d2"

    async def test_modes(self, six):
        index = VectorStoreIndex(nodes(), storage_context=StorageContext.from_defaults(vector_store=six), embed_model=OfWords(embed_dim=6))
        for mode in ("default", "hybrid", "text_search", "sparse", "mmr"):
            retriever = index.as_retriever(similarity_top_k=2, vector_store_query_mode=mode)
            found = retriever.retrieve(PLANETS[3])
            assert found[0].node_id == "n3", mode
            assert [one.node_id for one in await retriever.aretrieve(PLANETS[3])] == [one.node_id for one in found]
        # All the weight on BM25, and all on the vectors.
        by_words = index.as_retriever(similarity_top_k=1, vector_store_query_mode="hybrid", alpha=0.0).retrieve("rings")
        assert by_words[0].node_id == "n0"
        for mode in ("svm", "semantic_hybrid"):
            with pytest.raises(ValueError, match=mode):
                index.as_retriever(vector_store_query_mode=mode).retrieve("rings")
        await six.aclose()


class TestStore:
    """Without an embed model: the server embeds."""

    async def test_a_retriever_without_an_embed_model(self, texts):
        assert texts.add(nodes()) == ["n0", "n1", "n2", "n3", "n4"]
        retriever = DyadRetriever(texts, similarity_top_k=2, filters=filters(("n", FilterOperator.LT, 4)), exact=True)
        found = retriever.retrieve(QUESTION)
        assert found[0].node_id == "n0" and len(found) == 2 and found[0].score > found[1].score
        assert [one.node_id for one in await retriever.aretrieve(QUESTION)] == [one.node_id for one in found]
        with pytest.raises(TypeError, match="max_text_bytes"):
            DyadRetriever(texts, max_text_bytes=3).retrieve(QUESTION)
        await texts.aclose()

    def test_nodes_come_back_as_they_were(self, texts):
        metadata = {"title": "Planets", "doc_id": "own", "document_id": 7, "of": {"kind": "body"}, "tags": ["a"], "none": None, "key": "k"}
        given = nodes(metadata)
        texts.add(given)
        assert [node.to_dict() for node in texts.get_nodes()] == [node.to_dict() for node in given]
        for name in ("_node_content", "ref_doc_id"):
            with pytest.raises(ValueError, match=name):
                texts.add(nodes({name: "x"}))
        with pytest.raises(TypeError, match="metadata.bad"):
            texts.add([TextNode(text="a", metadata={"bad": {1}})])

    def test_long_metadata_and_documents_of_others(self, texts):
        long = "x" * 100_000
        texts.add([TextNode(id_="a", text="Long.", metadata={"long": long})])
        with Index(ADDRESSES["texts"]) as index:
            index.upsert(Document("b", "Of another program.", title="Other", metadata={"n": 1}), wait="searchable")
        found = texts.get_nodes()
        assert found[0].metadata == {"long": long}
        assert (found[1].node_id, found[1].get_content(), found[1].metadata) == ("b", "Of another program.", {"title": "Other", "n": 1})

    def test_filters(self, texts):
        texts.add([TextNode(id_=f"n{at}", text=text, metadata={"n": at, "tags": ["x", "y"][:at]} if at else {}) for at, text in enumerate(PLANETS)])
        of = FilterOperator
        cases = (
            (filters(("n", of.EQ, 2)), "2"),
            (filters(("n", of.NE, 2)), "0134"),
            (filters(("n", of.GT, 2)), "34"),
            (filters(("n", of.GTE, 2)), "234"),
            (filters(("n", of.LT, 2)), "1"),
            (filters(("n", of.LTE, 2)), "12"),
            (filters(("n", of.IN, [1, 4])), "14"),
            (filters(("n", of.NIN, [1, 4])), "023"),
            (filters(("tags", of.CONTAINS, "y")), "234"),
            (filters(("tags", of.ANY, ["x", "z"])), "1234"),
            (filters(("tags", of.ALL, ["x", "y"])), "234"),
            (filters(("n", of.IS_EMPTY, None)), "0"),
            (filters(("n", of.EQ, 1), ("n", of.EQ, 3), condition=FilterCondition.OR), "13"),
            (filters(("n", of.EQ, 1), ("n", of.EQ, 3), condition=FilterCondition.NOT), "024"),
            (filters(filters(("n", of.GT, 1)), filters(("n", of.LT, 3))), "2"),
        )
        for given, expected in cases:
            query = VectorStoreQuery(query_str=QUESTION, similarity_top_k=5, filters=given)
            assert "".join(sorted(key[1:] for key in texts.query(query).ids)) == expected, given
            assert "".join(node.node_id[1:] for node in texts.get_nodes(filters=given)) == expected, given
        for wrong in (("n", of.TEXT_MATCH, "a"), ("n", of.EQ, [1]), ("n", of.ALL, [])):
            with pytest.raises(ValueError, match="`n`"):
                texts.query(VectorStoreQuery(query_str=QUESTION, filters=filters(wrong)))
        with pytest.raises(ValueError, match="`output_fields`"):
            texts.query(VectorStoreQuery(query_str=QUESTION, output_fields=["text"]))

    async def test_ids_and_deletes(self, texts):
        await texts.async_add(nodes())
        for query, expected in (
            (VectorStoreQuery(query_str=QUESTION, similarity_top_k=5, node_ids=["n1", "n2"]), {"n1", "n2"}),
            (VectorStoreQuery(query_str=QUESTION, similarity_top_k=5, doc_ids=["d1"]), {"n1", "n3"}),
        ):
            assert set(texts.query(query).ids) == expected
            assert set((await texts.aquery(query)).ids) == expected
        texts.delete_nodes([], filters(("n", FilterOperator.GTE, 0)))
        texts.delete_nodes()
        assert len(texts.get_nodes()) == 5
        texts.delete_nodes(["n1", "zzz"])
        await texts.adelete_nodes(filters=filters(("n", FilterOperator.EQ, 2)))
        assert [node.node_id for node in await texts.aget_nodes()] == ["n0", "n3", "n4"]
        assert [node.node_id for node in await texts.aget_nodes(["n3", "n1"])] == ["n3"]
        assert texts.get_nodes([]) == []
        await texts.adelete("d1")
        texts.delete("d7")
        assert [node.node_id for node in texts.get_nodes()] == ["n0", "n4"]
        texts.clear()
        assert texts.get_nodes() == []
        await texts.async_add(nodes())
        await texts.aclear()
        assert await texts.aget_nodes() == []
        await texts.aclose()

    def test_maximal_marginal_relevance(self, texts):
        copies = ["Saturn has rings of ice.", "Saturn has rings of ice!", "Saturn has rings made of ice."]
        texts.add([TextNode(text=text) for text in [*copies, *PLANETS[1:]]])
        query = VectorStoreQuery(query_str=QUESTION, similarity_top_k=2, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.3)
        first, second = (node.get_content() for node in texts.query(query).nodes)
        assert first in copies and second in PLANETS[1:]
        alike = texts.query(query, mmr_threshold=1.0, mmr_prefetch_k=7).nodes
        assert {node.get_content() for node in alike} <= set(copies)
