"""A benchmark: files of numbers to add up."""

from random import Random

from pydantic import BaseModel, ConfigDict, Field

from proctor.model.attempt import GradingMode
from proctor.model.spec import Component, Reference, Task

PROMPT = "Add up the numbers in the file numbers.txt. End with a line `Answer: SUM`."


class SumsOptions(BaseModel):
    """How many tasks there are, and how many numbers are in each file."""

    model_config = ConfigDict(extra="forbid")

    tasks: int = Field(default=10, ge=1)
    numbers: int = Field(default=20, ge=1)


class Sums:
    """Each task has a file of its own; the same parameters make the same tasks."""

    name = "sums"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = SumsOptions

    def __init__(self, options):
        self.settings = options

    async def tasks(self):
        """Return the tasks."""
        return [self._task(number) for number in range(self.settings.tasks)]

    async def setup(self, ctx):
        """Put the file of the task into the sandbox."""
        for path, content in ctx.task.files.items():
            await ctx.sandbox.write(path, content)

    def _task(self, number):
        random = Random(number)  # noqa: S311 - no secret
        numbers = [random.randrange(1000) for _ in range(self.settings.numbers)]
        total = str(sum(numbers))
        return Task(
            id=f"sum-{number:03d}",
            prompt=PROMPT,
            files={"numbers.txt": "\n".join(map(str, numbers)).encode()},
            needs_sandbox=True,
            grader=Component("numeric", {"expected": total}),
            reference=Reference(answer=f"Answer: {total}"),
        )
