"""A grader that gives a part of the score for an answer that is nearly right, and a benchmark that uses it."""

from difflib import SequenceMatcher

from pydantic import BaseModel, ConfigDict, Field

from proctor.model.attempt import Check, Grade, GradingMode
from proctor.model.spec import Component, Reference, Task

LOOKED_AT = 1000  # characters of an answer: to compare takes longer the longer it is


class SimilarOptions(BaseModel):
    """The right text, and how like it an answer must be to pass, from 0 to 1."""

    model_config = ConfigDict(extra="forbid")

    expected: str = Field(min_length=1, max_length=LOOKED_AT)
    enough: float = Field(default=0.9, gt=0, le=1)


class Similar:
    """The score is how alike both texts are."""

    name = "similar"
    version = "1"
    options = SimilarOptions
    reward_files = ()

    def __init__(self, options):
        self.settings = options

    async def grade(self, ctx):
        """Compare."""
        expected, answer = self.settings.expected, (ctx.answer or "").strip()
        score = SequenceMatcher(None, expected, answer[:LOOKED_AT], autojunk=False).ratio()
        solved = score >= self.settings.enough and len(answer) <= LOOKED_AT
        check = Check("the answer is like the right one", solved, expected, answer[:200])
        return Grade(solved=solved, score=score, checks=(check,))


class MottoesOptions(BaseModel):
    """There are none."""

    model_config = ConfigDict(extra="forbid")


class Mottoes:
    """Two mottoes to complete."""

    name = "mottoes"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = MottoesOptions

    def __init__(self, options):
        pass

    async def tasks(self):
        """Return the tasks."""
        texts = {"sinking": "Fluctuat nec mergitur", "many": "E pluribus unum"}
        grader = f"{__name__}:Similar"  # or the name of its entry point
        return [
            Task(name, Component(grader, {"expected": text}), f"Go on: {text[:8]}", reference=Reference(text))
            for name, text in texts.items()
        ]

    async def setup(self, ctx):
        """Put nothing into the sandbox."""
