"""Haystack's own tests of document stores, and ours of the retrievers. Run by `integrations.py`."""

import math

import pytest
from dyad_client.haystack import DyadDocumentStore
from dyad_client.haystack_retrievers import DyadBM25Retriever, DyadEmbeddingRetriever, DyadHybridRetriever
from haystack import Document, Pipeline
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing import document_store as own
from haystack.testing import document_store_async as own_async
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
