"""Client of dyad-searcher, for dense, BM25 and hybrid search, and of dyad-indexer, for changes of an index; over gRPC.

| file | contents |
|---|---|
| `searcher.py`, `async_searcher.py` | `Searcher`, `AsyncSearcher` |
| `index.py`, `async_index.py` | `Index`, `AsyncIndex` |
| `document.py`, `metadata.py` | `Document`: what is stored, and its metadata as JSON |
| `tables.py` | rows of data frames and tables as documents |
| `changes.py` | documents and keys as messages of bounded size |
| `change_call.py` | one call that changes an index, and its attempts |
| `bulk.py` | any number of documents or keys as several calls |
| `request.py` | `Request`: one search and its arguments |
| `filters.py` | `field`, `keys`, `all_of`, `any_of`: which documents can be hits |
| `vectors.py` | vectors as 32-bit floats |
| `replies.py` | replies as frozen dataclasses |
| `errors.py` | exceptions |
| `retry.py` | deadlines and retries: which failures are retried, and when |
| `client.py` | a channel and its calls |
| `connection.py` | addresses, TLS, keys, limits |
| `calls.py` | the calls of the services, their messages and replies |
| `langchain.py`, `llama_index.py`, `haystack.py` | stores and retrievers of these frameworks, which are imported by their names alone |
| `haystack_store.py`, `haystack_retrievers.py` | the parts of `haystack.py` |
| `store.py`, `async_store.py` | an index to read and write, as the frameworks need it |
| `store_filters.py` | the frameworks' filters as those of a searcher |
| `diversity.py` | maximal marginal relevance |
"""

from .async_index import AsyncIndex
from .async_searcher import AsyncSearcher
from .connection import TlsConfig
from .document import Document
from .errors import (
    Aborted,
    Busy,
    Cancelled,
    DeadlineExceeded,
    DyadError,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    InvalidReply,
    NotFound,
    OutOfRange,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    Unfinished,
    Unimplemented,
)
from .filters import Field, Filter, all_of, any_of, field, keys
from .index import Index
from .replies import (
    ChangeReply,
    Documents,
    Explanation,
    FieldInfo,
    Fields,
    Group,
    Hit,
    IndexInfo,
    Placement,
    Sample,
    SearchResponse,
    Snippet,
    Status,
)
from .request import Request
from .retry import RetryPolicy
from .searcher import Searcher

__all__ = [
    "Aborted",
    "AsyncIndex",
    "AsyncSearcher",
    "Busy",
    "Cancelled",
    "ChangeReply",
    "DeadlineExceeded",
    "Document",
    "Documents",
    "DyadError",
    "Explanation",
    "FailedPrecondition",
    "Field",
    "FieldInfo",
    "Fields",
    "Filter",
    "Group",
    "Hit",
    "Index",
    "IndexInfo",
    "Internal",
    "InvalidArgument",
    "InvalidReply",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "Placement",
    "Request",
    "RetryPolicy",
    "Sample",
    "SearchResponse",
    "Searcher",
    "Snippet",
    "Status",
    "TlsConfig",
    "Unauthenticated",
    "Unavailable",
    "Unfinished",
    "Unimplemented",
    "all_of",
    "any_of",
    "field",
    "keys",
]
