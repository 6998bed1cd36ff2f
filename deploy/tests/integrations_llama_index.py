"""LlamaIndex ships no tests of vector stores: ours use a store as its indexes and retrievers do. Run by `integrations.py`."""
