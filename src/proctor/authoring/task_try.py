"""`t`: what the function of a task is given, one for each try."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from proctor.authoring.always_true import why_always_true
from proctor.authoring.awaiting import Awaiting
from proctor.authoring.places import caller, place_of_frame
from proctor.authoring.recorded_checks import CheckRecord
from proctor.authoring.shown_values import clean_text, shown_pair, shown_value
from proctor.authoring.task_sessions import Sessions, TaskSession
from proctor.authoring.work_diff import Diff, DiffWatch
from proctor.model.attempt import NO_USAGE, Check, Usage
from proctor.model.spec import Json, Task
from proctor.plugins.api import AgentSandbox, AttemptContext, Turn

_MISSING: Any = object()


class RequireFailed(BaseException):
    """`t.require` was not true: the function is over. No `Exception`, so that no handler of a task takes it for one."""


class TaskTry:
    """One try of a task, as its function sees it."""

    def __init__(
        self,
        ctx: AttemptContext,
        sessions: Sessions,
        first: TaskSession,
        *,
        record: CheckRecord,
        awaiting: Awaiting,
        watch: DiffWatch,
        project: Path,
    ) -> None:
        self._ctx = ctx
        self._sessions = sessions
        self._first = first
        self._record = record
        self._awaiting = awaiting
        self._watch = watch
        self._project = project
        self._answer: Any = _MISSING

    # ---------------------------------------------------------------------------------------------------- the agent

    def send(self, text: str) -> Coroutine[Any, Any, Turn]:
        """Send a text to the agent and wait for its turn: `turn = await t.send("...")`.

        The turn has `answer`, and `usage` and `steps` where they are known. A further call is another turn of the same
        session. Raises what the harness raises, and `Fault` for a turn that the harness cannot make.
        """
        return self._awaiting.watch(self._first._send(text), "t.send(...)")  # pyright: ignore[reportPrivateUsage]

    def new_session(self) -> Coroutine[Any, Any, TaskSession]:
        """Start another session of the same harness, which knows nothing of the first: `s = await t.new_session()`."""
        return self._awaiting.watch(self._sessions.open(), "t.new_session()")

    @property
    def answer(self) -> str | None:
        """The answer of the attempt: that of the last turn of `t.send`, unless the function sets another."""
        return self._first.answer if self._answer is _MISSING else self._answer

    @answer.setter
    def answer(self, answer: str | None) -> None:
        if answer is not None and not isinstance(cast("Any", answer), str):
            raise TypeError(f"the answer must be a text or None, not {type(answer).__name__}")
        self._answer = answer

    @property
    def usage(self) -> Usage:
        """What the calls of the agent used so far."""
        return getattr(self._ctx, "used", NO_USAGE)

    # --------------------------------------------------------------------------------------------------- the checks

    def check(self, label: str, value: object, *, expected: Any = _MISSING, actual: Any = _MISSING) -> bool:
        """Record whether something is true, and return it. The task is passed if it checks, and all of it is true.

        `expected` and `actual` are for people who read why it was not. Raises `TypeError` for a value that is always
        true, such as a coroutine, a function or the result of a command as a whole.
        """
        return self._check(label, value, expected, actual)

    def require(self, label: str, value: object, *, expected: Any = _MISSING, actual: Any = _MISSING) -> None:
        """Check something without which the rest makes no sense: where it is not true, the function ends here."""
        if not self._check(label, value, expected, actual):
            raise RequireFailed(label)

    def score(self, name: str, value: float) -> None:
        """Record a sub-score, any finite number; the last one by a name counts. It does not decide who passes."""
        self._record.go_on()
        self._record.score(name, value, place_of_frame(caller(1), self._project))

    def _check(self, label: Any, value: Any, expected: Any, actual: Any) -> bool:
        self._record.go_on()
        if type(label) is bool:
            raise TypeError(f"the label of a check comes first, and then the value: the label is {label}")
        if problem := why_always_true(value):
            raise TypeError(f"check `{shown_value(label)}` was given {problem}")
        ok = bool(value)
        if expected is _MISSING and actual is _MISSING:
            expected, actual = True, value
        shown: tuple[str | None, str | None] = (None, None)
        if expected is not _MISSING and actual is not _MISSING:
            shown = shown_pair(expected, actual)
        elif expected is not _MISSING:
            shown = (shown_value(expected), None)
        else:
            shown = (None, shown_value(actual))
        label = clean_text(label) if type(label) is str else shown_value(label)
        self._record.add(Check(label, ok, *shown, source=place_of_frame(caller(2), self._project)))
        return ok

    # -------------------------------------------------------------------------------------------------- the sandbox

    @property
    def sandbox(self) -> AgentSandbox:
        """The agent's sandbox: `await t.sandbox.exec("npm test")`, `.write`, `.read`, `.upload`, `.download`.

        Raises `RuntimeError` for a task with `sandbox=False`, unless the harness needs one.
        """
        return cast("AgentSandbox", _AwaitedSandbox(self._ctx.sandbox, self._awaiting))

    @property
    def diff(self) -> Diff:
        """How the work directory differs, after the last turn, from what it was just before the first."""
        return self._watch.diff()

    # --------------------------------------------------------------------------------------------------------- more

    @property
    def task(self) -> Task:
        """The task: `t.task.id`, `t.task.tags`."""
        return self._ctx.task

    @property
    def attempt(self) -> str:
        """The id of the attempt."""
        return self._ctx.attempt

    @property
    def flags(self) -> Mapping[str, Json]:
        """Free values of the experiment."""
        return self._ctx.flags

    @property
    def model(self) -> str | None:
        """The id of the model, None where the experiment has none."""
        try:
            return self._ctx.model.spec.id
        except RuntimeError:
            return None

    @property
    def log(self) -> logging.Logger:
        """The log of this try, kept in `try.log`."""
        return self._ctx.log


class _AwaitedSandbox:
    """A sandbox whose calls are looked after: one that nobody awaited did nothing, and that is said."""

    def __init__(self, sandbox: AgentSandbox | Any, awaiting: Awaiting) -> None:
        self._sandbox = sandbox
        self._awaiting = awaiting

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._sandbox, name)
        return partial(self._call, name, found) if inspect.iscoroutinefunction(found) else found

    def _call(self, name: str, method: Any, /, *arguments: Any, **options: Any) -> Any:
        return self._awaiting.watch(method(*arguments, **options), f"t.sandbox.{name}(...)")


__all__ = ["RequireFailed", "TaskTry"]
