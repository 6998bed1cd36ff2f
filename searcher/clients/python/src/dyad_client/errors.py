"""Exceptions: one class per gRPC status that a searcher answers with.

Arguments that cannot be sent at all are refused before a call, with `ValueError` or `TypeError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from .replies import ChangeReply


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


class Aborted(DyadError):
    """Other programs changed the same documents meanwhile, and nothing was changed. Send the call again."""


class Cancelled(DyadError):
    """The call was cancelled, for example because the client was closed."""


class Internal(DyadError):
    """An error inside the server or the transport."""


class Unfinished(DyadError):
    """A call of a bulk change that failed, while others were acknowledged. `__cause__` is its error; `code` and `message` are that error's."""

    def __init__(self, cause: DyadError, reply: ChangeReply, position: int, key: str | None) -> None:
        super().__init__(f"{cause}. {so_far(reply, position, key)}", code=cause.code, message=cause.message, attempts=cause.attempts)
        #: What the acknowledged calls came to; `read` counts their documents or keys.
        self.reply = reply
        #: Documents or keys that were acknowledged.
        self.acknowledged = reply.read
        #: All before this position, from 0, were acknowledged; some after it may be.
        self.position = position
        #: The key at this position; None where nothing with a key was read there.
        self.key = key


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
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.INTERNAL: Internal,
}


#: Statuses after which a change may have been made, where its server does not say otherwise.
_UNSURE = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN")


def from_change(target: str, code: grpc.StatusCode, message: str, attempts: int, unmade: bool) -> DyadError:
    """The exception for the status of a call that changes something; `unmade`: the server has said that nothing was changed."""
    sure = unmade or code.name not in _UNSURE or "nothing was changed" in message or message.startswith("failed to connect")
    advice = "" if sure else " (the change may have been made: send it again only where nobody else changes these documents)"
    return from_status(target, code, message + advice, attempts)


def so_far(reply: ChangeReply, position: int, key: str | None) -> str:
    """How far a bulk change has come, and how to go on."""
    where = f"number {position}, counted from 0" if key is None else f"the key {key!r} (number {position}, counted from 0)"
    return f"{reply.read} were acknowledged. Go on from {where}: what comes twice is unchanged the second time"


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
