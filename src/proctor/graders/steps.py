"""Grader of tasks of several steps: runs the tests of the last step that was worked on, and folds what all earned."""

from __future__ import annotations

from pydantic import BaseModel

from proctor.model.attempt import Check, Grade
from proctor.plugins.api import GradeContext
from proctor.plugins.steps import RECORD_NAME, StepsOptions, folded, graded_step, read_record


class StepsGrader:
    """Grades what a task of several steps came to; made for benchmarks that grade the others between turns.

    A task is solved where its score is enough, every step was reached, and no step was below its least reward.
    """

    name = "steps"
    version = "1"
    options: type[BaseModel] = StepsOptions

    def __init__(self, options: StepsOptions) -> None:
        self._options = options
        paths = [path for step in options.steps for path in (*step.reward_files, *step.files)]
        self.reward_files: tuple[str, ...] = tuple(dict.fromkeys(paths))

    async def grade(self, ctx: GradeContext) -> Grade:
        """Grade the last step, and all together. Raises `Fault`, or `InvalidGrade` for a reward that is none."""
        options = self._options
        done = read_record(ctx.files.get(RECORD_NAME))
        if len(done) < len(options.steps) and all(step.enough for step in done):
            done.append(await graded_step(options, len(done), ctx))
        reward = folded(options.strategy, done)
        whole = len(done) == len(options.steps) and all(step.enough for step in done)
        solved = whole and reward.score >= options.solved_at
        checks = [
            Check(f"step {step.name}", step.enough, _least(asked.min_reward), f"{step.score:g}")
            for step, asked in zip(done, options.steps, strict=False)
        ]
        checks += [Check(f"step {one.name}", ok=False, actual="not reached") for one in options.steps[len(done) :]]
        said = f"{reward.score:g}, the {options.strategy} of {len(done)} steps"
        checks.append(Check(options.reward, solved, f"at least {options.solved_at:g}", said))
        return Grade(solved=solved, score=reward.score, sub_scores=reward.others, checks=tuple(checks))


def _least(bound: float | dict[str, float] | None) -> str:
    if bound is None:
        return "any reward"
    if isinstance(bound, dict):
        return ", ".join(f"{name} at least {least:g}" for name, least in bound.items())
    return f"at least {bound:g}"


__all__ = ["StepsGrader"]
