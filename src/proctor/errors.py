"""The exception tree, and the boundary where a failure gets an owner.

    Exception
    └── ProctorError              something that is said in one message, with a hint
        ├── UsageError            wrong options, names or files: nothing started (exit 2)
        │   ├── UnknownName       a name that nobody registered; names the nearest known
        │   ├── MissingPackage    an optional package is not installed; has the exact install line
        │   └── PluginLoadError   a plugin is registered and cannot be loaded; names its distribution
        ├── NothingToRun          no task matches, or the benchmark is empty (exit 4)
        ├── StoreError            results cannot be read or written
        │   ├── CannotStart       found before anything was started (exit 2)
        │   ├── JournalLocked     another process writes this journal
        │   └── JournalDamaged    a journal cannot be read up to its last complete event
        └── InternalError         a bug of ours: the run directory is kept and named (exit 70)
    ├── Fault                     what a plugin may raise to choose the code of the issue itself
    │   ├── TaskFatal             the undispatched attempts of the task make no sense any more
    │   └── ExperimentFatal       those of the whole experiment do not
    └── SkipTask                  the task does not apply: skipped, no score

Plugins raise plain exceptions. `boundary(owner, phase)` turns whatever crosses it into a `Fault` with a code of the
table; a `Fault` passes unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from proctor.model.attempt import Issue, Phase, issue_of
from proctor.model.bounds import DESCRIPTION_CHARACTERS, shortened

if TYPE_CHECKING:
    from asyncio import Task


class ProctorError(Exception):
    """Something that is said to a person: lower case, what failed, on what, why; `hint` is an action."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ProctorError):
    """Wrong options, names or files; nothing was started."""


class UnknownName(UsageError):
    """A name that nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, list_with: str) -> None:
        near = nearest(name, known)
        middle = f"; did you mean `{near}`?" if near else ""
        super().__init__(f"unknown {kind} `{name}`{middle}", hint=f"`{list_with}` lists all")
        self.nearest = near


class MissingPackage(UsageError):
    """An optional package is not installed."""

    def __init__(self, what: str, package: str, *, install: str) -> None:
        super().__init__(f"{what} needs the package `{package}`, which is not installed", hint=f"run `{install}`")


class PluginLoadError(UsageError):
    """A plugin is registered and cannot be loaded."""


class NothingToRun(ProctorError):
    """No task matches, or the benchmark is empty."""


class StoreError(ProctorError):
    """Results cannot be read or written."""


class CannotStart(StoreError):
    """Results cannot be written; this was found before anything was started, and nothing of the run is left behind."""


class JournalLocked(StoreError):
    """Another process writes this journal."""


class JournalDamaged(StoreError):
    """A journal cannot be read up to its last complete event."""


class InternalError(ProctorError):
    """A bug of ours."""


class Fault(Exception):
    """A failure with a code of the table (`proctor.model.codes`); plugins may raise it to choose the code.

    `refused` says that what was asked for was not taken on, so that asking again repeats nothing; `retry_after` is the
    header of that name as it came (seconds or a date). Raises `KeyError` for a code that is not in the table.
    """

    refused: bool = False
    retry_after: str | None = None
    crash: str | None = None
    """The code that an exception without one would have had where this one crossed the boundary first."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        phase: Phase | None = None,
        refused: bool = False,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.issue = issue_of(code, message, phase)
        self.refused = refused
        self.retry_after = retry_after

    @property
    def code(self) -> str:
        """The code of the issue."""
        return self.issue.code


class TaskFatal(Fault):
    """The task is broken in a way that no other attempt will mend: its undispatched attempts are stopped."""

    def __init__(self, message: str = "no reason was given") -> None:
        super().__init__("task.fatal", message)


class ExperimentFatal(Fault):
    """The experiment makes no sense any more: its undispatched attempts are stopped."""

    def __init__(self, message: str = "no reason was given") -> None:
        super().__init__("experiment.fatal", message)


