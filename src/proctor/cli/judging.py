"""The judge of an experiment: opened where a grader of its tasks asks one, left out of account where none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proctor.cli.resolve import Resolved
from proctor.cli.resolve_parts import open_model
from proctor.errors import UsageError
from proctor.model.spec import Task

_EXAMPLE = "give one: `--judge MODEL`, or `judge:` in a file, such as `judge: mock/echo`"


def settle_judge(one: Resolved, tasks: Sequence[Task]) -> frozenset[str]:
    """Return the ids of the graders of `tasks` that ask a judge, and open it for them.

    Raises `UsageError` where there is none, or it cannot be opened.
    """
    judging = frozenset(task.grader.id for task in tasks if getattr(one.grader(task), "needs_judge", False))
    judge = one.experiment.judge
    if judging and judge is None:
        first = next(task for task in tasks if task.grader.id in judging)
        raise UsageError(
            f"grader `{first.grader.id}` of task `{first.id}` asks a model, and the experiment names no judge",
            hint=_EXAMPLE,
        )
    if judge is not None and not judging:
        # Nothing of it may count: not in an identity, not in a gate.
        one.experiment = replace(one.experiment, judge=None)
        one.notes = [*one.notes, f"no grader asks a judge: `{judge.id}` is left out of account"]
    elif judge is not None and one.judge is None:
        one.judge = open_model(judge, one.fields, "judge")
    return judging
