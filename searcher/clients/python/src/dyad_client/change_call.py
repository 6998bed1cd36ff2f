"""`ChangeCall`: one call of Upsert or Delete and its attempts, for those who wait for them in threads and in event loops.

grpc.aio loses the status of a stream that the server ends before it has read all of it, and with it what a retry needs to know. So both
use the channels for threads, whose calls are futures.
"""

from __future__ import annotations

import threading
from typing import Any

import grpc

from . import calls
from .connection import Connection
from .errors import DyadError, closed, from_change
from .replies import ChangeReply
from .retry import Deadline, RetryPolicy, says_when


class ChangeCall:
    """A call and its attempts, which it makes by `begin`. Each is a future, whose end is told to `reply`."""

    def __init__(
        self,
        channel: grpc.Channel,
        connection: Connection,
        retry: RetryPolicy,
        call: calls.Call[ChangeReply],
        messages: list[bytes],
        timeout: float,
    ) -> None:
        self._stream: Any = channel.stream_unary(call.path, None, call.parse)
        self._connection, self._retry, self._reply, self._messages = connection, retry, call.reply, messages
        self._deadline, self._attempts = Deadline(timeout), 0
        self._current: Any = None
        self._lock = threading.Lock()
        self._cancelled = False

    def begin(self) -> Any:
        """The next attempt."""
        with self._lock:
            if self._cancelled:
                raise self.closed()
            self._attempts += 1
            try:
                metadata = self._connection.metadata
                self._current = self._stream.future(iter(self._messages), timeout=self._deadline.left(), metadata=metadata)
            except ValueError as error:
                # Of gRPC, where the channel was closed since.
                raise self.closed() from error
            return self._current

    def cancel(self) -> None:
        """Ends the attempt that is under way, and makes no others."""
        with self._lock:
            self._cancelled = True
            if self._current is not None:
                self._current.cancel()

    def closed(self) -> DyadError:
        """The error of a client that was closed meanwhile."""
        return closed(self._connection.target, self._attempts)

    def reply(self, attempt: Any) -> ChangeReply | float:
        """The reply of an attempt, which is waited for; or the seconds after which the next one is to begin. Raises its error."""
        try:
            return self._reply(attempt.result())
        except grpc.FutureCancelledError as error:
            raise self.closed() from error
        except grpc.RpcError as error:
            trailers = list(attempt.trailing_metadata() or ())
            wait = self._retry.wait_named(self._attempts, attempt.code(), trailers)
            if wait is None or wait >= self._deadline.left():
                target, message = self._connection.target, attempt.details() or ""
                raise from_change(target, attempt.code(), message, self._attempts, says_when(trailers)) from error
            return wait
