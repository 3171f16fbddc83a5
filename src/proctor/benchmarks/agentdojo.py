"""Benchmark `agentdojo`: tasks with tools of their own, of the package of that name (docs/agentdojo.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.data import agentdojo
from proctor.errors import Fault, UsageError, nearest
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Json, Reference, Task
from proctor.plugins.api import AttemptContext, Tool

Suite = Literal["workspace", "travel", "banking", "slack"]
SUITES: tuple[Suite, ...] = ("workspace", "travel", "banking", "slack")
Attack = Literal[
    "direct",
    "ignore_previous",
    "system_message",
    "injecagent",
    "important_instructions",
    "important_instructions_no_user_name",
    "important_instructions_wrong_user_name",
    "tool_knowledge",
]
"""The attacks of the package that are a text with blanks."""
LEFT_OUT = {"banking": ("user_task_5", "user_task_6", "user_task_8", "user_task_9", "user_task_10")}
"""What passes with nothing done: its check looks for nothing that was not there before."""


class AgentDojoOptions(BaseModel):
    """Which tasks there are, and what is put into what their tools return."""

    model_config = ConfigDict(extra="forbid")

    suites: Annotated[tuple[Suite, ...], Field(min_length=1)] = SUITES
    version: str = "v1.2.2"
    """Of the tasks, as the package counts them."""
    attack: Attack | None = None
    """With one, each user task is there once with each injection task."""
    injection_tasks: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Those that are taken, such as `injection_task_3`, of each suite that has it; None is all."""
    attack_model_name: Annotated[str, Field(pattern=r"^[\w .()/-]+$")] = "the AI language model"
    """What the attack calls the model, where it calls it by a name."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.attack is None and {"injection_tasks", "attack_model_name"} & self.model_fields_set:
            raise ValueError("injection tasks, and the name of the model, are of an attack: name one as `attack`")
        return self


class AgentDojo:
    """The user tasks, alone or under attack. Raises `MissingPackage` where the package is missing."""

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
        """Return the tasks, suite by suite; under attack those of a user task with each injection task.

        Raises `UsageError` for a version that the package has not, and an injection task that no suite has.
        """
        tasks: list[Task] = []
        suites = {suite: await self._described_of(suite) for suite in self._options.suites}
        goals = sorted({goal for told in suites.values() for goal in told["goals"]})
        for name in self._options.injection_tasks or ():
            if name not in goals:
                near = nearest(name, goals)
                hint = f"did you mean `{near}`?" if near else f"there are {', '.join(goals)}"
                raise UsageError(f"no suite that is taken has an injection task `{name}`", hint=hint)
        for suite, told in suites.items():
            out = LEFT_OUT.get(suite, ())
            for name, one in told["tasks"].items():
                if name not in out:
                    tasks += self._tasks(suite, name, one, told["goals"])
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
            options = self._options
            told = await agentdojo.ask(
                {"do": "describe", "version": options.version, "suite": suite, **self._attacked()}
            )
            if told["state"] == "unknown":
                what = f"{agentdojo.PACKAGE} {agentdojo.version()} has no version `{options.version}` of its tasks"
                raise UsageError(what, hint="leave `benchmark.params.version` out, or take one such as `v1.2.2`")
            if told["state"] != "described":
                raise UsageError(f"suite `{suite}` of {agentdojo.PACKAGE} cannot be read: {told.get('why')}")
            self._described[suite] = told
        return self._described[suite]

    def _attacked(self) -> dict[str, Json]:
        options = self._options
        if options.attack is None:
            return {}
        return {"attack": options.attack, "attack_model_name": options.attack_model_name}

    def _tasks(self, suite: str, name: str, told: Mapping[str, Any], goals: Iterable[str]) -> list[Task]:
        """Return the task of a user task, or, under attack, those of its pairs."""
        place: dict[str, Json] = {"version": self._options.version, "suite": suite, "task": name}
        if self._options.attack is None:
            return [_task(told, told["calls"], place, suite)]
        calls = told.get("calls_by_injection", {})
        return [
            _task(
                told,
                calls.get(goal, told["calls"]),
                {**place, "injection_task": goal, **self._attacked()},
                suite,
                f"{suite}-{name}",
                f"{suite}-{goal}",
            )
            for goal in goals
            if self._options.injection_tasks is None or goal in self._options.injection_tasks
        ]


def _task(told: Mapping[str, Any], calls: Sequence[Any], place: Mapping[str, Json], *tags: str) -> Task:
    """Return a task, whose id is the place that it has in a suite."""
    return Task(
        id="-".join(str(place[part]) for part in ("suite", "task", "injection_task") if part in place),
        prompt=told["prompt"],
        grader=Component("agentdojo", place),
        reference=Reference(answer=told["answer"], calls=tuple(calls)),
        tags=tags,
    )


class AgentDojoTools:
    """The tools of one attempt. The world is what the calls so far make of a fresh one."""

    def __init__(self, offered: Sequence[Tool], place: Mapping[str, Json]) -> None:
        self.offered = offered
        self._place = dict(place)
        self._calls: list[dict[str, Json]] = []

    async def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Call one. Raises `Fault` (tool.crashed) where it breaks a limit, or its process."""
        calls = [*self._calls, {"name": name, "arguments": dict(arguments)}]
        self._calls = calls
        told = await agentdojo.ask({"do": "call", **self._place, "seconds": agentdojo.SECONDS, "calls": calls})
        if told["state"] != "called":
            raise Fault("tool.crashed", f"tool `{name}` failed ({told['state']}): {told.get('why', 'out of memory')}")
        text: str = told["text"]
        return text
