"""Plugins that misbehave where they are told to: any method, by raising, hanging or returning what it should not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from proctor.model.attempt import Grade, GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Task
from proctor.plugins.api import Collected, ExecResult, LeftOut, Turn
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import NoOptions

ARTIFACT = "out.txt"
REWARD = "reward.txt"


class Site(Enum):
    """A method of a plugin; that of a sandbox by what it is called for."""

    OPEN = "open"
    OPEN_GRADE = "open for grading"
    MARK = "mark"
    SETUP = "setup"
    START = "start"
    SEND = "send"
    COLLECT = "collect"
    DOWNLOAD = "download"
    GRADE = "grade"
    UPLOAD = "upload"
    EXEC = "remove rewards"
    CHECK = "look for rewards"
    DISPOSE = "dispose"
    DISPOSE_GRADE = "dispose after grading"
    CLOSE = "close"
    RESET = "reset"


Work = Callable[[], Coroutine[Any, Any, Any]]


class When(Enum):
    """When a method raises."""

    CALL = "at the call"
    BEFORE = "before an await"
    AFTER = "after an await"
    DONE = "when its work is done"


@dataclass(frozen=True)
class Raises:
    """Raises what `make` makes."""

    name: str
    make: Callable[[], BaseException]
    when: When = When.AFTER

    def carry_out(self, work: Work, world: World) -> Any:
        if self.when is When.CALL:
            raise self.make()
        return self._later(work)

    async def _later(self, work: Work) -> None:
        if self.when is not When.BEFORE:
            await asyncio.sleep(0)
        if self.when is When.DONE:
            await work()
        raise self.make()


class Until(Enum):
    """What ends a hang."""

    CANCELLED = "cancelled"
    LET_GO = "let go, ignoring cancellation"
    RAISES = "cancelled, then raises"
    RETURNS = "cancelled, then returns as if nothing was"


@dataclass(frozen=True)
class Hangs:
    """Does not return by itself."""

    until: Until

    @property
    def name(self) -> str:
        return f"hangs until {self.until.value}"

    def carry_out(self, work: Work, world: World) -> Any:
        return self._hang(work, world)

    async def _hang(self, work: Work, world: World) -> Any:
        while not world.let_go.is_set():
            try:
                await world.let_go.wait()
            except asyncio.CancelledError:
                if self.until is Until.LET_GO:
                    continue
                if self.until is Until.RAISES:
                    raise RuntimeError("could not clean up") from None
                if self.until is Until.RETURNS:
                    break
                raise
        return await work()


@dataclass(frozen=True)
class Returns:
    """Returns something else than it should, when it `works` after it did what it should.

    Not `awaited`: the method is no coroutine function.
    """

    name: str
    make: Callable[[], Any]
    awaited: bool = True
    works: bool = False

    def carry_out(self, work: Work, world: World) -> Any:
        return self._later(work) if self.awaited else self.make()

    async def _later(self, work: Work) -> Any:
        await asyncio.sleep(0)
        if self.works:
            await work()
        return self.make()


@dataclass(frozen=True)
class Misuses:
    """Does something with what it was given, then its work."""

    name: str
    use: Callable[[Any], Any]

    def carry_out(self, work: Work, world: World) -> Any:
        raise NotImplementedError("only methods with a context can misuse it")

    async def with_context(self, context: Any, work: Work) -> Any:
        used = self.use(context)
        if asyncio.iscoroutine(used):
            await used
        return await work()


@dataclass(frozen=True)
class CancelsItself:
    """Cancels the task that it runs in, as some libraries do for limits of their own."""

    name: str = "cancels its own task"

    def carry_out(self, work: Work, world: World) -> Any:
        return self._cancel()

    async def _cancel(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Takes:
    """Takes its time."""

    seconds: float

    @property
    def name(self) -> str:
        return f"takes {self.seconds:g} s"

    def carry_out(self, work: Work, world: World) -> Any:
        return self._take(work)

    async def _take(self, work: Work) -> Any:
        await asyncio.sleep(self.seconds)
        return await work()


Deed = Raises | Hangs | Returns | Misuses | CancelsItself | Takes


@dataclass(frozen=True)
class Case:
    """One attempt: what misbehaves where, in which tries (none named: in all), and what else happens to it."""

    site: Site | None = None
    deed: Deed | None = None
    tries: frozenset[int] = frozenset()
    also: tuple[tuple[Site, Deed], ...] = ()

    @property
    def name(self) -> str:
        return "healthy" if self.site is None or self.deed is None else f"{self.site.value}: {self.deed.name}"


HEALTHY = Case()


@dataclass(repr=False)
class World:
    """What all plugins of a run share."""

    cases: Mapping[str, Case]
    """By task."""
    let_go: asyncio.Event
    live: dict[str, Sandbox] = field(default_factory=dict)
    opened: int = 0
    users: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Task and number of the try that an attempt is at, and the same for what is in a lane, by name of the lane."""
    lanes: dict[str, str] = field(default_factory=dict)
    """Lane by attempt."""
    sessions: Counter[str] = field(default_factory=Counter)
    """How many sessions of an attempt were started and not closed."""
    over: set[tuple[str, int]] = field(default_factory=set)
    """Tries that have ended, by attempt and number."""
    late: list[str] = field(default_factory=list)
    """What was called for a try that had ended, other than to clean up."""
    done: set[str] = field(default_factory=set)
    """Tasks whose misdeed was done."""

    def at(self, site: Site, user: str, work: Work, context: Any = None) -> Any:
        """Do the work of a method, or what is to be done instead."""
        task, number = self.users[user]
        if (user, number) in self.over and site not in (Site.CLOSE, Site.DISPOSE, Site.DISPOSE_GRADE):
            self.late.append(f"{task}: {site.value}")
        case = self.cases[task]
        deed = case.deed if case.site is site else dict(case.also).get(site)
        if deed is None or (case.tries and number not in case.tries):
            return work()
        self.done.add(task)
        if isinstance(deed, Misuses):
            return deed.with_context(context, work)
        return deed.carry_out(work, self)


