"""LangChain's own tests of vector stores and retrievers, and ours of what they leave out. Run by `integrations.py`."""

import pytest
from dyad_client import DyadError, field
from dyad_client.langchain import DyadRetriever, DyadVectorStore
from integrations_index import ADDRESSES, PLANETS, empty
from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests


@pytest.fixture
def texts():
    """An empty store whose servers embed."""
    with empty("texts"):
        store = DyadVectorStore(ADDRESSES["searcher"], ADDRESSES["texts"], index="texts")
        yield store
        store.close()


class TestVectorStore(VectorStoreIntegrationTests):
    """With LangChain's embeddings object."""

    @pytest.fixture
    def vectorstore(self):
        with empty("six"):
            store = DyadVectorStore(ADDRESSES["searcher"], ADDRESSES["six"], index="six", embeddings=self.get_embeddings())
            yield store
            store.close()


class TestVectorStoreOfServer(VectorStoreIntegrationTests):
    """Without one: the servers embed, and searches are hybrid."""

    @pytest.fixture
    def vectorstore(self, texts):
        return texts


class TestRetriever(RetrieversIntegrationTests):
    """Of a store with five documents."""

    @pytest.fixture(autouse=True)
    def planets(self, texts):
        self.store = texts
        texts.add_texts(PLANETS)

    @property
    def retriever_constructor(self):
        return DyadRetriever

    @property
    def retriever_constructor_params(self):
        return {"store": self.store}

    @property
    def retriever_query_example(self):
        return "Which planet has rings?"


METADATA = [
    {"title": "Comets", "year": 2024, "tags": ["ice", "dust"], "of": {"kind": "body"}, "key": "k1"},
    {"year": 2020, "tags": [], "key": None, "title": ""},
    {"title": "Io", "weight": 0.5, "seen": True, "big": 2**60 + 1},
]


