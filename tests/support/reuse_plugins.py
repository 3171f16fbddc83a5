"""Plugins whose every turn leaves a line outside proctor; what they do is in the environment, outside the identity."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from proctor.model.attempt import Grade, GradingMode
from proctor.model.spec import Artifact, Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Turn


class CountedOptions(BaseModel):
    tasks: int = 10
    prompt: str = "do it"
    artifacts: bool = False
    """Whether each task is done in a sandbox, and makes an artifact."""
    artifacts_every: int = 0
    """Where it is not each task: each so manieth."""


class Counted:
    """Tasks `n0`, `n1`, ...; those with an even number can be solved."""

    name = "counted"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = CountedOptions

    def __init__(self, options: CountedOptions) -> None:
        self._settings = options

    async def tasks(self) -> list[Task]:
        settings = self._settings
        every = 1 if settings.artifacts else settings.artifacts_every
        return [self._task(n, artifacts=every > 0 and n % every == 0) for n in range(settings.tasks)]

    def _task(self, number: int, *, artifacts: bool) -> Task:
        return Task(
            f"n{number}",
            Component("reuse_plugins:Even"),
            prompt=self._settings.prompt,
            needs_sandbox=artifacts,
            artifacts=(Artifact("made.txt"), Artifact("many")) if artifacts else (),
        )

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class WorkerOptions(BaseModel):
    style: str = "plain"


class Worker:
    """Notes each turn in the file `WORK_TRACE` when it begins; `WORK_SECONDS` is how long one takes.

    `WORK_FAILS` are the tasks that fail always, each `WORK_FLAKY`-th fails in the first turn of its attempt.
    """

    name = "worker"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = WorkerOptions

    def __init__(self, options: WorkerOptions) -> None:
        self._turns: Counter[str] = Counter()

    async def start(self, ctx: AttemptContext) -> WorkerSession:
        self._turns[ctx.attempt] += 1
        return WorkerSession(ctx, first=self._turns[ctx.attempt] == 1)


class WorkerSession:
    def __init__(self, ctx: AttemptContext, *, first: bool) -> None:
        self._ctx = ctx
        self._first = first

    async def send(self, message: Message) -> Turn:
        task = self._ctx.task
        note(f"{task.id} {self._ctx.attempt}")
        await asyncio.sleep(float(os.environ.get("WORK_SECONDS", "0")))
        if self._first and is_flaky(task, "WORK_FLAKY"):
            raise RuntimeError("told to fail at first")
        if task.id in os.environ.get("WORK_FAILS", "").split(","):
            raise RuntimeError("told to fail")
        if task.id in os.environ.get("WORK_ISSUES", "").split(","):
            self._ctx.issue("harness.exit_nonzero", "connection reset by peer")
        if task.artifacts:
            if os.environ.get("WORK_COMMAND"):
                await self._ctx.sandbox.exec(os.environ["WORK_COMMAND"])
            await self._ctx.sandbox.write("made.txt", f"by {task.id}")
            for number in range(int(os.environ.get("WORK_FILES", "0"))):
                await self._ctx.sandbox.write(f"many/f{number}", str(number))
        return Turn(f"the answer to {task.id}")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass


class NoOptions(BaseModel):
    pass


class Even:
    """Grades by the number of the task; `GRADER_BROKEN` makes it crash.

    `GRADER_FLAKY` makes it crash when it sees each so manieth task for the first time in a process.
    """

    name = "even"
    version = "1"
    options = NoOptions
    reward_files = ()

    def __init__(self, options: NoOptions) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        if os.environ.get("GRADER_BROKEN"):
            raise RuntimeError("the grader was told to fail")
        if is_flaky(ctx.task, "GRADER_FLAKY") and ctx.task.id not in _GRADED:
            _GRADED.add(ctx.task.id)
            raise RuntimeError("the grader was told to fail at first")
        assert ctx.answer == f"the answer to {ctx.task.id}"
        if ctx.task.artifacts:
            assert ctx.artifacts["made.txt"].read_text() == f"by {ctx.task.id}"
        good = int(ctx.task.id[1:]) % 2 == 0
        return Grade(good, 1.0 if good else 0.0)


_GRADED: set[str] = set()
"""Tasks that a flaky grader has seen."""


def is_flaky(task: Task, variable: str) -> bool:
    """Say whether a task is one of each so manieth that an environment variable names."""
    every = int(os.environ.get(variable, "0"))
    return every > 0 and int(task.id[1:]) % every == every // 2


def note(line: str) -> None:
    """Append a line in one write, so that it is there as a whole or not at all."""
    with Path(os.environ["WORK_TRACE"]).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())
