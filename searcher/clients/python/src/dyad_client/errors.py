"""Exceptions: one class per gRPC status that a searcher answers with.

Arguments that cannot be sent at all are refused before a call, with `ValueError` or `TypeError`.
"""

from __future__ import annotations

import grpc


class DyadError(Exception):
    """A call that failed. `__cause__` is the error of gRPC, where there is one."""

    def __init__(self, description: str, *, code: grpc.StatusCode | None = None, message: str = "", attempts: int = 1) -> None:
        super().__init__(description)
        #: gRPC status; None for `InvalidReply`.
        self.code = code
        #: The message of the server, or of the transport.
        self.message = message or description
        #: Attempts made, the first one included.
        self.attempts = attempts


class InvalidArgument(DyadError, ValueError):
    """The server refuses the request; the message names the field."""


class NotFound(DyadError):
    """Something that the request names does not exist."""


class Busy(DyadError):
    """The server is full (RESOURCE_EXHAUSTED). It passes by itself."""


class DeadlineExceeded(DyadError, TimeoutError):
    """No reply within the deadline."""


class Unavailable(DyadError):
    """No server answers, or it is about to end."""


class FailedPrecondition(DyadError):
    """The index or the server is not in the state that the request needs, for example an index of another model."""


class OutOfRange(DyadError):
    """The reply would be too large: ask for `keys_only`, fewer `fields` or a smaller `k`."""


class Unauthenticated(DyadError):
    """The key is missing or not valid."""


class PermissionDenied(DyadError):
    """The key does not allow this call."""


class Unimplemented(DyadError):
    """The server has no such call: another service, or an earlier release, listens at this address."""


class Cancelled(DyadError):
    """The call was cancelled, for example because the client was closed."""


class Internal(DyadError):
    """An error inside the server or the transport."""


class InvalidReply(DyadError):
    """A reply that is against the contract. Check that client and server are of the same release."""


_CLASSES: dict[grpc.StatusCode, type[DyadError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Busy,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INTERNAL: Internal,
}


def from_status(target: str, code: grpc.StatusCode, message: str, attempts: int = 1) -> DyadError:
    """The exception for a gRPC status."""
    if code is grpc.StatusCode.UNAVAILABLE:
        # Of a server that is about to end, or of the transport.
        tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        description = f"`{target}` is unavailable ({tried}): {message}. Start the server, or check the address"
    elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
        description = f"`{target}` did not answer within the deadline: {message}. Give a longer `timeout`"
    elif code is grpc.StatusCode.UNIMPLEMENTED:
        description = f"`{target}` refused (UNIMPLEMENTED): {message}. Another service, or an earlier release, listens at this address"
    else:
        description = f"`{target}` refused ({code.name}): {message}"
    return _CLASSES.get(code, DyadError)(description, code=code, message=message, attempts=attempts)


def closed(target: str, attempts: int) -> Cancelled:
    """The exception for a call of a client that was closed."""
    message = "the client was closed"
    return Cancelled(f"`{target}`: {message}", code=grpc.StatusCode.CANCELLED, message=message, attempts=attempts)


def ended_early(target: str, answered: int, why: str = "") -> Unavailable:
    """The exception for a stream that the server has ended, as where it shuts down, after `answered` replies and before there were no more requests."""
    message = f"the server ended the stream after {answered} replies{why}"
    fix = "" if why else ". Send the requests after these again"
    description = f"`{target}` is unavailable: {message}{fix}"
    return Unavailable(description, code=grpc.StatusCode.UNAVAILABLE, message=message)
