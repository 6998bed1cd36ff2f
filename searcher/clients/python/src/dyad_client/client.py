"""`Client`: a channel and its calls, with deadlines and retries. `Searcher` and `Index` are clients."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from . import calls
from .change_call import ChangeCall
from .connection import TlsConfig, connection
from .errors import DyadError, closed, from_status
from .replies import ChangeReply
from .retry import Deadline, RetryPolicy, checked_timeout

R = TypeVar("R")


class Client:
    """A client of one server."""

    def __init__(self, target: str, tls: bool | TlsConfig | None, api_key: str | None, timeout: float, retry: RetryPolicy) -> None:
        self._connection = connection(target, tls, api_key)
        self._timeout, self._retry = checked_timeout(timeout), retry
        self._closed = threading.Event()
        credentials, options = self._connection.credentials(), list(self._connection.options)
        address = self._connection.target
        self._channel = (
            grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address, options)
        )

    @property
    def target(self) -> str:
        """The server's address."""
        return self._connection.target

    def close(self) -> None:
        """Closes the connection; calls that are under way end with `Cancelled`, as do later ones."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.target!r})"

    def _call(self, call: calls.Call[R], message: Any, timeout: float | None) -> R:
        deadline, attempt = Deadline(self._timeout if timeout is None else timeout), 0
        request = calls.serialize(message)
        unary: Any = self._channel.unary_unary(call.path, None, call.parse)
        while True:
            if self._closed.is_set():
                raise closed(self._connection.target, attempt)
            attempt += 1
            try:
                return call.reply(unary(request, timeout=deadline.left(), metadata=self._connection.metadata))
            except ValueError as error:
                # Of gRPC, where the channel was closed since.
                if not self._closed.is_set():
                    raise
                raise closed(self._connection.target, attempt) from error
            except grpc.RpcError as error:
                failure: Any = error
                wait = self._retry.wait(attempt, failure.code(), failure.trailing_metadata())
                if wait is None or wait >= deadline.left():
                    raise self._error(error, attempt) from error
                self._closed.wait(wait)

    def change_call(self, call: calls.Call[ChangeReply], messages: list[bytes], timeout: float | None) -> ChangeCall:
        """A call that changes something, which has not begun."""
        timeout = self._timeout if timeout is None else timeout
        return ChangeCall(self._channel, self._connection, self._retry, call, messages, timeout)

    def _error(self, error: Any, attempts: int) -> DyadError:
        return from_status(self._connection.target, error.code(), error.details() or "", attempts)
