"""`Searcher`: the client."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Unpack

import grpc

from . import calls
from .client import Client
from .connection import TlsConfig
from .document import Document
from .errors import closed, ended_early
from .filters import Filter
from .replies import Documents, Explanation, Fields, IndexInfo, Sample, SearchResponse, Status
from .request import Arguments, Request, request_of
from .retry import RetryPolicy, checked_timeout


class Searcher(Client):
    """A client of one searcher. It may be shared by threads; `close` it, or use it in a `with`."""

    def __init__(
        self,
        target: str = "127.0.0.1:7700",
        *,
        tls: bool | TlsConfig | None = None,
        api_key: str | None = None,
        timeout: float = 10.0,
        retry: RetryPolicy = RetryPolicy(),
        index: str = "",
    ) -> None:
        """`target`: HOST:PORT or a URL; `timeout`: seconds for a call with all its attempts, where the call has none of its own; `index`:
        the index to ask where a call names none, instead of the server's default."""
        super().__init__(target, tls, api_key, timeout, retry)
        self._index = index

    def search(
        self, query: str | Request = "", *, timeout: float | None = None, **arguments: Unpack[Arguments]
    ) -> SearchResponse:
        """One question, with the arguments of `Request`."""
        return self._call(calls.SEARCH, request_of(query, arguments).message(index=self._index), timeout)

    def search_batch(self, requests: Iterable[Request], *, timeout: float | None = None) -> list[SearchResponse]:
        """Many questions, answered together; the order is kept. One bad request refuses the batch."""
        return self._call(calls.SEARCH_BATCH, calls.batch(requests, self._index), timeout)

    def search_stream(self, requests: Iterable[Request], *, timeout: float) -> Generator[SearchResponse, None, None]:
        """Any number of questions over one call, which `timeout` is for; the order is kept. At most 64 requests are read ahead of
        their replies. An exception of `requests` is raised after the replies to those before it. `close` of the generator, or its end,
        ends the call. Not tried again."""
        ahead, ended = threading.Semaphore(calls.READ_AHEAD), threading.Event()
        failures: list[Exception] = []
        # Requests that were sent; None until there are no more.
        sent: int | None = None

        def messages() -> Iterator[Any]:
            nonlocal sent
            number = 0
            try:
                for request in requests:
                    while not ahead.acquire(timeout=0.1):
                        if ended.is_set():
                            return
                    yield calls.serialize(request.message(number, self._index))
                    number += 1
                sent = number
            except Exception as error:  # gRPC would hide it: the reader raises it.
                failures.append(error)

        if self._closed.is_set():
            raise closed(self._connection.target, 0)
        call = calls.SEARCH_STREAM
        stream: Any = self._channel.stream_stream(call.path, None, call.parse)
        checked = checked_timeout(timeout)
        try:
            replies = stream(messages(), timeout=checked, metadata=self._connection.metadata)
        except ValueError as error:
            # Of gRPC, where the channel was closed since.
            raise closed(self._connection.target, 0) from error
        answered = 0
        try:
            for reply in replies:
                ahead.release()
                answered += 1
                yield call.reply(reply)
            for failure in failures:
                raise failure
            if answered != sent:
                raise ended_early(self._connection.target, answered)
        except grpc.RpcError as error:
            raise self._error(error, 1) from error
        finally:
            ended.set()
            replies.cancel()

    def documents(
        self, keys: Iterable[str], *, fields: Iterable[str] = (), index: str = "", timeout: float | None = None
    ) -> Documents:
        """Stored documents by key, in the order of the keys; some fields of them, or all."""
        return self._call(calls.DOCUMENTS, calls.documents(keys, fields, index or self._index), timeout)

    def sample(
        self,
        count: int,
        *,
        seed: int = 0,
        fields: Iterable[str] = (),
        filter: Filter | None = None,
        index: str = "",
        timeout: float | None = None,
    ) -> Sample:
        """Stored documents chosen at random; the same for the same seed, generation and filter."""
        return self._call(calls.SAMPLE, calls.sample(count, seed, fields, filter, index or self._index), timeout)

    def scroll(
        self,
        *,
        page_size: int = 100,
        after: str = "",
        fields: Iterable[str] = (),
        filter: Filter | None = None,
        with_vectors: bool = False,
        index: str = "",
        timeout: float | None = None,
    ) -> Generator[Document, None, None]:
        """All documents, or those that match, in the order of their keys: pages are read as they are needed, each within `timeout`. One that
        is there all along comes exactly once, whatever changes meanwhile. `after`: the key to go on after."""
        message = calls.scroll(page_size, after, fields, filter, with_vectors, index or self._index)
        return self._pages(message, timeout)

    def _pages(self, message: Any, timeout: float | None) -> Generator[Document, None, None]:
        has_more = True
        while has_more:
            page = self._call(calls.SCROLL, message, timeout)
            yield from page.documents
            message.after_key, has_more = page.next_after_key, page.has_more

    def count(self, filter: Filter | None = None, *, index: str = "", timeout: float | None = None) -> int:
        """How many documents there are, or match."""
        return self._call(calls.COUNT, calls.count(filter, index or self._index), timeout)

    def fields(self, *, index: str = "", timeout: float | None = None) -> Fields:
        """The fields that documents have, as filters name them, and how many documents have each."""
        return self._call(calls.FIELDS, calls.fields(index or self._index), timeout)

    def explain(
        self, key: str, query: str | Request = "", *, timeout: float | None = None, **arguments: Unpack[Arguments]
    ) -> Explanation:
        """Why a document is, or is not, among the hits of a search, with the arguments of `Request`."""
        return self._call(calls.EXPLAIN, calls.explain(key, request_of(query, arguments), self._index), timeout)

    def status(self, *, index: str = "", timeout: float | None = None) -> Status:
        """What is served of an index."""
        return self._call(calls.STATUS, calls.status(index or self._index), timeout)

    def indexes(self, *, timeout: float | None = None) -> list[IndexInfo]:
        """All indexes that are served, by name."""
        return self._call(calls.INDEXES, calls.indexes(), timeout)
