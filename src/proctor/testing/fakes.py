"""Fakes for tests of the runner: a clock that is set, a provider in memory, plugins that do as they are told.

`FakeProvider` keeps the part of the provider contract that the runner itself relies on (open, dispose, list); it runs
no commands. What each step of a plugin does is an `Action`: a coroutine function without arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from proctor.model.attempt import Grade, GradingMode
from proctor.model.spec import Component, EnvironmentSpec, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Session, Turn

Action = Callable[[], Awaitable[Any]]


async def nothing() -> None:
    """Do nothing."""


async def for_ever() -> None:
    """Wait without end; cancellation ends it."""
    await asyncio.Event().wait()


def raises(error: BaseException) -> Action:
    """Return an action that raises `error`."""

    async def action() -> None:
        raise error

    return action


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
        """Return seconds since the epoch."""
        return self._wall + self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now += seconds


class FakeSandbox:
    """A sandbox in memory; it counts how often it was disposed of."""

    def __init__(self, provider: FakeProvider, name: str, labels: Mapping[str, str]) -> None:
        self._provider = provider
        self.id = name
        self.workdir = "/work"
        self.labels = dict(labels)
        self.files: dict[str, bytes] = {}
        self._marked: dict[str, bytes] = {}

    async def exec(self, command: str | Sequence[str], **options: Any) -> Any:
        """Refuse: this fake runs nothing."""
        raise NotImplementedError("FakeSandbox runs no commands")

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file."""
        self.files[path] = content.encode() if isinstance(content, str) else content

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def upload(self, source: Any, target: str) -> None:
        """Refuse: this fake copies nothing."""
        raise NotImplementedError("FakeSandbox copies nothing")

    async def download(self, source: str, target: Any, **limits: Any) -> Any:
        """Refuse: this fake copies nothing."""
        raise NotImplementedError("FakeSandbox copies nothing")

    async def mark(self) -> None:
        """Note the files."""
        self._marked = dict(self.files)

    async def reset(self) -> None:
        """Bring the files back, after whatever the provider was told to do first."""
        await self._provider.on_reset()
        self.files = dict(self._marked)

    async def dispose(self) -> None:
        """Remove it from the provider's live ones, after whatever the provider was told to do first."""
        await self._provider.on_dispose()
        self._provider.live.pop(self.id, None)


class FakeProvider:
    """A provider in memory. `on_open` runs before a sandbox is made, `on_dispose` before one is removed."""

    name = "fake"
    remote = False
    recommended_concurrency: int | None = None
    default_limit: int | None = None
    default_open_per_second = 0.0
    exclusive = False
    supports_reuse = True
    lifetime_seconds: float | None = None
    warning: str | None = None

    def __init__(self, on_open: Action = nothing, on_dispose: Action = nothing, on_reset: Action = nothing) -> None:
        self.on_open = on_open
        self.on_reset = on_reset
        self.on_dispose = on_dispose
        self.live: dict[str, FakeSandbox] = {}
        self.opened = 0
        self.peak = 0

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return None: it makes anything."""
        return None

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> FakeSandbox:
        """Make a sandbox."""
        await self.on_open()
        self.opened += 1
        sandbox = FakeSandbox(self, f"fake-{self.opened}", labels)
        self.live[sandbox.id] = sandbox
        self.peak = max(self.peak, len(self.live))
        return sandbox

    async def list(self, labels: Mapping[str, str]) -> list[Mapping[str, str]]:
        """Return the live sandboxes that carry `labels`."""
        wanted = labels.items()
        return [{**box.labels, "sandbox": box.id} for box in self.live.values() if wanted <= box.labels.items()]

    async def finalize(self) -> None:
        """Do nothing: nothing is left outside sandboxes."""


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
