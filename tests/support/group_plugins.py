"""A benchmark with task groups and a harness that does as it is told, for tests of the whole program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.errors import ExperimentFatal, SkipTask, TaskFatal
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, Capabilities, Collected, Message, Turn
from proctor.plugins.groups import Group, OnUnavailable
from proctor.providers.local import LocalProvider

DEEDS: dict[str, Callable[[], BaseException]] = {
    "task": lambda: TaskFatal("the data of this task is gone"),
    "experiment": lambda: ExperimentFatal("the licence has run out"),
    "skip": lambda: SkipTask("not here"),
    "crash": lambda: RuntimeError("boom"),
}


def note(path: str | None, line: str) -> None:
    """Write a line to the trace."""
    if path:
        with Path(path).open("a") as file:
            file.write(line + "\n")


class GroupedOptions(BaseModel):
    tasks: int = 3
    groups: dict[str, list[str]] = {}
    """Members by the name of the group; tasks are called t0, t1 and so on."""
    on_unavailable: str = "stop-group"
    deed: str = ""
    """What preparing the task `t0` raises."""
    trace: str | None = None


class Grouped:
    """Tasks that pass when the answer is "ok"."""

    name = "grouped"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.REUSE
    gradings = (GradingMode.REUSE, GradingMode.FRESH, GradingMode.NONE)
    options = GroupedOptions

    def __init__(self, options: GroupedOptions) -> None:
        self.settings = options

    async def tasks(self) -> list[Task]:
        group_of = {task: name for name, members in self.settings.groups.items() for task in members}
        grader = Component("text", {"expected": "ok"})
        names = [f"t{number}" for number in range(self.settings.tasks)]
        return [Task(name, grader, prompt=name, group=group_of.get(name)) for name in names]

    def groups(self) -> list[Group]:
        choice = OnUnavailable(self.settings.on_unavailable)
        return [Group(name, choice, self._prepare(name), self._clear(name)) for name in self.settings.groups]

    def _prepare(self, name: str) -> Callable[[Any], Awaitable[None]]:
        async def prepare(sandbox: Any) -> None:
            note(self.settings.trace, f"setup {name} {sandbox.id}")
            sandbox.state["group"] = name

        return prepare

    def _clear(self, name: str) -> Callable[[Any], None]:
        return lambda sandbox: note(self.settings.trace, f"teardown {name} {sandbox.id} {sandbox.state['group']}")

    async def setup(self, ctx: AttemptContext) -> None:
        if self.settings.deed and ctx.task.id == "t0":
            raise DEEDS[self.settings.deed]()


class DoerOptions(BaseModel):
    deed: str = ""
    """What it raises, working on the task `on`, from attempt number `at` of it on."""
    on: str = "t0"
    at: int = 1
    times: int = 1
    where: str = "send"
    sandbox: bool = False
    trace: str | None = None


class Doer:
    """Answers "ok", unless it is told to raise something."""

    name = "doer"
    version = "1"
    isolated_attempts = True
    needs_model = False
    options = DoerOptions

    def __init__(self, options: DoerOptions) -> None:
        self.settings = options
        self.needs_sandbox = options.sandbox
        self.count = 0
        self.done = 0

    async def start(self, ctx: AttemptContext) -> DoerSession:
        self.count += ctx.task.id == self.settings.on
        self.act("start", ctx)
        return DoerSession(self, ctx)

    def act(self, where: str, ctx: AttemptContext) -> None:
        settings = self.settings
        due = settings.where == where and ctx.task.id == settings.on and self.count >= settings.at
        if settings.deed and due and self.done < settings.times:
            self.done += 1
            raise DEEDS[settings.deed]()


class DoerSession:
    def __init__(self, harness: Doer, ctx: AttemptContext) -> None:
        self._harness = harness
        self._ctx = ctx

    async def send(self, message: Message) -> Turn:
        try:
            sandbox = self._ctx.sandbox
            note(self._harness.settings.trace, f"{self._ctx.task.id} {sandbox.id} {sandbox.state}")
        except RuntimeError:  # there is none
            note(self._harness.settings.trace, self._ctx.task.id)
        self._harness.act("send", self._ctx)
        return Turn("ok")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass


class NoReuse(LocalProvider):
    """Sandboxes for one attempt each."""

    name = "no-reuse"
    capabilities = Capabilities()
