"""Plugins for tests of several experiments in one invocation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.errors import Fault
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Task
from proctor.providers.local import LocalProvider

TRACE = "LAUNCH_TRACE"
"""Names the file that gets a line for everything that is worth one."""


def note(what: str) -> None:
    """Leave a line."""
    if TRACE in os.environ:
        with Path(os.environ[TRACE]).open("a") as file:
            file.write(f"{what}\n")


class Counting(LocalProvider):
    """Says which object opens a sandbox, and how often one is finalized."""

    async def open(self, *args: Any, **more: Any) -> Any:
        note(f"open {id(self)}")
        return await super().open(*args, **more)

    async def finalize(self) -> None:
        note(f"finalize {id(self)}")
        await super().finalize()


class Nothing(BaseModel):
    pass


class OtherTasks:
    """Two tasks that no other benchmark has."""

    name = "other-tasks"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = Nothing

    def __init__(self, options: Nothing) -> None:
        pass

    async def tasks(self) -> list[Task]:
        note("tasks are read")
        return [Task(f"other/{name}", Component("text", {"expected": "ok"}), tags=(name,)) for name in ("a", "b")]

    async def setup(self, ctx: Any) -> None:
        pass


class Tightened(OtherTasks):
    """Can be graded in a tighter mode than it declares."""

    grading = GradingMode.REUSE
    gradings = (GradingMode.REUSE, GradingMode.FRESH)


def looks(sandbox: Any) -> None:
    """Be a hook of a sandbox that does nothing."""


def fails() -> None:
    """Be a setup hook that fails."""
    raise Fault("harness.crashed", "the outside world is not there")
