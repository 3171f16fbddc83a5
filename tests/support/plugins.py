"""Plugins for tests of the whole program, named by dotted path: `plugins:Sleeper`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from proctor.errors import Fault
from proctor.model.attempt import Grade, GradingMode
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Turn


class SleeperOptions(BaseModel):
    seconds: float = 0.0
    """How long each turn takes."""
    trace: str | None = None
    """A file that gets one line when a turn starts and one when it ends."""
    every: int = 0
    """Each so manieth attempt fails: see `failure`."""
    failure: str = "raise"
    command: str = ""
    """A command that is run in the sandbox."""


HOLDS_AFTER = "SLEEPER_HOLDS_AFTER"
"""An environment variable: attempts after so many wait until they are cancelled, so that a signal comes in time."""
HOLDS_UNTIL = "SLEEPER_HOLDS_UNTIL"
"""An environment variable: or until this file is there."""


class Sleeper:
    """Waits, leaves a trace, and answers "ok"."""

    name = "sleeper"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = SleeperOptions

    def __init__(self, options: SleeperOptions) -> None:
        self.settings = options
        self.needs_sandbox = bool(options.command)
        self.count = 0

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return SleeperSession(self, ctx)


class SleeperSession:
    def __init__(self, harness: Sleeper, ctx: AttemptContext) -> None:
        self._settings = harness.settings
        self._ctx = ctx
        harness.count += 1
        self._holds = harness.count > float(os.environ.get(HOLDS_AFTER, "inf"))
        self._fails = bool(self._settings.every) and harness.count % self._settings.every == 0

    async def send(self, message: Message) -> Turn:
        self._note("start")
        try:
            if self._settings.command:
                await self._ctx.sandbox.exec(self._settings.command)
            while self._holds and not Path(os.environ.get(HOLDS_UNTIL, "/nowhere")).exists():
                await asyncio.sleep(0.02)
            await asyncio.sleep(self._settings.seconds)
            if self._settings.failure == "internal":
                raise Fault("internal", "boom")
            if self._fails:
                raise RuntimeError(f"{self._ctx.task.id} was told to fail")
        finally:
            self._note("end")
        return Turn("ok")

    def _note(self, what: str) -> None:
        if self._settings.trace:
            with Path(self._settings.trace).open("a") as file:
                file.write(f"{what} {self._ctx.task.id} {os.getpid()}\n")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass


class GradeableOptions(BaseModel):
    broken: str = ""
    """What is wrong with the task `bad`: unsolvable, wrong or free."""


class Gradeable:
    """Two tasks, one of which may be at fault."""

    name = "gradeable"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = GradeableOptions

    def __init__(self, options: GradeableOptions) -> None:
        self._broken = options.broken

    async def tasks(self) -> list[Task]:
        if self._broken == "tasks":
            raise OSError("no data")
        good = Task("good", Component("text", {"expected": "ok"}), reference=Reference("ok"))
        reference = None if self._broken == "unsolvable" else Reference("no" if self._broken == "wrong" else "ok")
        free = Component("plugins:Generous") if self._broken == "free" else good.grader
        return [good, Task("bad", free, reference=reference)]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class Generous:
    """Everything passes."""

    name = "generous"
    version = "1"
    options = SleeperOptions
    reward_files = ()

    def __init__(self, options: SleeperOptions) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        return Grade(True, 1.0)


class Stubborn(Sleeper):
    """Ignores cancellation, or blocks a thread that nobody can cancel."""

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return StubbornSession(self, ctx)


class StubbornSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        if self._settings.failure == "thread":
            await asyncio.to_thread(time.sleep, self._settings.seconds)
            return Turn("ok")
        while True:
            try:
                await asyncio.sleep(self._settings.seconds)
            except asyncio.CancelledError:
                continue


class Leaky(Sleeper):
    """Says the secret it was given, wherever it can."""

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return LeakySession(self, ctx)


class LeakySession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        secret = os.environ["LEAKY_API_KEY"]
        self._ctx.log.info("the key is %s", secret)
        self._ctx.issue("output.truncated", f"key {secret}")
        return Turn(f"the answer is {secret}")

    async def collect(self) -> Collected:
        return Collected(trajectory={"steps": [{"message": os.environ["LEAKY_API_KEY"]}]})


class Unkeepable(Sleeper):
    """Leaves a trajectory that is no JSON."""

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return UnkeepableSession(self, ctx)


class UnkeepableSession(SleeperSession):
    async def collect(self) -> Collected:
        return Collected(trajectory={"score": float("nan")})


class Flaky(Sleeper):
    """Fails the first tries of each task, then answers "ok"."""

    def __init__(self, options: SleeperOptions) -> None:
        super().__init__(options)
        self.tries: dict[str, int] = {}

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return FlakySession(self, ctx)


class FlakySession(SleeperSession):
    def __init__(self, harness: Flaky, ctx: AttemptContext) -> None:
        super().__init__(harness, ctx)
        harness.tries[ctx.task.id] = harness.tries.get(ctx.task.id, 0) + 1
        self._fails = harness.tries[ctx.task.id] <= self._settings.every


class Littering(Sleeper):
    """Answers "ok" only in a work directory that nobody used before, and leaves a file there."""

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return LitteringSession(self, ctx)


class LitteringSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        sandbox = self._ctx.sandbox
        listed = await sandbox.exec("ls -A; mkdir -p .git/deep empty; echo x > left; ln -s / root; mkfifo pipe")
        self._note(f"start in {sandbox.id}")
        return Turn("ok" if listed.out == "" else f"not clean: {listed.out}")


def hook_setup() -> None:
    _hook("setup")


def hook_teardown() -> None:
    _hook("teardown")


def hook_fails() -> None:
    raise RuntimeError("this hook was told to fail")


def _hook(what: str) -> None:
    with Path(os.environ["HOOK_TRACE"]).open("a") as file:
        file.write(f"{what} {os.environ.get('PROCTOR_EXPERIMENT')} {os.environ.get('PROCTOR_LEASE_KEY')}\n")


class Stray(Sleeper):
    """Leaves a task behind that goes on after the attempt: `failure` says what it then does."""

    async def start(self, ctx: AttemptContext) -> SleeperSession:
        return StraySession(self, ctx)


class StraySession(SleeperSession):
    left: ClassVar[set[asyncio.Task[None]]] = set()

    async def send(self, message: Message) -> Turn:
        self.left.add(asyncio.create_task(self._later()))
        await asyncio.sleep(0.02)
        return Turn("ok")

    async def _later(self) -> None:
        if self._settings.failure == "overlap":
            await self._ctx.backoff(0.1, "model.rate_limited")
            return
        await asyncio.sleep(self._settings.seconds)
        if self._settings.failure == "backoff":
            await self._ctx.backoff(0.01, "model.rate_limited")
        else:
            self._ctx.issue("output.truncated", "late")
