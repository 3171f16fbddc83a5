"""The model calls that ended last, whichever attempt made them: how long they took and what became of them.

Kept in memory only: it tells how an endpoint is doing now, and no result depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from proctor.errors import Fault
from proctor.runtime.clock import Clock

CALLS_REMEMBERED = 50

RATE_LIMITED = "model.rate_limited"
"""The code of a call that was refused because there were too many (HTTP 429)."""


class Call(NamedTuple):
    """One call; `code` says why there was no answer, None where there was one."""

    seconds: float
    code: str | None


class CallMeter:
    """Remembers the calls of an invocation that ended last."""

    def __init__(self) -> None:
        self.last: deque[Call] = deque(maxlen=CALLS_REMEMBERED)

    def note(self, seconds: float, code: str | None) -> None:
        """Remember a call that has ended."""
        self.last.append(Call(seconds, code))


METER: ContextVar[CallMeter | None] = ContextVar("proctor_calls", default=None)
"""That of the invocation on whose behalf something is done; None where nobody looks."""


@contextmanager
def noted_call(clock: Clock) -> Generator[None]:
    """Remember the call that is made inside, unless it is cancelled: then nobody knows what would have come of it."""
    meter = METER.get()
    began = clock.monotonic()
    try:
        yield
    except Exception as error:
        if meter is not None:
            meter.note(clock.monotonic() - began, error.code if isinstance(error, Fault) else "internal")
        raise
    else:
        if meter is not None:
            meter.note(clock.monotonic() - began, None)