class SkipTask(Exception):
    """The task does not apply here: the attempt is skipped and has no score."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None when none is near."""
    folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return folded[found[0]] if found else None


def describe(error: BaseException) -> str:
    """Return `Type: text` of an exception on one line, also of one whose own text conversion raises.

    Of a text beyond `DESCRIPTION_CHARACTERS` the beginning and the end are returned.
    """
    try:
        text = str(error)
    except BaseException as broken:  # the text of a plugin's exception is a plugin's code
        text = f"<its text cannot be shown: {type(broken).__name__}>"
    text = " ".join(shortened(text, DESCRIPTION_CHARACTERS).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


CODE_OF_PHASE: dict[Phase, str] = {
    Phase.OPEN: "provider.open_failed",
    Phase.SETUP: "task.setup_failed",
    Phase.AGENT: "harness.crashed",
    Phase.COLLECT: "collect.failed",
    Phase.GRADE: "grader.crashed",
    Phase.DISPOSE: "dispose.failed",
}
"""The code of an exception that says nothing of itself, by the phase in which it crossed the boundary."""


def fault_of(error: BaseException, phase: Phase, code: str | None = None) -> Fault:
    """Return `error` as a fault: itself if it is one (it learns its phase), else with `code`, else the phase's code.

    A fault of a class whose `__init__` never called that of `Fault` says nothing: it is taken for any other exception.
    """
    crash = code or CODE_OF_PHASE[phase]
    fault = error if isinstance(error, Fault) else None
    if fault is None or not isinstance(getattr(fault, "issue", None), Issue):
        fault = Fault(crash, describe(error), phase=phase)
    elif fault.issue.phase is None:
        fault.issue = replace(fault.issue, phase=phase)
    fault.crash = fault.crash or crash
    return fault


_asked: WeakSet[Any] = WeakSet()
"""Tasks that were asked to end by whoever made them."""


def ask_to_end(task: Task[Any]) -> None:
    """Cancel a task that executes code of plugins, so that `boundary` knows the cancellation from one of their own."""
    _asked.add(task)
    task.cancel()


def go_on() -> None:
    """Raise `CancelledError` where the task that executes this was asked to end: a plugin swallowed its cancellation.

    To be called before anything more is done on behalf of a phase that is over.
    """
    if (task := _current_task()) is not None and task in _asked:
        from asyncio import CancelledError  # noqa: PLC0415 - at the top it would cost every start 45 ms

        raise CancelledError


@contextmanager
def boundary(phase: Phase, code: str | None = None) -> Generator[None]:
    """Turn what escapes a plugin into a `Fault`; `SkipTask` and a cancellation by `ask_to_end` pass unchanged.

    Whatever a plugin raises is data here, `SystemExit` and `KeyboardInterrupt` included: a plugin does not end the run.
    Any other `CancelledError` and a `TimeoutError` are the plugin's own: put a limit around the boundary, not inside
    it. To be used inside a task; in one that was asked to end nothing is begun any more.
    """
    from asyncio import CancelledError  # noqa: PLC0415 - as above

    go_on()
    try:
        yield
    except SkipTask:
        raise
    except Fault as error:
        fault = fault_of(error, phase, code)
        if fault is error:
            raise
        raise fault from error
    except CancelledError as error:
        task = _current_task()
        if task is not None:
            if task in _asked:
                raise
            while task.uncancel():  # nobody else asked for it
                pass
        raise Fault(code or CODE_OF_PHASE[phase], "it raised CancelledError by itself", phase=phase) from error
    except BaseException as error:
        if isinstance(error, GeneratorExit) and _current_task() is None:
            raise  # nobody failed: a coroutine that was abandoned is thrown away
        raise fault_of(error, phase, code) from error


def _current_task() -> Task[Any] | None:
    """Return the task that executes this, if there is one."""
    from asyncio import current_task  # noqa: PLC0415 - as above

    try:
        return current_task()
    except RuntimeError:  # there is no event loop
        return None
