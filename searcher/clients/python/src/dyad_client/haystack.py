"""Haystack: `DyadDocumentStore`, over an index that a searcher serves and `dyad-indexer serve` changes, and its retrievers.

Documents that have embeddings are stored with them, and others are embedded by the server, as are questions that come as texts alone.
"""

try:
    from .haystack_retrievers import DyadBM25Retriever, DyadEmbeddingRetriever, DyadHybridRetriever
    from .haystack_store import DyadDocumentStore
except ImportError as error:
    raise ImportError(f"dyad_client.haystack: expected haystack-ai, got {error}. Install the extra: pip install 'dyad-client[haystack]'") from error

__all__ = ["DyadBM25Retriever", "DyadDocumentStore", "DyadEmbeddingRetriever", "DyadHybridRetriever"]
