"""Benchmark `trivial`: as many tasks as wanted, solved by answering `ok`; for trying things and for measuring."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import AttemptContext

ANSWER = "ok"
PROMPT = f"Answer with the word `{ANSWER}` and nothing else."


class TrivialOptions(BaseModel):
    """How many tasks there are, and whether each needs a sandbox while it is worked on."""

    model_config = ConfigDict(extra="forbid")

    tasks: int = Field(default=10, ge=1, le=1_000_000, strict=True)
    sandbox: bool = False


class Trivial:
    """Tasks `t0000`, `t0001`, ... that differ in nothing but their ids."""

    name = "trivial"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options: type[BaseModel] = TrivialOptions

    def __init__(self, options: TrivialOptions) -> None:
        self._options = options

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks, made as they are asked for; all parts but the id are shared."""
        grader = Component("text", {"expected": ANSWER})
        reference = Reference(answer=ANSWER)
        files: dict[str, bytes] = {}
        return (
            Task(
                id=f"t{number:04d}",
                grader=grader,
                prompt=PROMPT,
                files=files,
                reference=reference,
                needs_sandbox=self._options.sandbox,
            )
            for number in range(self._options.tasks)
        )

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox."""
