"""Client of dyad-searcher: dense, BM25 and hybrid search over gRPC.

| file | contents |
|---|---|
| `searcher.py`, `async_searcher.py` | `Searcher`, `AsyncSearcher` |
| `request.py` | `Request`: one search and its arguments |
| `filters.py` | `field`, `keys`, `all_of`, `any_of`: which documents can be hits |
| `vectors.py` | vectors of questions as 32-bit floats |
| `replies.py` | replies as frozen dataclasses |
| `errors.py` | exceptions |
| `retry.py` | deadlines and retries: which failures are retried, and when |
| `connection.py` | addresses, TLS, keys, limits |
| `calls.py` | the calls of the services, their messages and replies |
"""

from .async_searcher import AsyncSearcher
from .connection import TlsConfig
from .errors import (
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
    Unimplemented,
)
from .filters import Field, Filter, all_of, any_of, field, keys
from .replies import Document, Documents, Explanation, Group, Hit, IndexInfo, Placement, Sample, SearchResponse, Snippet, Status
from .request import Request
from .retry import RetryPolicy
from .searcher import Searcher

__all__ = [
    "AsyncSearcher",
    "Busy",
    "Cancelled",
    "DeadlineExceeded",
    "Document",
    "Documents",
    "DyadError",
    "Explanation",
    "FailedPrecondition",
    "Field",
    "Filter",
    "Group",
    "Hit",
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
    "Unimplemented",
    "all_of",
    "any_of",
    "field",
    "keys",
]
