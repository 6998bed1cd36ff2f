"""LangChain's own tests of vector stores and retrievers, and ours of what they leave out. Run by `integrations.py`."""

import pytest
from dyad_client import field
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
