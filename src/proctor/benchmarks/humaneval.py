"""Benchmark `humaneval`: 164 functions to complete, graded by their tests in a fresh sandbox."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from proctor.data import humaneval
from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import AttemptContext

TAGS = ("python", "code")

PROMPT = """\
Complete the following Python function. Answer with one Python code block that holds the whole function, together with \
the imports and helper functions that it needs.

```python
{prompt}
```
"""


class HumanEvalOptions(BaseModel):
    """`timeout_seconds` is how long the code of one answer may run."""

    model_config = ConfigDict(extra="forbid")

    timeout_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)


class HumanEval:
    """The problems of HumanEval; raises `MissingPackage` or `UsageError` where their package is missing or damaged."""

    name = "humaneval"
    isolated_attempts = True
    grading = GradingMode.FRESH
    gradings = (GradingMode.FRESH,)
    options: type[BaseModel] = HumanEvalOptions

    def __init__(self, options: HumanEvalOptions) -> None:
        self._options = options
        self._data = humaneval.load()
        self.version = f"1-{self._data.sha256[:12]}"

    async def tasks(self) -> Iterable[Task]:
        """Return the problems in the order of their authors."""
        return [self._task(problem) for problem in self._data.problems]

    async def setup(self, ctx: AttemptContext) -> None:
        """Put nothing into the sandbox: the prompt is all that an agent needs."""

    def _task(self, problem: humaneval.Problem) -> Task:
        return Task(
            id=problem.task_id,
            prompt=PROMPT.format(prompt=problem.prompt.rstrip("\n")),
            grader=Component(
                "python-tests",
                {
                    "prompt": problem.prompt,
                    "test": problem.test,
                    "entry_point": problem.entry_point,
                    "timeout_seconds": self._options.timeout_seconds,
                },
            ),
            reference=Reference(answer=f"```python\n{problem.prompt}{problem.canonical_solution}\n```\n"),
            tags=TAGS,
        )
