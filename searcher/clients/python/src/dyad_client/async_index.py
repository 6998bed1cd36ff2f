"""`AsyncIndex`: the client that changes an index, for asyncio, with the methods of `Index`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from . import calls
from .bulk import BATCH, IN_FLIGHT, TIMEOUT, Batch, BulkChange, Progress, awaited_batches, batches
from .change_call import ChangeCall
from .changes import (
    Expected,
    Records,
    Wait,
    deletes,
    documents_of,
    keys_of,
    matching,
    opening_of_delete,
    opening_of_upsert,
    upserts,
)
from .client import Client
from .connection import TlsConfig
from .document import AnyDocument
from .filters import Filter
from .replies import ChangeReply
from .retry import RetryPolicy
from .tables import documents_of_table
from .vectors import Vector

T = TypeVar("T")


class AsyncIndex:
    """A client of one `dyad-indexer serve`, to be used in one event loop. `close` it, or use it in an `async with`."""

    def __init__(
        self,
        target: str = "127.0.0.1:7702",
        *,
        tls: bool | TlsConfig | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retry: RetryPolicy = RetryPolicy(),
    ) -> None:
        """As `Index`."""
        self._client = Client(target, tls, api_key, timeout, retry)
        self._closed = asyncio.Event()

    async def upsert(
        self,
        documents: AnyDocument | Iterable[AnyDocument],
        *,
        vectors: Iterable[Vector] | None = None,
        fingerprint: str = "",
        context: str = "",
        expected: Expected | None = None,
        request_key: str | None = None,
        wait: Wait = "durable",
        timeout: float | None = None,
    ) -> ChangeReply:
        """As `Index.upsert`."""
        messages = upserts(vectors, fingerprint, context).one_call(
            documents_of(documents), opening_of_upsert(expected, request_key, wait), expects=bool(expected)
        )
        return await self._made(self._client.change_call(calls.UPSERT, messages, timeout))

    async def delete(
        self, keys: str | Iterable[str],
        *,
        expected: Expected | None = None,
        request_key: str | None = None,
        wait: Wait = "durable",
        timeout: float | None = None,
    ) -> ChangeReply:
        """As `Index.delete`."""
        messages = deletes().one_call(keys_of(keys), opening_of_delete(expected, request_key, wait), expects=bool(expected))
        return await self._made(self._client.change_call(calls.DELETE, messages, timeout))

    async def delete_where(
        self, filter: Filter,
        *,
        expected: Expected | None = None,
        request_key: str | None = None,
        wait: Wait = "durable",
        timeout: float | None = None,
    ) -> ChangeReply:
        """As `Index.delete_where`."""
        return await self._made(self._client.change_call(calls.DELETE, matching(filter, opening_of_delete(expected, request_key, wait)), timeout))

    async def upsert_all(
        self,
        documents: Iterable[AnyDocument] | AsyncIterable[AnyDocument],
        *,
        vectors: Iterable[Vector] | None = None,
        fingerprint: str = "",
        context: str = "",
        batch: int = BATCH,
        in_flight: int = IN_FLIGHT,
        progress: Progress | None = None,
        wait: Wait = "durable",
        timeout: float = TIMEOUT,
    ) -> ChangeReply:
        """As `Index.upsert_all`, also of documents that are awaited."""
        records = upserts(vectors, fingerprint, context)
        some = documents if isinstance(documents, AsyncIterable) else documents_of(documents)
        return await self._all(calls.UPSERT, partial(opening_of_upsert, wait=wait), records, some, batch, in_flight, progress, timeout)

    async def upsert_table(
        self,
        table: Any,
        *,
        key: str = "id",
        text: str = "text",
        title: str | None = None,
        metadata: Sequence[str] | None = None,
        vector: str | None = None,
        fingerprint: str = "",
        context: str = "",
        batch: int = BATCH,
        in_flight: int = IN_FLIGHT,
        progress: Progress | None = None,
        wait: Wait = "durable",
        timeout: float = TIMEOUT,
    ) -> ChangeReply:
        """As `Index.upsert_table`."""
        documents = documents_of_table(table, key, text, title, metadata, vector)
        records = upserts(None, fingerprint, context)
        return await self._all(calls.UPSERT, partial(opening_of_upsert, wait=wait), records, documents, batch, in_flight, progress, timeout)

    async def delete_all(
        self,
        keys: Iterable[str] | AsyncIterable[str],
        *,
        batch: int = BATCH,
        in_flight: int = IN_FLIGHT,
        progress: Progress | None = None,
        wait: Wait = "durable",
        timeout: float = TIMEOUT,
    ) -> ChangeReply:
        """As `Index.delete_all`, also of keys that are awaited."""
        some = keys if isinstance(keys, AsyncIterable) else keys_of(keys)
        return await self._all(calls.DELETE, partial(opening_of_delete, wait=wait), deletes(), some, batch, in_flight, progress, timeout)

    async def close(self) -> None:
        """Closes the connection; calls that are under way end with `Cancelled`, as do later ones."""
        self._closed.set()
        self._client.close()

    async def __aenter__(self) -> AsyncIndex:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncIndex({self._client.target!r})"

    async def _made(self, change: ChangeCall) -> ChangeReply:
        try:
            while True:
                if self._closed.is_set():
                    raise change.closed()
                attempt = change.begin()
                await _ended(attempt)
                reply = change.reply(attempt)
                if isinstance(reply, ChangeReply):
                    return reply
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closed.wait(), reply)
        except asyncio.CancelledError:
            change.cancel()
            raise

    async def _all(
        self,
        call: calls.Call[ChangeReply],
        opening: Callable[[], bytes],
        records: Records[T],
        given: Iterable[T] | AsyncIterable[T],
        batch: int,
        in_flight: int,
        progress: Progress | None,
        timeout: float,
    ) -> ChangeReply:
        bulk = BulkChange[asyncio.Task[ChangeReply]](in_flight, progress)

        def end(some: Iterable[asyncio.Task[ChangeReply]]) -> None:
            for task in some:
                bulk.end(task, task.result)

        async def end_next() -> None:
            end((await asyncio.wait(bulk.calls, return_when=asyncio.FIRST_COMPLETED))[0])

        try:
            async with contextlib.aclosing(_batches(records, given, batch)) as some:
                async for one in some:
                    end([task for task in bulk.calls if task.done()])
                    while not bulk.has_room(one):
                        await end_next()
                    if bulk.failure:
                        break
                    change = self._client.change_call(call, records.messages(one.records, opening()), timeout)
                    bulk.begin(asyncio.ensure_future(self._made(change)), one)
                    # It begins before more is read, which may not await anything.
                    await asyncio.sleep(0)
            while bulk.calls:
                await end_next()
        except Exception as error:
            # Of the caller's documents, or of `progress`.
            bulk.quieten()
            while bulk.calls:
                await end_next()
            bulk.explain(error)
            raise
        finally:
            for task in bulk.calls:
                task.cancel()
        return bulk.finished()


async def _batches(records: Records[T], given: Iterable[T] | AsyncIterable[T], most: int) -> AsyncGenerator[Batch, None]:
    if isinstance(given, AsyncIterable):
        async for batch in awaited_batches(records, given, most):
            yield batch
    else:
        for batch in batches(records, given, most):
            yield batch


async def _ended(attempt: Any) -> None:
    """Waits for the end of a future of gRPC, of which another thread tells."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def tell(_: Any) -> None:
        # The loop may have been closed since.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))

    attempt.add_done_callback(tell)
    await ended
