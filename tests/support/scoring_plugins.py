"""A benchmark whose rows say what becomes of each task, graded by the shipped graders: `scoring_plugins:Rows`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.errors import SkipTask
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, Collected, Message, Sandbox, Turn
from proctor.providers.local import LocalProvider

NO_ROOM = "NO_ROOM"
CODE = "def two():\n    return 2\n"
REWARD = "reward.json"


class Nothing(BaseModel):
    pass


class RowsOptions(BaseModel):
    path: str
    """A JSON file: a list of rows (task, does, tags)."""


def grader_of(does: str) -> Component:
    """Return the grader of a task: `reward ...` writes that, `code ...` is tested, `judge ...` is judged."""
    kind, _, rest = does.partition(" ")
    if kind == "reward":
        return Component("command", {"command": rest, "reward_files": (REWARD,)})
    if kind == "code":
        test = "def check(candidate):\n    assert candidate() == 2\n"
        return Component("python-tests", {"prompt": "", "test": test, "entry_point": "two"})
    if kind == "judge":
        return Component("model", {"expected": "right", "asks": 1})
    return Component("text", {"expected": "right"})


class Rows:
    """Tasks as a file says."""

    name = "rows"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.FRESH
    gradings = (GradingMode.FRESH,)
    options = RowsOptions

    def __init__(self, options: RowsOptions) -> None:
        self._rows: list[tuple[str, str, list[str]]] = json.loads(Path(options.path).read_text())

    async def tasks(self) -> list[Task]:
        return [
            Task(
                task,
                grader_of(does),
                prompt=does,
                tags=tuple(tags),
                environment=EnvironmentSpec(env={NO_ROOM: "1"} if does == "no room" else {}),
                needs_sandbox=does in ("no room", "setup fails"),
            )
            for task, does, tags in self._rows
        ]

    async def setup(self, ctx: AttemptContext) -> None:
        if ctx.task.prompt == "setup fails":
            raise OSError("nothing to put there")


class Crowded(LocalProvider):
    """Has no room for the sandboxes of some tasks."""

    name = "crowded"

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Sandbox:
        if environment.env.get(NO_ROOM):
            raise OSError("no room")
        return await super().open(EnvironmentSpec(), labels)


class Does:
    """Does what the prompt says."""

    name = "does"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> Any:
        if ctx.task.prompt == "skip":
            raise SkipTask("not here")
        return Doing()


class Doing:
    async def send(self, message: Message) -> Turn:
        kind, _, rest = message.text.partition(" ")
        if kind == "hangs":
            Path("hangs").touch()
            await asyncio.Event().wait()
        if kind in ("code", "judge"):
            return Turn(f"```python\n{rest}\n```" if kind == "code" else rest)
        return Turn(None if kind == "silent" else message.text)

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass
