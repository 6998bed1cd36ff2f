"""Haystack's own tests of document stores, and ours of the retrievers. Run by `integrations.py`."""

import math

import pytest
from dyad_client.haystack import DyadBM25Retriever, DyadDocumentStore, DyadEmbeddingRetriever, DyadHybridRetriever
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing import document_store as own
from haystack.testing import document_store_async as own_async
from haystack.utils import Secret
from integrations_index import ADDRESSES, PLANETS, empty


@pytest.fixture
def store():
    """An empty store, whose server embeds documents that have no embedding."""
    with empty("wide"):
        made = DyadDocumentStore(ADDRESSES["searcher"], ADDRESSES["wide"], index="wide", return_embedding=True)
        yield made
        made.close()


def assert_same(received, expected):
    """An index gives documents in the order of their ids, with vectors of unit length in half precision, and those of all documents."""
    received, expected = (sorted(some, key=lambda one: one.id) for some in (received, expected))
    bare = lambda some: [one.to_dict(flatten=False) | {"embedding": None} for one in some]  # noqa: E731
    assert bare(received) == bare(expected)
    for one, other in zip(received, expected, strict=True):
        if other.embedding:
            length = math.hypot(*other.embedding)
            assert one.embedding == pytest.approx([value / length for value in other.embedding], abs=1e-4)


class TestDocumentStore(own.DocumentStoreBaseExtendedTests, own.CountDocumentsByFilterTest):
    """Haystack's tests."""

    assert_documents_are_equal = staticmethod(assert_same)

    @pytest.fixture
    def document_store(self, store):
        return store

    def test_write_documents(self, document_store):
        """Haystack leaves it to each store what happens without a policy: a document that is there is an error."""
        documents = [Document(id="1", content="first"), Document(id="2", content="second")]
        assert document_store.write_documents(documents) == 2
        with pytest.raises(DuplicateDocumentError, match="OVERWRITE"):
            document_store.write_documents([Document(id="3", content="third"), documents[0]])
        assert_same(document_store.filter_documents(), documents)


class TestDocumentStoreAsync(
    own_async.CountDocumentsAsyncTest,
    own_async.CountDocumentsByFilterAsyncTest,
    own_async.DeleteAllAsyncTest,
    own_async.DeleteByFilterAsyncTest,
    own_async.DeleteDocumentsAsyncTest,
    own_async.FilterDocumentsAsyncTest,
    own_async.UpdateByFilterAsyncTest,
    own_async.WriteDocumentsAsyncTest,
):
    """The same for asyncio."""

    assert_documents_are_equal = staticmethod(assert_same)

    @pytest.fixture
    def document_store(self, store):
        return store

    @pytest.fixture
    def filterable_docs(self):
        return own.create_filterable_docs()

    async def test_write_documents_async(self, document_store):
        """As `test_write_documents`."""
        documents = [Document(id="1", content="first"), Document(id="2", content="second")]
        assert await document_store.write_documents_async(documents) == 2
        with pytest.raises(DuplicateDocumentError, match="OVERWRITE"):
            await document_store.write_documents_async([Document(id="3", content="third"), documents[0]])
        assert_same(await document_store.filter_documents_async(), documents)


