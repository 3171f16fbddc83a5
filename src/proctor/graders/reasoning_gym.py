"""Grader `reasoning_gym`: asks the checker of a generated puzzle, in a process of its own. Needs no sandbox."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.data import reasoning_gym
from proctor.errors import Fault
from proctor.model.attempt import Check, Grade
from proctor.model.spec import Json
from proctor.plugins.api import GradeContext

ANSWER_LIMIT = 200_000
"""Characters of what an agent says, beyond which nothing is looked for."""
LABEL = "the answer"


class ReasoningGymGraderOptions(BaseModel):
    """Which task it is, the score from which on it is solved, and how much processor time its check may take."""

    model_config = ConfigDict(extra="forbid")

    name: str
    seed: int
    index: int
    config: dict[str, Json]
    digest: str
    solved_at: float = 1.0
    check_seconds: int = Field(default=10, ge=1)


class ReasoningGymGrader:
    """Gives the score of the checker for what stands between the last `<answer>` and `</answer>`."""

    name = "reasoning_gym"
    options: type[BaseModel] = ReasoningGymGraderOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: ReasoningGymGraderOptions) -> None:
        self._options = options
        self.version = f"1-{reasoning_gym.version()}"

    async def grade(self, ctx: GradeContext) -> Grade:
        """Check. Raises `Fault` (grader.crashed) where the checker fails for a reason that is not the answer's."""
        if ctx.answer is None:
            return _failed("an answer was given")
        if len(ctx.answer) > ANSWER_LIMIT:
            return _failed(f"the answer has at most {ANSWER_LIMIT} characters", str(len(ctx.answer)))
        options = self._options
        told = await reasoning_gym.ask(
            {
                "do": "check",
                "name": options.name,
                "seed": options.seed,
                "index": options.index,
                "config": options.config,
                "digest": options.digest,
                "seconds": options.check_seconds,
                "text": ctx.answer,
            }
        )
        return self._judge(ctx, told)

    def _judge(self, ctx: GradeContext, told: dict[str, Any]) -> Grade:
        options = self._options
        match told["state"]:
            case "scored":
                solved = told["score"] >= options.solved_at
                check = Check(LABEL, solved, _short(told["expected"]), told["said"])
                return Grade(solved=solved, score=told["score"], checks=(check,))
            case "unmarked":
                return _failed("the answer stands between <answer> and </answer>")
            case "unreadable":
                return _failed(f"the checker can read the answer: {told['why']}", told["said"], told["expected"])
            case "time":
                why = f"the check took more than {options.check_seconds} s of processor time"
                return self._limit_broken(ctx, "grade.time", why)
            case "memory":
                return self._limit_broken(ctx, "grade.memory", "the check took more memory than it may")
            case "ended":
                return self._limit_broken(ctx, "grade.incomplete", told["why"])
            case "changed":
                what = f"task {options.index} of {options.name}"
                raise Fault("grader.crashed", f"{what} is another one each time it is made: leave the dataset out")
            case _:
                raise Fault("grader.crashed", f"the checker of {options.name} failed: {told['why']}")

    def _limit_broken(self, ctx: GradeContext, code: str, message: str) -> Grade:
        ctx.issue(code, message)
        return _failed("the check reaches its end", message)


def _failed(label: str, actual: str | None = None, expected: str | None = None) -> Grade:
    return Grade(solved=False, score=0.0, checks=(Check(label, False, _short(expected), actual),))


def _short(text: str | None) -> str | None:
    return text and text[:1000]
