"""What plugins see in their conformance suites: contexts that keep what is reported, model and sandbox that can stop.

They refuse what the runner refuses: a sandbox or model that nobody asked for, usage that is none, a code of no table.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from proctor.errors import Fault
from proctor.model.attempt import NO_USAGE, Usage, issue_of
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Json, Task
from proctor.plugins.api import (
    NO_TOOLS,
    AgentSandbox,
    ChatMessage,
    Completion,
    ExecResult,
    Model,
    Provider,
    Sandbox,
    Tool,
    Tools,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LOG = logging.Logger("proctor.check")
"""Takes what plugins log, and shows it to nobody."""
LOG.addHandler(logging.NullHandler())


class Gate:
    """Where calls wait without end while it is closed; those that wait go on waiting when it is opened again."""

    def __init__(self) -> None:
        self.closed = False
        self.reached = asyncio.Event()
        """Set once a call waits."""

    async def enter(self) -> None:
        """Pass, or wait until the call is cut off."""
        if self.closed:
            self.reached.set()
            await asyncio.Event().wait()


class WatchedModel:
    """A model that counts its calls, and that can be told to stop, to fail, or to forget its usage."""

    def __init__(self, model: Model) -> None:
        self.spec = model.spec
        self.gate = Gate()
        self.fault: Fault | None = None
        """What every call raises."""
        self.silent = False
        """Whether no call reports its usage."""
        self.begun = 0
        self.asked: list[tuple[ChatMessage, ...]] = []
        self.used = NO_USAGE
        """What the calls used that were answered."""
        self.answering = model
        """What answers; another one can be put here."""

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call."""
        self.begun += 1
        self.asked.append(tuple(messages))
        await self.gate.enter()
        if self.fault is not None:
            raise self.fault
        answering = self.answering
        completion = await (answering.complete(messages, tools) if tools else answering.complete(messages))
        if self.silent:
            return replace(completion, usage=None)
        if completion.usage is not None:
            self.used += completion.usage
        return completion

    async def close(self) -> None:
        """Do nothing: the suite closes it."""


class GatedSandbox:
    """A sandbox whose commands can be made to wait without end; in all else the sandbox that it stands for."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.gate = Gate()
        self.state: dict[str, Any] = {}
        self._sandbox = sandbox

    async def exec(self, command: str | Sequence[str], **options: Any) -> ExecResult:
        """Run a command."""
        await self.gate.enter()
        return await self._sandbox.exec(command, **options)

    def __getattr__(self, name: str) -> Any:
        """Return what the sandbox itself has."""
        return getattr(self._sandbox, name)


class HarnessWorld:
    """The `AttemptContext` of one try, and what was reported through it."""

    def __init__(self, task: Task, attempt: str, model: WatchedModel | None, box: GatedSandbox | None) -> None:
        self.task = task
        self.attempt = attempt
        self.flags: Mapping[str, Json] = {}
        self.log = LOG
        self.used = NO_USAGE
        self.issues: list[str] = []
        self.watched = model
        self.box = box
        self.tools: Tools = NO_TOOLS

    @property
    def model(self) -> Model:
        """The model; raises `RuntimeError` where the harness does not declare that it needs one."""
        if self.watched is None:
            raise RuntimeError("there is no model: the harness should declare `needs_model`")
        return self.watched

    @property
    def sandbox(self) -> AgentSandbox:
        """The sandbox; raises `RuntimeError` where neither harness nor task declares that it needs one."""
        if self.box is None:
            raise RuntimeError("there is no sandbox: the harness should declare `needs_sandbox`")
        return cast("AgentSandbox", self.box)

    @property
    def calls(self) -> int:
        """How many calls of the model were begun."""
        return 0 if self.watched is None else self.watched.begun

    async def backoff(self, seconds: float, code: str) -> None:
        """Wait no time at all."""
        issue_of(code, "")

    def progress(self, text: str) -> None:
        """Take what goes on."""

    def issue(self, code: str, message: str) -> None:
        """Keep a code. Raises `KeyError` for one that is not in the table."""
        issue_of(code, message)
        self.issues.append(code)

    def usage(self, usage: Usage) -> None:
        """Add what calls used. Raises `TypeError`."""
        if type(usage) is not Usage:
            raise TypeError(f"usage must be a Usage, not {type(usage).__name__}")
        self.used += usage


class GraderWorld:
    """The `GradeContext` of one try."""

    def __init__(
        self, task: Task, answer: str | None, files: Mapping[str, bytes], sandbox: Sandbox, judge: Model | None
    ) -> None:
        self.task = task
        self.answer = answer
        self.files = files
        self.artifacts: Mapping[str, Path] = {}
        self.sandbox = sandbox
        self.log = LOG
        self._judge = judge

    @property
    def judge(self) -> Model:
        """The judge; raises `RuntimeError` where the grader does not declare that it needs one, or none was given."""
        if self._judge is None:
            raise RuntimeError("there is no judge: the grader should declare `needs_judge`, and the suite be given one")
        return self._judge

    def issue(self, code: str, message: str) -> None:
        """Take an issue. Raises `KeyError` for a code that is not in the table."""
        issue_of(code, message)


def opened(make_provider: Callable[[], Provider], environment: EnvironmentSpec) -> AbstractAsyncContextManager[Sandbox]:
    """Return a context in which there is one sandbox, from a provider of its own."""

    @asynccontextmanager
    async def one() -> AsyncGenerator[Sandbox]:
        provider = make_provider()
        settled = await provider.resolve(environment)
        await provider.prepare(settled, lambda line: None)
        sandbox = await provider.open(settled, {"purpose": "conformance"})
        try:
            yield sandbox
        finally:
            await sandbox.dispose()
            await provider.finalize()

    return one()


__all__ = ["Gate", "GatedSandbox", "GraderWorld", "HarnessWorld", "WatchedModel", "opened"]
