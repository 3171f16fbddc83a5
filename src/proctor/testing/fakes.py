"""Fakes for tests of the runner: a clock that is set, plugins that do as they are told.

What each step of a plugin does is an `Action`: a coroutine function without arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from proctor.model.attempt import Grade, GradingMode
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Session, Turn
from proctor.runtime.clock import WALL_DIGITS
from proctor.testing.actions import Action, nothing


class NoOptions(BaseModel):
    """A plugin without parameters."""

    model_config = ConfigDict(extra="forbid")


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self._now = 0.0
        self._wall = wall

    def monotonic(self) -> float:
        """Return seconds since this clock was made."""
        return self._now

    def wall(self) -> float:
        """Return seconds since the epoch, to the microsecond."""
        return round(self._wall + self._now, WALL_DIGITS)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now += seconds


class FakeBenchmark:
    """Tasks given to it; `on_setup` is what putting material into the sandbox does."""

    name = "fake"
    version = "1"
    isolated_attempts = True
    gradings = tuple(GradingMode)
    options = NoOptions

    def __init__(
        self, tasks: Iterable[Task] = (), grading: GradingMode = GradingMode.NONE, on_setup: Action = nothing
    ) -> None:
        self._tasks = tuple(tasks)
        self.grading = grading
        self._on_setup = on_setup

    async def tasks(self) -> tuple[Task, ...]:
        """Return the tasks."""
        return self._tasks

    async def setup(self, ctx: AttemptContext) -> None:
        """Do what it was told."""
        await self._on_setup()


class FakeHarness:
    """Does what it was told at each step; `on_send` returns the answer."""

    name = "fake"
    version = "1"
    isolated_attempts = True
    needs_model = False
    options = NoOptions

    def __init__(
        self,
        *,
        on_start: Action = nothing,
        on_send: Action = nothing,
        on_collect: Action = nothing,
        on_close: Action = nothing,
        needs_sandbox: bool = True,
    ) -> None:
        self.on_start, self.on_send, self.on_collect, self.on_close = on_start, on_send, on_collect, on_close
        self.needs_sandbox = needs_sandbox
        self.contexts: list[AttemptContext] = []

    async def start(self, ctx: AttemptContext) -> Session:
        """Start a session."""
        self.contexts.append(ctx)
        await self.on_start()
        return _FakeSession(self)


class _FakeSession:
    def __init__(self, harness: FakeHarness) -> None:
        self._harness = harness

    async def send(self, message: Message) -> Turn:
        """Return what the harness was told to answer."""
        return Turn(await self._harness.on_send())

    async def collect(self) -> Collected:
        """Return what the harness was told to collect."""
        return await self._harness.on_collect() or Collected()

    async def close(self) -> None:
        """Do what the harness was told."""
        await self._harness.on_close()


class FakeGrader:
    """Solved when the answer is "ok", unless told to do something else."""

    name = "fake"
    version = "1"
    options = NoOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, on_grade: Callable[[GradeContext], Awaitable[Any]] | None = None) -> None:
        self._on_grade = on_grade

    async def grade(self, ctx: GradeContext) -> Grade:
        """Grade one attempt."""
        if self._on_grade is not None:
            return await self._on_grade(ctx)
        solved = ctx.answer == "ok"
        return Grade(solved=solved, score=float(solved))


def fake_task(name: str = "t", *, needs_sandbox: bool = False) -> Task:
    """Return a task graded by a fake grader."""
    return Task(id=name, grader=Component("fake"), prompt="do it", needs_sandbox=needs_sandbox)
