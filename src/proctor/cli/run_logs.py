"""The log of proctor while invocations run: all of it goes to their files, and to the console what it asked for.

Loggers of other packages reach the files from INFO on (or from the level that they were given), the console from
WARNING on. What is logged inside a try goes to the run.log of its run, and to its try.log; what is of no try goes to
every run of the invocation.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar

from proctor.errors import describe
from proctor.model.bounds import shortened
from proctor.runtime.log_scope import PRINTED, SCOPE, is_ours
from proctor.runtime.redact import Redactor

CONSOLE_CHARACTERS = 2_000
"""So much of a record is shown on the console; files keep more."""

_ROOT = logging.getLogger("proctor")
_CURRENT: ContextVar[str | None] = ContextVar("proctor_invocation", default=None)
_ACTIVE: list[str] = []


class OfInvocation(logging.Filter):
    """Lets through what was logged on behalf of one invocation, or of none that is known.

    With `experiment`, not what was logged inside a try of another one.
    """

    def __init__(self, invocation: str, experiment: str | None = None) -> None:
        super().__init__()
        self._invocation = invocation
        self._experiment = experiment

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record belongs here."""
        scope = SCOPE.get()
        experiment = None if scope is None else scope.fields.get("experiment")
        of_run = self._experiment is None or experiment in (None, self._experiment)
        return of_run and _CURRENT.get() in (None, self._invocation)


class _Onward(logging.Handler):
    """Hands records on to the handlers of the program around proctor, as if nobody had changed the level."""

    def emit(self, record: logging.LogRecord) -> None:
        parent = _ROOT.parent
        if parent is not None and parent.hasHandlers():
            for handler in parent.handlers:
                if not isinstance(handler, _Foreign) and record.levelno >= handler.level:
                    handler.handle(record)


class _Foreign(logging.Handler):
    """Takes the records of other packages into the files and to the console of invocations."""

    def emit(self, record: logging.LogRecord) -> None:
        if is_ours(record):
            return
        for handler in list(_ROOT.handlers):
            if not isinstance(handler, _Onward) and record.levelno >= handler.level:
                handler.handle(record)
        _into_try_log(record)


def _into_try_log(record: logging.LogRecord) -> None:
    scope = SCOPE.get()
    if scope is not None:
        logger = scope.log.logger
        if record.levelno >= logger.level:
            logger.handle(record)


@contextmanager
def logging_of(invocation: str, *, owns_process: bool = False) -> Generator[None]:
    """Log everything of proctor, as that of `invocation` where it comes from here; several may overlap.

    With `owns_process` other packages are let through from INFO on, and warnings of Python are logged; in the process
    of somebody else their levels stay as they are. Afterwards everything is as it was before.
    """
    token = _CURRENT.set(invocation)
    if not _ACTIVE:
        _RESTORE.append(_changed(owns_process=owns_process))
    _ACTIVE.append(invocation)
    try:
        yield
    finally:
        _ACTIVE.remove(invocation)
        if not _ACTIVE:
            _RESTORE.pop().close()
        _CURRENT.reset(token)


_RESTORE: list[ExitStack] = []


def _changed(*, owns_process: bool) -> ExitStack:
    """Change the loggers, and return what changes them back."""
    root, back = logging.getLogger(), ExitStack()
    onward, foreign = _Onward(_ROOT.getEffectiveLevel()), _Foreign()
    back.callback(setattr, _ROOT, "propagate", _ROOT.propagate)
    back.callback(_ROOT.setLevel, _ROOT.level)
    back.callback(_ROOT.removeHandler, onward)
    back.callback(root.removeHandler, foreign)
    _ROOT.addHandler(onward)
    root.addHandler(foreign)
    _ROOT.propagate = False
    _ROOT.setLevel(logging.DEBUG)
    if owns_process:
        back.callback(root.setLevel, root.level)
        root.setLevel(min(root.getEffectiveLevel(), logging.INFO))
        back.callback(logging.captureWarnings, False)
        logging.captureWarnings(True)
    return back


# ---------------------------------------------------------------------------------------------------------- console


@contextmanager
def console_of(invocation: str, level: str, redactor: Redactor, say: Callable[[str], None]) -> Generator[None]:
    """Show records of an invocation from `level` on by `say`, which is called on this event loop only."""
    handler = _Console(asyncio.get_running_loop(), redactor, say)
    handler.setLevel(level)
    handler.addFilter(OfInvocation(invocation))
    _ROOT.addHandler(handler)
    try:
        yield
    finally:
        _ROOT.removeHandler(handler)
        handler.close()


class _Console(logging.Handler):
    """One line of prose for each record that no display tells in words of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, redactor: Redactor, say: Callable[[str], None]) -> None:
        super().__init__()
        self._loop = loop
        self._redactor = redactor
        self._say = say
        self._saying = False
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is shown."""
        quiet = getattr(record, "shown", False) or (not is_ours(record) and record.levelno < logging.WARNING)
        return not quiet and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record; from another thread that is left to the event loop."""
        text = self._text_of(record)
        if threading.get_ident() != self._thread:
            with suppress(RuntimeError):  # the loop is closed: there is no display any more
                self._loop.call_soon_threadsafe(self._show, text)
        elif not self._saying:  # a display that fails logs that, and must not be asked to show it
            self._show(text)

    def _show(self, text: str) -> None:
        self._saying = True
        try:
            self._say(text)
        finally:
            self._saying = False

    def _text_of(self, record: logging.LogRecord) -> str:
        try:
            text = record.getMessage().rstrip("\n")
        except Exception as error:  # the texts of what is logged are a plugin's code
            text = f"a line that cannot be formatted: {describe(error)}"
        if record.exc_info and isinstance(record.exc_info[1], BaseException):
            text += f": {describe(record.exc_info[1])}"
        if record.name != PRINTED:
            whose = "" if is_ours(record) else f"{record.name}: "
            text = f"{record.levelname.lower()}: {whose}{text}"
        # What is cut could end in the first half of a secret: they are taken out first.
        return shortened(self._redactor.text(text), CONSOLE_CHARACTERS)
