"""Deadlines and retries of a call: which failures are retried, and when.

A deadline covers all attempts. UNAVAILABLE and RESOURCE_EXHAUSTED are retried, and nothing else. Calls that change an index have names
(`request_key`), by which the server makes each of them once, also where the connection was lost before its reply.

Where a server says in the trailer `grpc-retry-pushback-ms` after which time it accepts a retry, a random wait follows that time, so that
clients refused together do not come back together.
"""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Iterable

import grpc

PUSHBACK = "grpc-retry-pushback-ms"
#: Seconds: a day. With a time that does not fit gRPC's header a call would end at once.
_LONGEST_TIMEOUT = 86_400
#: Milliseconds: a server that asks for more accepts no retry.
_LONGEST_PUSHBACK = 2**31
_PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """When a call is tried again."""

    #: Attempts per call, the first one included; 1: no retries.
    attempts: int = 3
    #: Seconds: the longest wait before the second attempt; doubles from there. The wait is drawn between 0 and that ("full jitter").
    first_wait: float = 0.1
    #: Seconds: the longest that such a wait becomes. It is added to the time that a server asks for.
    longest_wait: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"`attempts`: expected at least 1, got {self.attempts}. 1 makes no retries")
        for name in ("first_wait", "longest_wait"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{name}`: expected a finite number of seconds, at least 0, got {value}")

    def wait(
        self,
        attempt: int,
        code: grpc.StatusCode,
        trailers: Iterable[tuple[str, str | bytes]] | None,
        draw: Callable[[], float] = random.random,
    ) -> float | None:
        """Seconds to wait after attempt `attempt` (from 1) has failed; None where it is not tried again."""
        if code not in _PASSING or attempt >= self.attempts:
            return None
        asked = _pushback(trailers)
        if not 0 <= asked <= _LONGEST_PUSHBACK:
            return None
        return asked / 1000 + draw() * min(self.first_wait * 2.0 ** min(attempt - 1, 60), self.longest_wait)

    def wait_named(
        self,
        attempt: int,
        code: grpc.StatusCode,
        trailers: Iterable[tuple[str, str | bytes]] | None,
        draw: Callable[[], float] = random.random,
    ) -> float | None:
        """The same for a call that changes something and has a name: None too where the server is full and does not say when it is not. Where
        a connection was lost, the next attempt is answered as the first one was, if that was made."""
        listed = list(trailers or ())
        is_lost = code is grpc.StatusCode.UNAVAILABLE
        return self.wait(attempt, code, listed, draw) if is_lost or says_when(listed) else None


def says_when(trailers: Iterable[tuple[str, str | bytes]]) -> bool:
    """Whether the server says when, or that never, to send the call again: nothing was done about it."""
    return any(name == PUSHBACK for name, _ in trailers)


def _pushback(trailers: Iterable[tuple[str, str | bytes]] | None) -> int:
    """Milliseconds after which the server accepts a retry; negative: never, as is a value that is no number (gRFC A6). 0 where it does
    not say."""
    for name, value in trailers or ():
        if name == PUSHBACK:
            try:
                return int(value)
            except ValueError:
                return -1
    return 0


def checked_timeout(timeout: float) -> float:
    """A timeout in seconds that gRPC accepts."""
    if not 0 < timeout <= _LONGEST_TIMEOUT:
        raise ValueError(f"`timeout`: expected seconds above 0 and at most {_LONGEST_TIMEOUT}, got {timeout}")
    return timeout


class Deadline:
    """The time that is left to a call and all its attempts."""

    def __init__(self, timeout: float) -> None:
        self._end = time.monotonic() + checked_timeout(timeout)

    def left(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(self._end - time.monotonic(), 0.0)
