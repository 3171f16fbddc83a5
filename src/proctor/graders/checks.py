"""Grader `checks`: the grade of a Python task is what its function checked (spec 02). Needs no sandbox."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from proctor.authoring.recorded_checks import RECORD_NAME, CheckRecord, decoded
from proctor.model.attempt import Check, Grade, InvalidGrade
from proctor.plugins.api import GradeContext

TO_ITS_END = "the task came to its end"
"""The label of the check that fails where the function was cut off, by a limit or by what a turn raised."""


class ChecksOptions(BaseModel):
    """There are none."""

    model_config = ConfigDict(extra="forbid")


class ChecksGrader:
    """Solved if the function came to its end, checked something, and all of it was true."""

    name = "checks"
    version = "1"
    options: type[BaseModel] = ChecksOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: ChecksOptions) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        """Count. Raises `InvalidGrade` where nothing was checked, or a sub-score is no finite number."""
        content = ctx.files.get(RECORD_NAME)
        if content is None:
            raise ValueError(f"there is no {RECORD_NAME}: only tasks of the benchmark `evals` are graded by `checks`")
        return grade_of(decoded(content))


def grade_of(record: CheckRecord) -> Grade:
    """Return the grade that recorded checks come to. Raises `InvalidGrade`."""
    for score in record.scores.values():
        if score.invalid is not None:
            where = f"{score.source}: " if score.source else ""
            raise InvalidGrade(f"{where}score `{score.name}` must be a finite number, not {score.invalid}")
    checks = record.checks
    if not record.ended:
        checks = [*checks, Check(TO_ITS_END, ok=False, expected="True", actual="False")]
    true = sum(check.ok for check in checks) + record.more_true
    total = len(checks) + record.more_true + record.more_false
    if not total:
        raise InvalidGrade(
            "the task checked nothing: it has to call `t.check(label, value)` at least once "
            "(an `assert` that holds is no check)"
        )
    sub_scores = {score.name: score.value for score in record.scores.values() if score.value is not None}
    return Grade(solved=true == total, score=true / total, sub_scores=sub_scores, checks=tuple(checks))


__all__ = ["TO_ITS_END", "ChecksGrader", "ChecksOptions", "grade_of"]
