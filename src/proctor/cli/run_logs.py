"""The log of proctor while invocations run: all of it goes to their files, and to others what they asked for."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_ROOT = logging.getLogger("proctor")
_CURRENT: ContextVar[str | None] = ContextVar("proctor_invocation", default=None)
_ACTIVE: list[str] = []


class OfInvocation(logging.Filter):
    """Lets through what was logged on behalf of one invocation, or of none that is known."""

    def __init__(self, invocation: str) -> None:
        super().__init__()
        self._invocation = invocation

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record belongs here."""
        return _CURRENT.get() in (None, self._invocation)


class _Onward(logging.Handler):
    """Hands records on to the handlers of the program around proctor, as if nobody had changed the level."""

    def emit(self, record: logging.LogRecord) -> None:
        parent = _ROOT.parent
        if parent is not None and parent.hasHandlers():
            parent.callHandlers(record)


@contextmanager
def logging_of(invocation: str) -> Generator[None]:
    """Log everything of proctor, as that of `invocation` where it comes from here; several may overlap.

    Afterwards the logger is as it was before.
    """
    token = _CURRENT.set(invocation)
    if not _ACTIVE:
        onward = _Onward(_ROOT.getEffectiveLevel())
        before = _ROOT.level, _ROOT.propagate
        _RESTORE.append((onward, *before))
        _ROOT.addHandler(onward)
        _ROOT.propagate = False
        _ROOT.setLevel(logging.DEBUG)
    _ACTIVE.append(invocation)
    try:
        yield
    finally:
        _ACTIVE.remove(invocation)
        if not _ACTIVE:
            onward, level, propagate = _RESTORE.pop()
            _ROOT.removeHandler(onward)
            _ROOT.propagate = propagate
            _ROOT.setLevel(level)
        _CURRENT.reset(token)


_RESTORE: list[tuple[_Onward, int, bool]] = []
