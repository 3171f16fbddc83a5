"""Grader `agentdojo`: applies the calls of an attempt to a fresh world, and asks the check of the task."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from proctor.data import agentdojo
from proctor.errors import Fault
from proctor.model.attempt import Check, Grade
from proctor.plugins.api import TOOL_CALLS, GradeContext

LIMITS = {"time": "grade.time", "memory": "grade.memory", "ended": "grade.incomplete"}


class AgentDojoGraderOptions(BaseModel):
    """Which task it is."""

    model_config = ConfigDict(extra="forbid")

    version: str
    suite: str
    task: str


class AgentDojoGrader:
    """Solved is what the check of the authors says: of the world before and after, the answer and the calls."""

    name = "agentdojo"
    options: type[BaseModel] = AgentDojoGraderOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: AgentDojoGraderOptions) -> None:
        self._options = options
        self.version = f"1-{agentdojo.version()}"

    async def grade(self, ctx: GradeContext) -> Grade:
        """Grade. Raises `Fault` (grader.crashed) where nothing says what was called."""
        if TOOL_CALLS not in ctx.files:
            raise Fault("grader.crashed", f"the attempt left no `{TOOL_CALLS}`, so that nothing can be applied again")
        calls = json.loads(ctx.files[TOOL_CALLS])
        place = self._options.model_dump()
        asked = {"do": "check", **place, "seconds": agentdojo.SECONDS, "calls": calls, "answer": ctx.answer or ""}
        told = await agentdojo.ask(asked)
        why: str | None = told.get("why")
        match told["state"]:
            case "checked":
                return _grade(told["solved"], "the task is done")
            case "raised":  # the check met a world that it does not expect
                return _grade(False, "the check can read what was done", why)
            case "time" | "memory" | "ended" as state:
                ctx.issue(LIMITS[state], f"the calls, and their check, broke a limit: {why or state}")
                return _grade(False, "the check reaches its end", why or state)
            case _:
                raise Fault("grader.crashed", f"{agentdojo.PACKAGE} has no task {place}")


def _grade(solved: bool, label: str, actual: str | None = None) -> Grade:
    return Grade(solved=solved, score=float(solved), checks=(Check(label, solved, None, actual and actual[:1000]),))
