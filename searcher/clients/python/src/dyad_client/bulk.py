"""Any number of documents or keys as calls of bounded size, a few of which are under way at once.

Of calls that wait at the same time a server makes any first. So no two of them have a key in common: the last document of a key stays the
last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from . import replies
from ._generated import index_pb2
from .changes import Record, Records
from .errors import DyadError, Unfinished, so_far

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")

#: Documents or keys of a call: with four calls under way, as many as a server makes one generation.
BATCH = 256
#: Calls that are under way at once.
IN_FLIGHT = 4
#: Seconds for a call with all its attempts: as long as a server would wait for the end of its stream.
TIMEOUT = 600.0
#: Bytes of a call: a server has 256 MiB for all that are under way.
BYTES = 16 << 20

#: Is called after each acknowledged call, with what all of them have come to so far: `read` counts what was acknowledged.
Progress = Callable[[replies.ChangeReply], object]


@dataclasses.dataclass(frozen=True)
class Batch:
    """What one call sends."""

    #: Place of its first record among all, from 0.
    position: int
    records: list[Record]
    keys: frozenset[str]


class Batches:
    """Makes records batches, in order."""

    def __init__(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"`batch`: expected a number of documents, at least 1, got {most!r}")
        self._most, self._records, self._bytes, self._position = most, list[Record](), 0, 0

    def add(self, record: Record) -> Batch | None:
        """The batch before the record, where that has no room for it."""
        full = len(self._records) == self._most or (self._records and self._bytes + len(record.payload) > BYTES)
        batch = self.rest() if full else None
        self._records.append(record)
        self._bytes += len(record.payload)
        return batch

    def rest(self) -> Batch | None:
        """The batch of the records that are left; None where there are none."""
        records, self._records, self._bytes = self._records, [], 0
        if not records:
            return None
        batch = Batch(self._position, records, frozenset(record.key for record in records))
        self._position += len(records)
        return batch


def batches(records: Records[T], given: Iterable[T], most: int) -> Iterator[Batch]:
    """What each call sends. Where something is wrong, it is raised after what is before it."""
    made = Batches(most)
    try:
        for one in given:
            if batch := made.add(records.next(one)):
                yield batch
        records.end()
    except Exception:
        if batch := made.rest():
            yield batch
        raise
    if batch := made.rest():
        yield batch


async def awaited_batches(records: Records[T], given: AsyncIterable[T], most: int) -> AsyncIterator[Batch]:
    """The same of documents that are awaited."""
    made = Batches(most)
    try:
        async for one in given:
            if batch := made.add(records.next(one)):
                yield batch
        records.end()
    except Exception:
        if batch := made.rest():
            yield batch
        raise
    if batch := made.rest():
        yield batch


class BulkChange(Generic[C]):
    """Which calls are under way, what the others came to, and how far all has come."""

    def __init__(self, in_flight: int, progress: Progress | None) -> None:
        if isinstance(in_flight, bool) or not isinstance(in_flight, int) or in_flight < 1:
            raise ValueError(f"`in_flight`: expected a number of calls, at least 1, got {in_flight!r}")
        self._most, self._progress = in_flight, progress
        #: The calls that are under way.
        self.calls: dict[C, Batch] = {}
        self._total = index_pb2.ChangeResponse()
        #: The first error of a call; nothing more is sent then.
        self.failure: Exception | None = None
        self._failed: list[Batch] = []
        #: Records that were sent.
        self._sent = 0

    def has_room(self, batch: Batch) -> bool:
        """Whether a call may begin now, or never."""
        if self.failure:
            return True
        return len(self.calls) < self._most and all(batch.keys.isdisjoint(other.keys) for other in self.calls.values())

    def begin(self, call: C, batch: Batch) -> None:
        """A call has begun."""
        self.calls[call] = batch
        self._sent = batch.position + len(batch.records)

    def end(self, call: C, reply: Callable[[], replies.ChangeReply]) -> None:
        """A call has ended."""
        batch = self.calls.pop(call)
        try:
            message = reply().message
        except Exception as error:
            self._failed.append(batch)
            self.failure = self.failure or error
            return
        # The newest generation says how many documents there are.
        if message.generation < self._total.generation:
            message.documents = self._total.documents
        generation = max(message.generation, self._total.generation)
        for name in ("read", "indexed", "unchanged", "superseded", "rejected", "reused"):
            setattr(self._total, name, getattr(self._total, name) + getattr(message, name))
        self._total.generation, self._total.documents = generation, message.documents
        if message.HasField("searchable"):
            earlier = not self._total.HasField("searchable") or self._total.searchable
            self._total.searchable = earlier and message.searchable
        if self._progress is not None:
            self._progress(self.reply())

    def quieten(self) -> None:
        """Progress is no longer told."""
        self._progress = None

    def reply(self) -> replies.ChangeReply:
        """What the acknowledged calls came to."""
        message = index_pb2.ChangeResponse()
        message.CopyFrom(self._total)
        return replies.change(message)

    def finished(self) -> replies.ChangeReply:
        """What all calls came to, once they have ended; raises the first error of one."""
        if isinstance(self.failure, DyadError):
            raise Unfinished(self.failure, self.reply(), *self._first_left()) from self.failure
        if self.failure:
            raise self.failure
        return self.reply()

    def explain(self, error: Exception) -> None:
        """Adds how far all has come to an error of the caller's own, once all calls have ended."""
        error.add_note(so_far(self.reply(), *self._first_left()))

    def _first_left(self) -> tuple[int, str | None]:
        """Where to go on."""
        if not self._failed:
            return self._sent, None
        first = min(self._failed, key=lambda batch: batch.position)
        return first.position, first.records[0].key
