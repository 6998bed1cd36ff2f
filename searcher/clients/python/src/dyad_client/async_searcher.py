"""`AsyncSearcher`: the client for asyncio, with the methods of `Searcher`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Any, TypeVar, Unpack

import grpc
import grpc.aio

from . import calls
from .connection import TlsConfig, connection
from .document import Document
from .errors import DyadError, closed, ended_early, from_status
from .filters import Filter
from .replies import Documents, Explanation, Fields, IndexInfo, Sample, SearchResponse, Status
from .request import Arguments, Request, request_of
from .retry import Deadline, RetryPolicy, checked_timeout

R = TypeVar("R")


class AsyncSearcher:
    """A client of one searcher, to be made and used in one event loop. `close` it, or use it in an `async with`."""

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
        """As `Searcher`."""
        self._connection = connection(target, tls, api_key)
        self._timeout, self._retry, self._index = checked_timeout(timeout), retry, index
        self._closed = asyncio.Event()
        credentials, options = self._connection.credentials(), list(self._connection.options)
        address = self._connection.target
        self._channel = (
            grpc.aio.secure_channel(address, credentials, options)
            if credentials
            else grpc.aio.insecure_channel(address, options)
        )

    async def search(
        self, query: str | Request = "", *, timeout: float | None = None, **arguments: Unpack[Arguments]
    ) -> SearchResponse:
        """One question, with the arguments of `Request`."""
        return await self._call(calls.SEARCH, request_of(query, arguments).message(index=self._index), timeout)

    async def search_batch(self, requests: Iterable[Request], *, timeout: float | None = None) -> list[SearchResponse]:
        """Many questions, answered together; the order is kept. One bad request refuses the batch."""
        return await self._call(calls.SEARCH_BATCH, calls.batch(requests, self._index), timeout)

    async def search_stream(
        self, requests: Iterable[Request] | AsyncIterable[Request], *, timeout: float
    ) -> AsyncGenerator[SearchResponse, None]:
        """Any number of questions over one call, which `timeout` is for; the order is kept. At most 64 requests are read ahead of
        their replies. An exception of `requests` is raised after the replies to those before it. `aclose` of the generator, or its end,
        ends the call. Not tried again."""
        ahead = asyncio.Semaphore(calls.READ_AHEAD)
        failures: list[Exception] = []
        # Requests that were sent; None until there are no more.
        sent: int | None = None
        ended = False

        async def messages() -> AsyncIterator[Any]:
            nonlocal sent
            number = 0
            try:
                async for request in _each(requests):
                    await ahead.acquire()
                    if ended:
                        return
                    yield calls.serialize(request.message(number, self._index))
                    number += 1
                sent = number
            except Exception as error:  # gRPC would cancel the call: the reader raises it.
                failures.append(error)

        if self._closed.is_set():
            raise closed(self._connection.target, 0)
        call = calls.SEARCH_STREAM
        stream: Any = self._channel.stream_stream(call.path, None, call.parse)
        replies = stream(messages(), timeout=checked_timeout(timeout), metadata=self._connection.metadata)
        answered = 0
        try:
            async for reply in replies:
                ahead.release()
                answered += 1
                yield call.reply(reply)
            for failure in failures:
                raise failure
            if answered != sent:
                raise ended_early(self._connection.target, answered)
        except grpc.aio.AioRpcError as error:
            if error.details() == calls.LOST_STATUS:
                raise ended_early(self._connection.target, answered, "; grpc.aio has lost the status that says why") from error
            raise self._error(error, 1) from error
        except asyncio.CancelledError as error:
            raise self._cancelled(1) or error
        finally:
            # Where the server has ended the call, nothing else ends the reader of `requests`.
            ended = True
            ahead.release()
            replies.cancel()

    async def documents(
        self, keys: Iterable[str], *, fields: Iterable[str] = (), index: str = "", timeout: float | None = None
    ) -> Documents:
        """Stored documents by key, in the order of the keys; some fields of them, or all."""
        return await self._call(calls.DOCUMENTS, calls.documents(keys, fields, index or self._index), timeout)

    async def sample(
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
        return await self._call(calls.SAMPLE, calls.sample(count, seed, fields, filter, index or self._index), timeout)

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
    ) -> AsyncGenerator[Document, None]:
        """All documents, or those that match, in the order of their keys: pages are read as they are needed, each within `timeout`. One that
        is there all along comes exactly once, whatever changes meanwhile. `after`: the key to go on after."""
        message = calls.scroll(page_size, after, fields, filter, with_vectors, index or self._index)
        return self._pages(message, timeout)

    async def _pages(self, message: Any, timeout: float | None) -> AsyncGenerator[Document, None]:
        has_more = True
        while has_more:
            page = await self._call(calls.SCROLL, message, timeout)
            for document in page.documents:
                yield document
            message.after_key, has_more = page.next_after_key, page.has_more

    async def count(self, filter: Filter | None = None, *, index: str = "", timeout: float | None = None) -> int:
        """How many documents there are, or match."""
        return await self._call(calls.COUNT, calls.count(filter, index or self._index), timeout)

    async def fields(self, *, index: str = "", timeout: float | None = None) -> Fields:
        """The fields that documents have, as filters name them, and how many documents have each."""
        return await self._call(calls.FIELDS, calls.fields(index or self._index), timeout)

    async def explain(
        self, key: str, query: str | Request = "", *, timeout: float | None = None, **arguments: Unpack[Arguments]
    ) -> Explanation:
        """Why a document is, or is not, among the hits of a search, with the arguments of `Request`."""
        return await self._call(calls.EXPLAIN, calls.explain(key, request_of(query, arguments), self._index), timeout)

    async def status(self, *, index: str = "", timeout: float | None = None) -> Status:
        """What is served of an index."""
        return await self._call(calls.STATUS, calls.status(index or self._index), timeout)

    async def indexes(self, *, timeout: float | None = None) -> list[IndexInfo]:
        """All indexes that are served, by name."""
        return await self._call(calls.INDEXES, calls.indexes(), timeout)

    async def close(self) -> None:
        """Closes the connection; calls that are under way end with `Cancelled`, as do later ones."""
        self._closed.set()
        await self._channel.close()

    async def __aenter__(self) -> AsyncSearcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncSearcher({self._connection.target!r})"

    async def _call(self, call: calls.Call[R], message: Any, timeout: float | None) -> R:
        deadline, attempt = Deadline(self._timeout if timeout is None else timeout), 0
        request = calls.serialize(message)
        unary: Any = self._channel.unary_unary(call.path, None, call.parse)
        while True:
            if self._closed.is_set():
                raise closed(self._connection.target, attempt)
            attempt += 1
            try:
                return call.reply(await unary(request, timeout=deadline.left(), metadata=self._connection.metadata))
            except grpc.aio.AioRpcError as error:
                trailers = ((str(name), value) for name, value in error.trailing_metadata() or ())
                wait = self._retry.wait(attempt, error.code(), trailers)
                if wait is None or wait >= deadline.left():
                    raise self._error(error, attempt) from error
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), wait)
            except asyncio.CancelledError as error:
                raise self._cancelled(attempt) or error

    def _cancelled(self, attempts: int) -> DyadError | None:
        """The error of a call that gRPC has cancelled; None where the caller's own task is being cancelled."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return None
        return closed(self._connection.target, attempts)

    def _error(self, error: grpc.aio.AioRpcError, attempts: int) -> DyadError:
        return from_status(self._connection.target, error.code(), error.details() or "", attempts)


async def _each(requests: Iterable[Request] | AsyncIterable[Request]) -> AsyncIterator[Request]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request
