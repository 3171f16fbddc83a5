"""Plugins that leave files behind, and graders that break before they grade; named as `saving_plugins:Hoarder`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from proctor.model.attempt import Grade, GradingMode, Usage
from proctor.model.spec import Artifact, Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Turn


class ShelfOptions(BaseModel):
    mode: Literal["none", "fresh", "reuse"] = "fresh"
    tasks: int = 1
    trace: str
    """A file that gets a line for each grading."""
    breaks: int = 0
    """So many times the grader of each task breaks before it grades."""
    how: str = "raise"
    damage: str = ""
    """A file of the first try that is changed where the grader breaks."""


class Shelf:
    """Tasks that keep `out`."""

    name = "shelf"
    version = "1"
    isolated_attempts = True
    gradings = tuple(GradingMode)
    options = ShelfOptions

    def __init__(self, options: ShelfOptions) -> None:
        self.grading = GradingMode(options.mode)
        self._options = options

    async def tasks(self) -> list[Task]:
        artifacts = (Artifact("out"), Artifact("change.diff"))
        names = [f"t{number}" for number in range(self._options.tasks)]
        params = self._options.model_dump()
        return [
            Task(name, Component("saving_plugins:Breaking", {**params, "task": name}), artifacts=artifacts)
            for name in names
        ]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class BreakingOptions(ShelfOptions):
    task: str


class Breaking:
    """Breaks so many times, then solved where the answer is "ok" and `out` was produced."""

    name = "breaking"
    version = "1"
    options = BreakingOptions
    reward_files = ()

    def __init__(self, options: BreakingOptions) -> None:
        self._options = options
        self._asked = 0

    async def grade(self, ctx: GradeContext) -> Grade:
        options = self._options
        self._asked += 1
        with Path(options.trace).open("a") as file:
            file.write(f"grade {options.task}\n")
        if self._asked <= options.breaks:
            if options.damage:
                [saved] = Path.cwd().rglob(f"tries/1/{options.damage}")
                saved.write_bytes(b"changed")
            if options.how == "hang":
                await asyncio.Event().wait()
            raise RuntimeError("this grader was told to break")
        if options.mode == "fresh":
            assert (await ctx.sandbox.exec("test -d out")).ok
        solved = ctx.answer == "ok" and "out" in ctx.artifacts
        return Grade(solved, float(solved))


class HoarderOptions(BaseModel):
    trace: str
    files: int = 1
    depth: int = 1
    diff_bytes: int = 10
    fails: str = ""


class Hoarder:
    """Leaves many files, a deep value and a large diff."""

    name = "hoarder"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = HoarderOptions

    def __init__(self, options: HoarderOptions) -> None:
        self._options = options

    async def start(self, ctx: AttemptContext) -> _Hoarding:
        return _Hoarding(ctx, self._options)


class _Hoarding:
    def __init__(self, ctx: AttemptContext, options: HoarderOptions) -> None:
        self._ctx = ctx
        self._options = options

    async def send(self, message: Message) -> Turn:
        options = self._options
        with Path(options.trace).open("a") as file:
            file.write(f"agent {self._ctx.task.id}\n")
        self._ctx.usage(Usage(calls=1, cost_usd=1.0))
        make = f"mkdir out && cd out && seq {options.files} | xargs touch"
        made = await self._ctx.sandbox.exec(f"{make} && head -c {options.diff_bytes} /dev/zero > ../change.diff")
        assert made.ok
        if options.fails:
            self._ctx.issue(options.fails, "as it was told")
        return Turn("ok")

    async def collect(self) -> Collected:
        value: Any = "deep"
        for _ in range(self._options.depth):
            value = [value]
        return Collected({"steps": value, "diff": "x" * self._options.diff_bytes}, {"agent.log": b"said"})

    async def close(self) -> None:
        pass