class TestBeyondTheStandard:
    """What LangChain's tests leave out."""

    def test_metadata_come_back_as_they_were(self, texts):
        ids = texts.add_texts(["Ice and dust.", "A year.", "It has volcanoes."], METADATA)
        assert [one.metadata for one in texts.get_by_ids(ids)] == METADATA
        # The title is searched too.
        assert texts.similarity_search("comets", k=1, mode="bm25")[0].id == ids[0]

    def test_what_an_index_does_not_hold_is_refused_by_its_name(self, texts):
        for metadata, named in (({"of": {"tags": {1}}}, "metadata.of.tags"), ({"title": 3}, "`title`"), ({"n": float("nan")}, "metadata.n")):
            with pytest.raises((TypeError, ValueError), match=named):
                texts.add_texts(["Ice."], [metadata])
        with pytest.raises(TypeError, match="colour"):
            texts.add_texts(["Ice."], colour="red")
        with pytest.raises(TypeError, match="max_text_bytes"):
            texts.similarity_search("ice", max_text_bytes=3)
        assert texts.similarity_search("ice") == []

    def test_filters(self, texts):
        texts.add_texts(["one", "two", "three"], METADATA, ids=["a", "b", "c"])
        cases = (
            ({"year": 2020}, "b"),
            ({"year": {"$gte": 2020, "$lt": 2024}}, "b"),
            ({"year": {"$ne": 2020}}, "ac"),
            ({"year": {"$in": [2020, 2024]}}, "ab"),
            ({"year": {"$nin": [2020]}}, "ac"),
            ({"year": {"$in": []}}, ""),
            ({"year": {"$exists": False}}, "c"),
            ({"year": None}, "c"),
            ({"tags": "ice"}, "a"),
            ({"of.kind": "body"}, "a"),
            ({"title": "Io"}, "c"),
            ({"key": "k1"}, "a"),
            ({"seen": True}, "c"),
            ({"big": 2**60 + 1}, "c"),
            ({"big": 2**60 + 2}, ""),
            ({"$or": [{"seen": True}, {"$and": [{"year": 2024}, {"tags": "dust"}]}]}, "ac"),
            ({"$not": {"year": 2024}}, "bc"),
            ({}, "abc"),
            (field("year") > 2020, "a"),
        )
        for given, expected in cases:
            assert "".join(sorted(one.id for one in texts.similarity_search("one", filter=given))) == expected, given
        for wrong in ({"year": {"$like": 1}}, {"$nor": []}, {"year": [2020]}, {"$and": []}, {"year": {}}, {"$not": {}}):
            with pytest.raises(ValueError, match="expected"):
                texts.similarity_search("one", filter=wrong)

    def test_scores_and_relevance(self, texts):
        texts.add_texts(PLANETS)
        for mode in ("hybrid", "dense", "bm25"):
            scores = [score for _, score in texts.similarity_search_with_score("Which one has rings?", mode=mode)]
            assert scores == sorted(scores, reverse=True)
            if mode == "bm25":
                continue
            found = texts.similarity_search_with_relevance_scores("Which one has rings?", mode=mode)
            assert found[0][0].page_content == PLANETS[0]
            assert all(0 <= score <= 1 for _, score in found)
            enough = texts.similarity_search_with_relevance_scores("Which one has rings?", mode=mode, score_threshold=found[1][1])
            assert len(enough) == 2
        for wrong in ({"mode": "bm25"}, {"fusion": "log-odds"}):
            with pytest.raises(ValueError, match="bounds"):
                texts.similarity_search_with_relevance_scores("rings", **wrong)

    async def test_maximal_marginal_relevance(self, texts):
        copies = ["Saturn has rings of ice.", "Saturn has rings of ice!", "Saturn has rings made of ice."]
        await texts.aadd_texts([*copies, *PLANETS[1:]])
        plain = texts.similarity_search("Which planet has rings of ice?", k=2, mode="dense")
        assert {one.page_content for one in plain} <= set(copies)
        diverse = texts.max_marginal_relevance_search("Which planet has rings of ice?", k=2, fetch_k=7, lambda_mult=0.3)
        assert diverse[0] == plain[0]
        assert diverse[1].page_content in PLANETS[1:]
        assert await texts.amax_marginal_relevance_search("Which planet has rings of ice?", k=2, fetch_k=7, lambda_mult=0.3) == diverse
        alike = texts.max_marginal_relevance_search("Which planet has rings of ice?", k=2, fetch_k=7, lambda_mult=1)
        assert alike == plain
        retriever = texts.as_retriever(search_type="mmr", search_kwargs={"k": 2, "fetch_k": 7, "lambda_mult": 0.3})
        assert await retriever.ainvoke("Which planet has rings of ice?") == diverse
        await texts.aclose()

    async def test_vectors_of_the_embeddings_object(self):
        embeddings = VectorStoreIntegrationTests.get_embeddings()
        options = {"searcher": ADDRESSES["searcher"], "indexer": ADDRESSES["six"], "index": "six"}
        with empty("six"):
            store = DyadVectorStore.from_texts(PLANETS, embeddings, ids=list("abcde"), **options)
            vector = embeddings.embed_query(PLANETS[3])
            (found,) = store.similarity_search_by_vector(vector, k=1)
            assert (found.id, found.page_content) == ("d", PLANETS[3])
            assert await store.asimilarity_search_by_vector(vector, k=1) == [found]
            (scored,) = store.similarity_search_with_score(PLANETS[3], k=1, mode="dense")
            assert scored[1] == pytest.approx(1, abs=1e-3)
            for found_two in (
                store.max_marginal_relevance_search_by_vector(vector, k=2),
                await store.amax_marginal_relevance_search_by_vector(vector, k=2),
            ):
                assert found_two[0] == found
            other = await DyadVectorStore.afrom_texts(["Pluto is far away."], embeddings, ids=["f"], **options)
            assert [one.id for one in await other.aget_by_ids(["f", "a", "zzz"])] == ["f", "a"]
            wrong = DyadVectorStore(ADDRESSES["searcher"], ADDRESSES["six"], index="six", embeddings=embeddings, fingerprint="0" * 64)
            with pytest.raises(DyadError, match="fingerprint"):
                wrong.add_texts(["Pluto"])

    async def test_deletes(self, texts):
        texts.add_texts(PLANETS, [{"n": at} for at in range(5)], ids=list("abcde"))
        texts.delete(filter={"n": {"$lt": 2}})
        await texts.adelete(["c", "zzz"])
        assert [one.id for one in texts.get_by_ids(list("abcde"))] == ["d", "e"]
        for wrong in ({"ids": ["d"], "filter": {"n": 3}}, {"filter": {}}):
            with pytest.raises(ValueError, match="expected"):
                texts.delete(**wrong)
        texts.delete([])
        assert len(texts.get_by_ids(["d", "e"])) == 2
        texts.delete()
        assert texts.get_by_ids(["d", "e"]) == []

    def test_many_documents(self, texts):
        ids = texts.add_documents([Document(page_content=f"Number {at}") for at in range(300)])
        assert [one.page_content for one in texts.get_by_ids(ids)] == [f"Number {at}" for at in range(300)]

    def test_a_store_that_only_reads(self):
        reading = DyadVectorStore(ADDRESSES["searcher"], index="texts")
        with pytest.raises(ValueError, match="`indexer`"):
            reading.add_texts(["Ice."])
        with pytest.raises(TypeError, match="colour"):
            DyadVectorStore(ADDRESSES["searcher"], colour="red")
        with pytest.raises(ValueError, match="`mode`"):
            DyadVectorStore(ADDRESSES["searcher"], mode="compare")

    def test_a_retriever_with_arguments(self, texts):
        texts.add_texts(PLANETS, [{"n": at} for at in range(5)])
        retriever = DyadRetriever(store=texts, k=2, filter={"n": {"$gte": 1}}, arguments={"mode": "dense", "exact": True})
        found = retriever.invoke("Which planet has rings?")
        assert len(found) == 2 and all(one.metadata["n"] >= 1 for one in found)
        assert retriever.invoke("Which planet has rings?", filter=None, k=1)[0].page_content == PLANETS[0]
