"""`Index`: the client that changes an index."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from . import calls
from .bulk import BATCH, IN_FLIGHT, TIMEOUT, BulkChange, Progress, batches
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


class Index(Client):
    """A client of one `dyad-indexer serve`. It may be shared by threads; `close` it, or use it in a `with`.

    Every call has a name, by which it is made once even where it is sent several times (by servers later than release 0.1): it is tried
    again by itself where the server says that nothing was changed, and where the connection was lost."""

    def __init__(
        self,
        target: str = "127.0.0.1:7702",
        *,
        tls: bool | TlsConfig | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retry: RetryPolicy = RetryPolicy(),
    ) -> None:
        """`target`: HOST:PORT or a URL; `timeout`: seconds for a call with all its attempts, where the call has none of its own."""
        super().__init__(target, tls, api_key, timeout, retry)

    def upsert(
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
        """Adds documents, one or some, and replaces those whose keys are there: as one change, of at most 64 MiB.

        With `vectors`, one for each document (or with those of the documents themselves), the encoder service is not asked; `fingerprint`
        is that of the model that made them, and `context` what they are of, where that is more than a document's title.

        `expected` has the `etag` that documents must have, by their keys, and None where there must be none: where the index differs,
        nothing is changed, and the error is `Aborted`.

        `request_key` is a name of this call, of at most 128 bytes: where a call of the same name was made, its reply is returned, and
        nothing is changed. Every call has one that is made for it, so that it can be tried again where the connection was lost.

        With `wait="searchable"` the reply comes once the searchers that the server knows (`dyad-indexer serve --searcher`) serve the
        change, too: its `searchable` says whether they do."""
        messages = upserts(vectors, fingerprint, context).one_call(
            documents_of(documents), opening_of_upsert(expected, request_key, wait), expects=bool(expected)
        )
        return self._made(self.change_call(calls.UPSERT, messages, timeout))

    def delete(
        self, keys: str | Iterable[str],
        *,
        expected: Expected | None = None,
        request_key: str | None = None,
        wait: Wait = "durable",
        timeout: float | None = None,
    ) -> ChangeReply:
        """Deletes documents, one or some, as one change. Keys that no document has are counted as `rejected`. `expected` and
        `wait` are as for `upsert`."""
        messages = deletes().one_call(keys_of(keys), opening_of_delete(expected, request_key, wait), expects=bool(expected))
        return self._made(self.change_call(calls.DELETE, messages, timeout))

    def delete_where(
        self, filter: Filter,
        *,
        expected: Expected | None = None,
        request_key: str | None = None,
        wait: Wait = "durable",
        timeout: float | None = None,
    ) -> ChangeReply:
        """Deletes all documents that match when the change is made, as one change: `index.delete_where(field("year") < 2020)`."""
        return self._made(self.change_call(calls.DELETE, matching(filter, opening_of_delete(expected, request_key, wait)), timeout))

    def upsert_all(
        self,
        documents: Iterable[AnyDocument],
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
        """As `upsert`, of any number of documents: in calls of `batch` documents (and at most 16 MiB), `in_flight` of them at once. Of
        several documents with one key the last counts. `timeout` and `wait` are for each call, which may wait for others.

        `progress` is called after each acknowledged call, with what all of them came to so far. Raises `Unfinished` where a call fails,
        once those that are under way have ended; it says which document to go on from."""
        records = upserts(vectors, fingerprint, context)
        return self._all(calls.UPSERT, partial(opening_of_upsert, wait=wait), records, documents_of(documents), batch, in_flight, progress, timeout)

    def upsert_table(
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
        """As `upsert_all`, of the rows of a data frame of pandas or polars, or of a table, record batches or a reader of pyarrow.

        `key`, `text`, `title` and `vector` name columns, and `metadata` others: all that are left where it is None. Cells without a value
        are left out of the metadata; dates become ISO 8601."""
        documents = documents_of_table(table, key, text, title, metadata, vector)
        records = upserts(None, fingerprint, context)
        return self._all(calls.UPSERT, partial(opening_of_upsert, wait=wait), records, documents, batch, in_flight, progress, timeout)

    def delete_all(
        self,
        keys: Iterable[str],
        *,
        batch: int = BATCH,
        in_flight: int = IN_FLIGHT,
        progress: Progress | None = None,
        wait: Wait = "durable",
        timeout: float = TIMEOUT,
    ) -> ChangeReply:
        """As `delete`, of any number of keys, in calls as those of `upsert_all`."""
        return self._all(calls.DELETE, partial(opening_of_delete, wait=wait), deletes(), keys_of(keys), batch, in_flight, progress, timeout)

    def _made(self, change: ChangeCall) -> ChangeReply:
        try:
            while True:
                if self._closed.is_set():
                    raise change.closed()
                reply = change.reply(change.begin())
                if isinstance(reply, ChangeReply):
                    return reply
                self._closed.wait(reply)
        except BaseException:
            # Of somebody who interrupts the program: others have ended.
            change.cancel()
            raise

    def _all(
        self,
        call: calls.Call[ChangeReply],
        opening: Callable[[], bytes],
        records: Records[T],
        given: Iterable[T],
        batch: int,
        in_flight: int,
        progress: Progress | None,
        timeout: float,
    ) -> ChangeReply:
        bulk = BulkChange[concurrent.futures.Future[ChangeReply]](in_flight, progress)
        changes: dict[concurrent.futures.Future[ChangeReply], ChangeCall] = {}

        def end(some: Iterable[concurrent.futures.Future[ChangeReply]]) -> None:
            for future in some:
                del changes[future]
                bulk.end(future, future.result)

        def end_next() -> None:
            end(concurrent.futures.wait(bulk.calls, return_when=concurrent.futures.FIRST_COMPLETED).done)

        with concurrent.futures.ThreadPoolExecutor(in_flight, "dyad-changes") as pool:
            try:
                for one in batches(records, given, batch):
                    end([future for future in bulk.calls if future.done()])
                    while not bulk.has_room(one):
                        end_next()
                    if bulk.failure:
                        break
                    change = self.change_call(call, records.messages(one.records, opening()), timeout)
                    future = pool.submit(self._made, change)
                    changes[future] = change
                    bulk.begin(future, one)
                while bulk.calls:
                    end_next()
            except Exception as error:
                # Of the caller's documents, or of `progress`.
                bulk.quieten()
                while bulk.calls:
                    end_next()
                bulk.explain(error)
                raise
            except BaseException:
                for change in changes.values():
                    change.cancel()
                raise
        return bulk.finished()
