"""Plugins whose every turn leaves a line outside proctor; what they do is in the environment, outside the identity."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel

from proctor.model.attempt import Grade, GradingMode
from proctor.model.spec import Artifact, Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Turn


class CountedOptions(BaseModel):
    tasks: int = 10
    prompt: str = "do it"
    artifacts: bool = False


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
        artifacts = (Artifact("made.txt"),) if settings.artifacts else ()
        grader = Component("reuse_plugins:Even")
        return [
            Task(f"n{n}", grader, prompt=settings.prompt, needs_sandbox=settings.artifacts, artifacts=artifacts)
            for n in range(settings.tasks)
        ]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class WorkerOptions(BaseModel):
    style: str = "plain"


class Worker:
    """Notes each turn in the file `WORK_TRACE`; `WORK_SECONDS` is how long one takes, `WORK_FAILS` which tasks fail."""

    name = "worker"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = WorkerOptions

    def __init__(self, options: WorkerOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> WorkerSession:
        return WorkerSession(ctx)


class WorkerSession:
    def __init__(self, ctx: AttemptContext) -> None:
        self._ctx = ctx

    async def send(self, message: Message) -> Turn:
        task = self._ctx.task
        await asyncio.sleep(float(os.environ.get("WORK_SECONDS", "0")))
        note(f"{task.id} {self._ctx.attempt}")
        if task.id in os.environ.get("WORK_FAILS", "").split(","):
            raise RuntimeError("told to fail")
        if task.id in os.environ.get("WORK_ISSUES", "").split(","):
            self._ctx.issue("harness.exit_nonzero", "connection reset by peer")
        if task.artifacts:
            await self._ctx.sandbox.write("made.txt", f"by {task.id}")
        return Turn(f"the answer to {task.id}")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass


class NoOptions(BaseModel):
    pass


class Even:
    """Grades by the number of the task; `GRADER_BROKEN` makes it crash."""

    name = "even"
    version = "1"
    options = NoOptions
    reward_files = ()

    def __init__(self, options: NoOptions) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        if os.environ.get("GRADER_BROKEN"):
            raise RuntimeError("the grader was told to fail")
        assert ctx.answer == f"the answer to {ctx.task.id}"
        if ctx.task.artifacts:
            assert ctx.artifacts["made.txt"].read_text() == f"by {ctx.task.id}"
        good = int(ctx.task.id[1:]) % 2 == 0
        return Grade(good, 1.0 if good else 0.0)


def note(line: str) -> None:
    """Append a line in one write, so that it is there as a whole or not at all."""
    with Path(os.environ["WORK_TRACE"]).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())
