"""Benchmark `agentdojo`: tasks with tools of their own, of the package of that name (docs/agentdojo.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.data import agentdojo
from proctor.errors import Fault, UsageError
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Json, Reference, Task
from proctor.plugins.api import AttemptContext, Tool

Suite = Literal["workspace", "travel", "banking", "slack"]
SUITES: tuple[Suite, ...] = ("workspace", "travel", "banking", "slack")
LEFT_OUT = {"banking": ("user_task_5", "user_task_6", "user_task_8", "user_task_9", "user_task_10")}
"""What passes with nothing done: its check looks for nothing that was not there before."""


class AgentDojoOptions(BaseModel):
    """Which tasks there are."""

    model_config = ConfigDict(extra="forbid")

    suites: Annotated[tuple[Suite, ...], Field(min_length=1)] = SUITES
    version: str = "v1.2.2"
    """Of the tasks, as the package counts them."""


class AgentDojo:
    """The user tasks, without attacks. Raises `MissingPackage` where the package is missing."""

    name = "agentdojo"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options: type[BaseModel] = AgentDojoOptions

    def __init__(self, options: AgentDojoOptions) -> None:
        self._options = options
        self._described: dict[str, dict[str, Any]] = {}
        self.version = f"1-{agentdojo.version()}"

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks, suite by suite. Raises `UsageError` for a version that the package has not."""
        tasks: list[Task] = []
        for suite in dict.fromkeys(self._options.suites):
            told = await self._described_of(suite)
            out = LEFT_OUT.get(suite, ())
            tasks += [self._task(suite, name, one) for name, one in told["tasks"].items() if name not in out]
        return tasks

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox: the tools are all that an agent needs."""

    async def tools(self, ctx: AttemptContext) -> AgentDojoTools:
        """Return the tools of the task's suite, on a world of its own."""
        place = ctx.task.grader.params
        told = await self._described_of(place["suite"])
        return AgentDojoTools([Tool(**one) for one in told["tools"]], place)

    async def _described_of(self, suite: str) -> dict[str, Any]:
        if suite not in self._described:
            told = await agentdojo.ask({"do": "describe", "version": self._options.version, "suite": suite})
            if told["state"] == "unknown":
                what = (
                    f"{agentdojo.PACKAGE} {agentdojo.version()} has no version `{self._options.version}` of its tasks"
                )
                raise UsageError(what, hint="leave `benchmark.params.version` out, or take one such as `v1.2.2`")
            if told["state"] != "described":
                raise UsageError(f"suite `{suite}` of {agentdojo.PACKAGE} cannot be read: {told.get('why')}")
            self._described[suite] = told
        return self._described[suite]

    def _task(self, suite: str, name: str, told: Mapping[str, Any]) -> Task:
        return Task(
            id=f"{suite}-{name}",
            prompt=told["prompt"],
            grader=Component("agentdojo", {"version": self._options.version, "suite": suite, "task": name}),
            reference=Reference(answer=told["answer"], calls=tuple(told["calls"])),
            tags=(suite,),
        )


class AgentDojoTools:
    """The tools of one attempt. The world is what the calls so far make of a fresh one."""

    def __init__(self, offered: Sequence[Tool], place: Mapping[str, Json]) -> None:
        self.offered = offered
        self._place = dict(place)
        self._calls: list[dict[str, Json]] = []

    async def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Call one. Raises `Fault` (task.crashed) where it breaks a limit, or its process."""
        calls = [*self._calls, {"name": name, "arguments": dict(arguments)}]
        self._calls = calls
        told = await agentdojo.ask({"do": "call", **self._place, "seconds": agentdojo.SECONDS, "calls": calls})
        if told["state"] != "called":
            raise Fault("task.crashed", f"tool `{name}` failed ({told['state']}): {told.get('why', 'out of memory')}")
        text: str = told["text"]
        return text