class TestBeyondTheStandard:
    """What Haystack's tests leave out."""

    def test_what_an_index_does_not_hold_is_refused_by_its_name(self, store):
        for wrong, named in (
            (Document(content=None, id="1"), "`content`"),
            (Document(content="a", blob=ByteStream(b"a")), "`blob`"),
            (Document(content="a", sparse_embedding=SparseEmbedding([1], [1.0])), "`sparse_embedding`"),
            (Document(content="a", id="1", meta={"of": {"tags": {1}}}), "metadata.of.tags"),
        ):
            with pytest.raises((TypeError, ValueError), match=named):
                store.write_documents([wrong])
        assert store.count_documents() == 0
        for field in ("content", "embedding"):
            with pytest.raises(FilterError, match=field):
                store.filter_documents({"field": field, "operator": "==", "value": "a"})
        with pytest.raises(FilterError, match="like"):
            store.filter_documents({"field": "meta.a", "operator": "like", "value": "a"})
        with pytest.raises(FilterError, match="empty"):
            store.delete_by_filter({})

    def test_metadata_come_back_as_they_were(self, store):
        documents = [
            Document(id="1", content="Ice and dust.", meta={"title": "Comets", "tags": ["ice"], "of": {"n": 2**60 + 1}, "key": "k", "none": None}),
            Document(id="2", content="Volcanoes.", meta={"title": "", "x": 0.5}),
        ]
        store.write_documents(documents)
        assert_same(store.filter_documents(), documents)
        for field, value, expected in (("meta.title", "Comets", "1"), ("meta.key", "k", "1"), ("id", "2", "2"), ("meta.of.n", 2**60 + 1, "1"), ("x", 0.5, "2")):
            (found,) = store.filter_documents({"field": field, "operator": "==", "value": value})
            assert found.id == expected

    async def test_duplicates_in_one_call(self, store):
        twice = [Document(id="1", content="first"), Document(id="1", content="second")]
        with pytest.raises(DuplicateDocumentError, match="again"):
            store.write_documents(twice)
        assert store.write_documents(twice, DuplicatePolicy.SKIP) == 1
        assert store.filter_documents()[0].content == "first"
        assert await store.write_documents_async(twice, DuplicatePolicy.SKIP) == 0
        assert store.write_documents(twice, DuplicatePolicy.OVERWRITE) == 1
        assert store.filter_documents()[0].content == "second"

    @pytest.mark.parametrize("is_async", (False, True))
    async def test_documents_that_others_add_meanwhile_are_left_out_and_not_counted(self, store, monkeypatch, is_async):
        # More than one change holds; the last of them meets what somebody else has added since the store has looked.
        many = [Document(id=f"{at:03}", content="mine", embedding=[1.0, *[0.0] * 767]) for at in range(300)]
        store.write_documents([Document(id="299", content="theirs", embedding=many[0].embedding)])
        looked, read = [], store.store.read

        def too_early(keys):
            looked.append(len(keys))
            return [] if len(looked) == 1 else read(keys)

        async def too_early_async(keys):
            return too_early(keys)

        if is_async:
            monkeypatch.setattr(store.store.for_loop(), "read", too_early_async)
            assert await store.write_documents_async(many, DuplicatePolicy.SKIP) == 299
            await store.aclose()
        else:
            monkeypatch.setattr(store.store, "read", too_early)
            assert store.write_documents(many, DuplicatePolicy.SKIP) == 299
        assert looked == [300, 300]
        contents = [one.content for one in store.filter_documents()]
        assert (len(contents), contents.count("theirs")) == (300, 1)

    async def test_retrievers(self, store):
        store.write_documents([Document(id=str(at), content=text, meta={"n": at}) for at, text in enumerate(PLANETS)])
        question, later = "Which planet has rings?", {"field": "meta.n", "operator": ">=", "value": 1}
        vector = store.filter_documents({"field": "id", "operator": "==", "value": "3"})[0].embedding
        for retriever, given, first in (
            (DyadHybridRetriever(store, top_k=3), {"query": question}, "0"),
            (DyadHybridRetriever(store, top_k=3, arguments={"dense_weight": 1.0}), {"query": question, "query_embedding": vector}, "3"),
            (DyadEmbeddingRetriever(store, top_k=3), {"query_embedding": vector}, "3"),
            (DyadBM25Retriever(store, top_k=3), {"query": "rings"}, "0"),
        ):
            found = retriever.run(**given)["documents"]
            assert found[0].id == first and found[0].meta == {"n": int(first)}
            scores = [one.score for one in found]
            assert scores == sorted(scores, reverse=True) and 1 <= len(scores) <= 3
            assert (await retriever.run_async(**given))["documents"] == found
            assert len(retriever.run(**given, top_k=1)["documents"]) == 1
            assert all(one.meta["n"] >= 1 for one in retriever.run(**given, filters=later)["documents"])

    def test_a_pipeline_that_is_written_down(self, store, monkeypatch):
        monkeypatch.setenv("DYAD_KEY", "secret-of-this-test")
        written = DyadDocumentStore(store.store.searcher_target, index="wide", api_key=Secret.from_env_var("DYAD_KEY"))
        store.write_documents([Document(content=text) for text in PLANETS])
        pipeline = Pipeline()
        retriever = DyadHybridRetriever(written, top_k=2, filters={"field": "id", "operator": "!=", "value": "x"}, arguments={"exact": True})
        pipeline.add_component("retriever", retriever)
        assert "secret-of-this-test" not in pipeline.dumps()
        found = Pipeline.loads(pipeline.dumps(), allowed_modules=["dyad_client"]).run({"retriever": {"query": "Which planet has rings?"}})
        assert [one.content for one in found["retriever"]["documents"]][:1] == PLANETS[:1]
        assert len(found["retriever"]["documents"]) == 2
