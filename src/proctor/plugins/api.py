"""The contracts of plugins: harnesses, benchmarks, graders, providers, models.

One calling convention: async. Plugins raise plain exceptions (or `errors.Fault` to choose the code); the boundary gives
them an owner. Parameters are a pydantic model in `options`, validated before anything starts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Usage
from proctor.model.spec import Json, Task
from proctor.plugins.asking import ask, collected
from proctor.plugins.atif import A_CALL, Trajectory
from proctor.plugins.atif_steps import arguments_of
from proctor.plugins.models import ChatMessage, Completion, Model, OpenModel, Tool, ToolCall
from proctor.plugins.providers import Capabilities, Provider, Say
from proctor.plugins.sandboxes import (
    MEBIBYTE,
    OUTPUT_LIMIT_BYTES,
    AgentSandbox,
    ExecLimits,
    ExecResult,
    LeftOut,
    OnOutput,
    Sandbox,
)
from proctor.plugins.sessions import Collected, Message, Session, Turn
from proctor.plugins.tools import NO_TOOLS, TOOL_CALLS, BringsTools, Tools

if TYPE_CHECKING:
    import logging

    from pydantic import BaseModel

API_VERSION = 1
"""Version of these contracts."""


# ---------------------------------------------------------------------------------------------------- harnesses


class AttemptContext(Protocol):
    """What a benchmark and a harness see of one try."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def attempt(self) -> str:
        """The id of the attempt."""
        ...

    @property
    def flags(self) -> Mapping[str, Json]:
        """Free values of the experiment."""
        ...

    @property
    def log(self) -> logging.Logger:
        """The log of this try, kept in `try.log`."""
        ...

    @property
    def sandbox(self) -> AgentSandbox:
        """The agent's sandbox; raises `RuntimeError` where neither harness nor task asked for one."""
        ...

    @property
    def model(self) -> Model:
        """The model; raises `RuntimeError` where the experiment names none."""
        ...

    @property
    def used(self) -> Usage:
        """What model calls of the agent used so far in this try, as far as it was reported with `usage`."""
        ...

    @property
    def tools(self) -> Tools:
        """The tools of the benchmark; there are none to offer where it brings none."""
        ...

    async def backoff(self, seconds: float, code: str) -> None:
        """Wait because of something that refused for now (an issue code), holding no global permit and no model permit.

        Returns when the permits are held again. Nothing else of the attempt may execute meanwhile. No time limit of the
        try runs while it waits. Calls through `ctx.model` do this by themselves.
        """
        ...

    def progress(self, text: str) -> None:
        """Say what is going on, for the log and the display."""
        ...

    def issue(self, code: str, message: str) -> None:
        """Record a problem that does not end the try."""
        ...

    def usage(self, usage: Usage) -> None:
        """Report what model calls used, as soon as it is known; it counts even if the try fails later."""
        ...


class Harness(Protocol):
    """The program that drives a model to solve a task.

    One whose sessions cannot take a second turn has an attribute `turns` as well: how many they take. One whose program
    calls the model from inside of the sandbox has `calls_model_inside`, which is True. One that offers its model the
    tools of a benchmark (`ctx.tools`) has `takes_tools`, which is True.
    """

    name: str
    version: str
    isolated_attempts: bool
    needs_model: bool
    needs_sandbox: bool
    options: type[BaseModel]

    async def start(self, ctx: AttemptContext) -> Session:
        """Install and configure; phase setup."""
        ...


# --------------------------------------------------------------------------------------- benchmarks and graders


class Benchmark(Protocol):
    """A named, versioned set of tasks and how they are graded."""

    name: str
    version: str
    isolated_attempts: bool
    grading: GradingMode
    """Where grading happens unless the user tightens it."""
    gradings: tuple[GradingMode, ...]
    """Every mode in which its tasks can be graded, `grading` among them."""
    options: type[BaseModel]

    async def tasks(self) -> Iterable[Task]:
        """Return all tasks in the benchmark's order; ids are unique."""
        ...

    async def setup(self, ctx: AttemptContext) -> None:
        """Put the task's material into the agent's sandbox; called only where there is one."""
        ...


StartSession = Callable[[], Awaitable[Session]]
"""Starts one more session of the experiment's harness; whoever starts it closes it."""


class Drives(Protocol):
    """What a benchmark has beside the rest whose tasks are programs that talk to the agent, and not one prompt."""

    async def drive(self, ctx: AttemptContext, start: StartSession) -> Session:
        """Return the session of a try, in phase setup, in place of the harness's own.

        Its one turn (`send`) runs the program of the task, which talks to sessions of the harness from `start`; its
        `collect` and `close` are those of all of them.
        """
        ...


class GradeContext(Protocol):
    """What a grader sees of one try."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def answer(self) -> str | None:
        """What the harness returned as its result, if anything."""
        ...

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files that the harness collected, by name."""
        ...

    @property
    def artifacts(self) -> Mapping[str, Path]:
        """What was taken out of the agent's sandbox: the path there, as it was declared, and the copy on this machine.

        What the agent did not produce is not in it. The copies are to be read, not to be changed. A file or directory
        with a name that is not kept as it is (such as one with a line break) is an entry of its own, by its whole path.
        """
        ...

    @property
    def log(self) -> logging.Logger:
        """The log of this try, kept in `try.log`."""
        ...

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of grading (fresh, or the agent's); raises `RuntimeError` in mode none."""
        ...

    @property
    def judge(self) -> Model:
        """The model that judges, for a grader that declares `needs_judge`; what its calls use is noted by itself.

        Raises `RuntimeError` where the experiment names none.
        """
        ...

    def issue(self, code: str, message: str) -> None:
        """Record a problem, such as `grade.time`."""
        ...


class Grader(Protocol):
    """Turns what an attempt left behind into a grade. `options` validates the parameters that tasks give it.

    One that asks a model has an attribute `needs_judge` as well, which is True.
    """

    name: str
    version: str
    options: type[BaseModel]
    reward_files: tuple[str, ...]
    """Paths in the sandbox whose existence it takes for success; `()` where there are none.

    Whatever is there before grading was planted by the agent: it is removed first, and never handed over.
    """

    async def grade(self, ctx: GradeContext) -> Grade:
        """Grade one attempt; a wrong answer is a grade, never an exception."""
        ...


__all__ = [
    "API_VERSION", "A_CALL", "MEBIBYTE", "NO_TOOLS", "NO_USAGE", "OUTPUT_LIMIT_BYTES", "TOOL_CALLS", "AgentSandbox",
    "AttemptContext", "Benchmark", "BringsTools", "Capabilities", "ChatMessage", "Collected", "Completion", "Drives",
    "ExecLimits", "ExecResult", "GradeContext", "Grader", "Harness", "LeftOut", "Message", "Model", "OnOutput",
    "OpenModel", "Provider", "Sandbox", "Say", "Session", "StartSession", "Tool", "ToolCall", "Tools", "Trajectory",
    "Turn", "arguments_of", "ask", "collected",
]  # fmt: skip
