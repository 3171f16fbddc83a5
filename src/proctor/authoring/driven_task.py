"""The session of a try of a Python task: its one turn is the function of the task, which talks to the agent itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import cast

from proctor.authoring.awaiting import Awaiting
from proctor.authoring.left_running import end_left, noting_tasks
from proctor.authoring.places import code_of_traceback, place_of_traceback
from proctor.authoring.recorded_checks import RECORD_NAME, CheckRecord
from proctor.authoring.shown_values import clean_text
from proctor.authoring.task_sessions import Sessions, TaskSession
from proctor.authoring.task_try import RequireFailed, TaskTry
from proctor.authoring.tasks import PythonTask
from proctor.authoring.work_diff import DiffWatch
from proctor.errors import Fault, SkipTask, boundary, describe, go_on
from proctor.model.attempt import Check, Phase
from proctor.plugins.api import AttemptContext, Collected, Message, Sandbox, StartSession, Turn

CRASHED = "task.crashed"


class DrivenTask:
    """Runs the function of a task once, and keeps what it checked.

    The record of checks is made here, in memory, and is put beside the files of the harness under a name that none of
    them can have: no sandbox and no harness can give a grader another.
    """

    def __init__(
        self,
        declared: PythonTask,
        project: Path,
        ctx: AttemptContext,
        start: StartSession,
        *,
        mentioned: Collection[str],
    ) -> None:
        self._declared = declared
        self._mentioned = mentioned
        self._project = project
        self._ctx = ctx
        self._awaiting = Awaiting(project)
        self._sessions = Sessions(ctx, start, self._awaiting)
        self._record = CheckRecord()
        self._first: TaskSession | None = None

    async def begin(self) -> None:
        """Start the first session of the harness, in phase setup."""
        self._first = await self._sessions.open()

    async def send(self, message: Message) -> Turn:
        """Run the function. Raises `Fault` (task.crashed) for what it raises itself, and what turns raise unchanged."""
        assert self._first is not None, "the session has begun"
        wanted = self._declared.options.get("diff", "diff" in self._mentioned)
        with_texts = "patch" in self._mentioned or "text" in self._mentioned
        watch = DiffWatch(self._sandbox(), wanted=wanted, with_texts=with_texts)
        self._sessions.before_turn, self._sessions.after_turn = watch.before_turn, watch.after_turn
        self._sessions.begin()
        t = TaskTry(
            self._ctx, self._sessions, self._first, record=self._record, awaiting=self._awaiting, watch=watch,
            project=self._project,
        )  # fmt: skip
        try:
            with boundary(Phase.AGENT, CRASHED):
                await self._run(t)
        finally:
            self._record.closed = True
        go_on()  # a function that swallowed its cancellation did not come to its end
        self._record.ended = True
        return Turn(t.answer)

    async def _run(self, t: TaskTry) -> None:
        """Call the function, and say of what it raises where that comes from."""
        forgotten: str | None = None
        try:
            with noting_tasks() as started:
                try:
                    returned = await self._declared(t)
                except RequireFailed:
                    returned = None
                finally:
                    left = end_left(started, self._project)
                    forgotten = self._awaiting.trouble() or left
        except BaseExceptionGroup as group:
            found = _telling(group)
            if isinstance(found, RequireFailed) or (found is None and self._asserted(*_leaves(group))):
                return
            if found is None:
                raise self._crash(group, forgotten) from group
            raise found from group
        except (Fault, SkipTask):
            raise
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            if forgotten is None and self._asserted(error):
                return
            raise self._crash(error, forgotten) from error
        if forgotten is not None:
            raise Fault(CRASHED, forgotten)
        if returned is not None:
            raise Fault(
                CRASHED,
                f"{self._declared.place}: the function of task `{self._declared.name}` returned "
                f"{type(returned).__name__}, which counts for nothing: say it with `t.check(label, value)`",
            )

    def _asserted(self, *errors: BaseException) -> bool:
        """Record assertions of the project that did not hold as checks; False, and nothing, where any error is other.

        What proctor itself asserts is no check of the agent.
        """
        found: list[Check] = []
        for error in errors:
            code = code_of_traceback(error.__traceback__, self._project)
            if not isinstance(error, AssertionError) or code is None:
                return False
            place, line = code
            said = clean_text(str(error))
            found.append(Check(clean_text(line), ok=False, expected="True", actual=said or "False", source=place))
        for check in found:
            self._record.add(check)
        return True

    def _crash(self, error: BaseException, forgotten: str | None) -> Fault:
        """Return what is said of an exception; what was not awaited comes first, since it may be the cause."""
        place = place_of_traceback(error.__traceback__, self._project)
        said = f"{place}: {describe(error)}" if place else describe(error)
        return Fault(CRASHED, f"{forgotten}; {said}" if forgotten else said)

    def _sandbox(self) -> Sandbox | None:
        try:
            return self._ctx.sandbox
        except RuntimeError:  # neither the task nor the harness needs one
            return None

    async def collect(self) -> Collected:
        """Return the trajectory of the first session, the files of all, and what was checked so far."""
        record = self._record.encoded()  # what a function says that was abandoned comes too late
        collected = await self._sessions.collect()
        return Collected(collected.trajectory, {**collected.files, RECORD_NAME: record})

    async def close(self) -> None:
        """Close all sessions of the harness."""
        await self._sessions.close()


def _telling(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return what decides in a group: what the agent or its sandbox met, before what was required and was not true."""
    leaves = list(_leaves(group))
    for kinds in (Fault, SkipTask, RequireFailed):
        for leaf in leaves:
            if isinstance(leaf, kinds):
                return leaf
    return None


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for one in group.exceptions:
        inner = cast("BaseExceptionGroup[BaseException]", one)
        found += _leaves(inner) if isinstance(one, BaseExceptionGroup) else [one]
    return found


__all__ = ["DrivenTask"]
