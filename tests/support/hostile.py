"""Plugins that say too much, or what they should not: named by dotted path, as `hostile:Hostile`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.model.attempt import Check, Grade, GradingMode
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, ChatMessage, Collected, GradeContext, Message, Turn

CONTROLS = (
    "\x1b[2J\x1b[?1049h\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b]52;c;cm0=\x07\x1b[5A\x1b[31m[red]"
    "\x9b2J\x9d0;title\x9c\r\x08\x7f\x00\u202eright to left\u2066\u2028next line"
)
"""Clear, other screen, title, link, clipboard, cursor, colour, the same in one byte, marks that turn the writing."""

ANSWERS = {
    "high half": "a\ud83db",
    "low half": "a\ude00b",
    "zero": "a\0b",
    "line separator": "a\u2028b\u2029c",
    "long line": "x" * 5_000_000,
    "whole": "a\U0001f600b",
    "controls": CONTROLS,
}


class Nothing(BaseModel):
    pass


class Answers:
    """A task for each of `ANSWERS`, whose prompt is the name of it."""

    name = "answers"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def tasks(self) -> list[Task]:
        return [Task(name, Component("hostile:Fair"), prompt=name) for name in ANSWERS]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class Fair:
    """Passes the answer of the task."""

    name = "fair"
    version = "1"
    reward_files = ()
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        solved = ctx.answer == ANSWERS[ctx.task.prompt]
        return Grade(solved, float(solved), checks=(Check("answer", ok=solved, actual=(ctx.answer or "")[:100]),))


def answer(messages: Sequence[ChatMessage]) -> str:
    """A script for `mock/script`."""
    return ANSWERS[messages[-1].text]


class ShoutingOptions(BaseModel):
    ids: str = "[red]task "


class Shouting:
    """Tasks with prompts full of controls; `ids` is what their ids begin with."""

    name = "shouting"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = ShoutingOptions

    def __init__(self, options: ShoutingOptions) -> None:
        self._ids = options.ids

    async def tasks(self) -> list[Task]:
        return [Task(f"{self._ids}{number}", Component("hostile:Loud"), prompt=CONTROLS) for number in range(3)]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


class Loud:
    """Says too much in a grade."""

    name = "loud"
    version = "1"
    reward_files = ()
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        checks = tuple(Check(f"{CONTROLS} {n}", ok=n != 25_000, actual="y" * 3000) for n in range(50_000))
        scores = {f"{CONTROLS} {n}": 0.5 for n in range(5_000)}
        ctx.issue("grade.incomplete", CONTROLS)
        return Grade(True, 1.0, scores, checks)


class HostileOptions(BaseModel):
    how: str = "controls"
    command: str = ""


class Hostile:
    """Does what `how` says: `controls`, `too much`, `raise`, or runs `command` and answers with what it printed."""

    name = "hostile"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = HostileOptions

    def __init__(self, options: HostileOptions) -> None:
        self.settings = options
        self.needs_sandbox = bool(options.command)

    async def start(self, ctx: AttemptContext) -> HostileSession:
        return HostileSession(ctx, self.settings)


class HostileSession:
    def __init__(self, ctx: AttemptContext, settings: HostileOptions) -> None:
        self._ctx = ctx
        self._settings = settings
        self._trajectory: Any = {"steps": [{"message": CONTROLS}]}

    async def send(self, message: Message) -> Turn:
        ctx = self._ctx
        if self._settings.command:
            result = await ctx.sandbox.exec(self._settings.command)
            ctx.log.info("printed: %s", result.out)
            [peak] = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
            ctx.issue("harness.limit", f"{result.stdout_dropped} bytes dropped; peak {peak} kB; {result.out[:3000]}")
            return Turn(result.out)
        ctx.log.info("%s", CONTROLS)
        ctx.log.info("%d", CONTROLS)
        ctx.issue("harness.limit", CONTROLS)
        if self._settings.how == "raise":
            raise RuntimeError(CONTROLS + "x" * 5_000_000)
        if self._settings.how == "too much":
            for number in range(1_000):
                ctx.log.info("%d %s", number, "z" * 50_000)
                ctx.issue("harness.limit", f"{number} {'m' * 50_000}")
            self._trajectory = nested = []
            for _ in range(2_000):
                inner: list[Any] = ["deep"]
                nested.append(inner)
                nested = inner
            return Turn("begin" + "a" * 20_000_000 + "end")
        return Turn(CONTROLS)

    async def collect(self) -> Collected:
        return Collected(trajectory=self._trajectory)

    async def close(self) -> None:
        pass
