"""Tasks of several steps: each is a message, then its own tests; what the steps earned is folded into one score.

The rewards of all steps but the last are taken between the turns and kept by the runner, in a file of the attempt that
is never in a sandbox. The last one is the grader's, as with any task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.errors import Fault
from proctor.model.attempt import InvalidGrade
from proctor.plugins.hidden_tests import TestsContext, TestsOptions, rewards_left, run_tests
from proctor.plugins.rewards import NAME, Reward, reward_in

RECORD_NAME = "steps.json"
"""The file of an attempt that has the rewards of the steps that were graded between turns."""

Bound = Annotated[float, Field(allow_inf_nan=False)]


class StepOptions(TestsOptions):
    """One step: its tests, and what its rewards have to be for the task to go on.

    `min_reward` is of the score, or of numbers by name; one that the tests do not write is too low.
    """

    name: str = Field(min_length=1)
    min_reward: Bound | dict[str, Bound] | None = None


class StepsOptions(BaseModel):
    """All steps. `strategy` is how a score is made of theirs: the mean of those that were graded, or the last one's."""

    model_config = ConfigDict(extra="forbid")

    steps: tuple[StepOptions, ...] = Field(min_length=1)
    strategy: Literal["mean", "final"] = "mean"
    reward: str = NAME
    solved_at: float = Field(default=1.0, gt=0, le=1)


@dataclass(frozen=True, slots=True)
class StepReward:
    """What one step earned, and whether that is enough to go on."""

    name: str
    score: float
    others: Mapping[str, float]
    enough: bool


async def graded_step(options: StepsOptions, number: int, ctx: TestsContext) -> StepReward:
    """Run the tests of a step, counted from 0. Raises `Fault` and `InvalidGrade`, which say of which step."""
    step = options.steps[number]
    ctx.log.info("the tests of step `%s`", step.name)
    try:
        path, rewards = await rewards_left(step, ctx.sandbox, await run_tests(step, ctx))
        reward = reward_in(path, rewards, options.reward)
    except InvalidGrade as error:
        raise InvalidGrade(f"step `{step.name}`: {error}") from error
    except Fault as fault:
        raise Fault(fault.code, f"step `{step.name}`: {fault}", phase=fault.issue.phase) from fault
    named = {**rewards, options.reward: reward.score}
    return StepReward(step.name, reward.score, reward.others, _enough(step.min_reward, reward.score, named))


def _enough(least: float | Mapping[str, float] | None, score: float, named: Mapping[str, float]) -> bool:
    if least is None:
        return True
    if not isinstance(least, Mapping):
        return score >= least
    return all(name in named and named[name] >= bound for name, bound in least.items())


def folded(strategy: str, steps: Sequence[StepReward]) -> Reward:
    """Return the reward of the steps that were graded, of which there is one at least.

    By the mean a number that a step did not write counts as 0, as those who publish the format have it.
    """
    if strategy == "final":
        return Reward(steps[-1].score, steps[-1].others)
    names = sorted({name for step in steps for name in step.others})
    others = {name: mean(step.others.get(name, 0.0) for step in steps) for name in names}
    return Reward(mean(step.score for step in steps), others)


def record_of(steps: Sequence[StepReward]) -> bytes:
    """Return the file `RECORD_NAME`."""
    rows = [{"name": one.name, "score": one.score, "others": dict(one.others), "enough": one.enough} for one in steps]
    return json.dumps({"steps": rows}, indent=1).encode("ascii") + b"\n"


def read_record(content: bytes | None) -> list[StepReward]:
    """Return the steps that were graded between turns. Raises `Fault` where there is no such file."""
    if content is None:
        raise Fault("grader.crashed", f"there is no {RECORD_NAME}: the steps of the task were not taken one by one")
    found: Any = json.loads(content)
    return [StepReward(row["name"], row["score"], row["others"], row["enough"]) for row in found["steps"]]


__all__ = [
    "RECORD_NAME", "StepOptions", "StepReward", "StepsOptions", "folded", "graded_step", "read_record", "record_of",
]  # fmt: skip