class Provider(FakeProvider):
    """Opens sandboxes that do as the world says."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Any:
        grades = labels["purpose"] == "grade"
        attempt = labels["attempt"]

        async def make() -> Sandbox:
            await asyncio.sleep(0)
            user = attempt if grades else self.world.lanes.get(attempt, attempt)
            self.world.opened += 1
            sandbox = Sandbox(self.world, f"box-{self.world.opened}", user, attempt, grades=grades)
            self.world.live[sandbox.id] = sandbox
            return sandbox

        return self.world.at(Site.OPEN_GRADE if grades else Site.OPEN, attempt, make)


@dataclass(eq=False, repr=False)
class Sandbox:
    """A sandbox in memory that runs nothing. `user` is the attempt that it is of, or the lane."""

    world: World
    id: str
    user: str
    attempt: str
    grades: bool
    workdir: str = "/work"

    def exec(self, command: Any, **options: Any) -> Any:
        async def succeed() -> ExecResult:
            await asyncio.sleep(0)
            return ExecResult(0)

        return self.world.at(Site.EXEC, self.user, succeed)

    def upload(self, source: Path, target: str) -> Any:
        return self.world.at(Site.UPLOAD, self.user, nothing)

    def download(self, source: str, target: Path, **limits: Any) -> Any:
        async def copy() -> LeftOut:
            await asyncio.sleep(0)
            if source == REWARD:
                raise FileNotFoundError(source)
            target.write_bytes(b"what the agent made")
            return LeftOut()

        return self.world.at(Site.CHECK if source == REWARD else Site.DOWNLOAD, self.user, copy)

    def mark(self, *, keep_outside: bool = False) -> Any:
        return self.world.at(Site.MARK, self.user, nothing)

    def reset(self) -> Any:
        return self.world.at(Site.RESET, self.user, nothing)

    def dispose(self) -> Any:
        async def remove() -> None:
            await asyncio.sleep(0)
            self.world.live.pop(self.id, None)

        return self.world.at(Site.DISPOSE_GRADE if self.grades else Site.DISPOSE, self.user, remove)


async def nothing() -> None:
    await asyncio.sleep(0)


@dataclass(repr=False)
class Plugin:
    """Benchmark, harness, session and grader of one try."""

    world: World
    attempt: str
    reward_files: tuple[str, ...] = ()
    context: Any = None
    name = "rigged"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = True
    grading = GradingMode.NONE
    gradings = tuple(GradingMode)
    options = NoOptions

    async def tasks(self) -> list[Task]:
        return []

    def setup(self, ctx: Any) -> Any:
        return self.world.at(Site.SETUP, self.attempt, nothing, ctx)

    def start(self, ctx: Any) -> Any:
        self.context = ctx

        async def session() -> Plugin:
            await asyncio.sleep(0)
            self.world.sessions[self.attempt] += 1
            return self

        return self.world.at(Site.START, self.attempt, session, ctx)

    def send(self, message: Any) -> Any:
        async def answer() -> Turn:
            await asyncio.sleep(0)
            return Turn("ok")

        return self.world.at(Site.SEND, self.attempt, answer, self.context)

    def collect(self) -> Any:
        async def keep() -> Collected:
            await asyncio.sleep(0)
            return Collected({"steps": []})

        return self.world.at(Site.COLLECT, self.attempt, keep, self.context)

    def close(self) -> Any:
        self.world.sessions[self.attempt] -= 1
        return self.world.at(Site.CLOSE, self.attempt, nothing, self.context)

    def grade(self, ctx: Any) -> Any:
        async def look() -> Grade:
            await asyncio.sleep(0)
            solved = ctx.answer == "ok"
            return Grade(solved, float(solved))

        return self.world.at(Site.GRADE, self.attempt, look, ctx)
