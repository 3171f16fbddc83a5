"""Plugins that fail at first, and plugins that say too much: named by dotted path, as `flaky:Story`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import BaseModel

from proctor.errors import Fault
from proctor.model.attempt import Grade, GradingMode, Usage
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Sandbox, Turn
from proctor.providers.local import LocalProvider


class Unsteady(LocalProvider):
    """Fails to open the first sandboxes of the whole run, then works: `UNSTEADY_OPENS` says how many."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Sandbox:
        self.asked += 1
        if self.asked <= int(os.environ.get("UNSTEADY_OPENS", "0")):
            raise OSError(f"no room for sandbox {self.asked}")
        return await super().open(environment, labels)


class Nothing(BaseModel):
    pass


class StoryOptions(BaseModel):
    """What happens in each try of a task, separated by commas, by task: the last goes on for ever.

    `ok` and `wrong` are answers, `crash` raises, `exit` and `warn` record an ERROR or a WARNING issue and answer "ok",
    `slow` records a permanent ERROR issue, and `fatal` raises a permanent failure.
    """

    tries: dict[str, str] = {}
    message: str = "no reason"
    cost_usd: float | None = None


class Story:
    """Does in each try what it was told to."""

    name = "story"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = StoryOptions

    def __init__(self, options: StoryOptions) -> None:
        self.settings = options
        self.begun: dict[str, int] = {}

    async def start(self, ctx: AttemptContext) -> StorySession:
        number = self.begun[ctx.task.id] = self.begun.get(ctx.task.id, 0) + 1
        steps = self.settings.tries.get(ctx.task.id, "ok").split(",")
        return StorySession(ctx, steps[min(number, len(steps)) - 1], number, self.settings)


class StorySession:
    def __init__(self, ctx: AttemptContext, step: str, number: int, settings: StoryOptions) -> None:
        self._ctx = ctx
        self._step = step
        self._number = number
        self._settings = settings

    async def send(self, message: Message) -> Turn:
        for line in range(10):
            self._ctx.log.info("try %d, line %d", self._number, line)
        if self._settings.cost_usd is not None:
            self._ctx.usage(Usage(calls=1, input_tokens=10, output_tokens=1, cost_usd=self._settings.cost_usd))
        said = self._settings.message
        if self._step == "crash":
            raise RuntimeError(f"E{self._number}: {said}")
        if self._step == "fatal":
            raise Fault("task.fatal", said)
        codes = {"exit": "harness.exit_nonzero", "warn": "output.truncated", "slow": "grade.time"}
        if self._step in codes:
            self._ctx.issue(codes[self._step], said)
        return Turn("no" if self._step == "wrong" else "ok")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass


class Twice:
    """A benchmark whose grader breaks at its first go at each task, in a run of one process."""

    name = "twice"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def tasks(self) -> list[Task]:
        return [Task(name, Component("flaky:BreaksOnce")) for name in ("one", "two")]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class BreaksOnce:
    """Raises the first time that it grades a task."""

    name = "breaks-once"
    reward_files = ()
    version = "1"
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        self._seen: set[str] = set()

    async def grade(self, ctx: GradeContext) -> Grade:
        if ctx.task.id not in self._seen:
            self._seen.add(ctx.task.id)
            raise ZeroDivisionError("the first time")
        return Grade(ctx.answer == "ok", 1.0 if ctx.answer == "ok" else 0.0)
