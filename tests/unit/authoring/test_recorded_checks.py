"""The record of checks between benchmark and grader: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.authoring.recorded_checks import KEPT_AT_MOST, RECORD_NAME, CheckRecord, decoded
from proctor.graders.checks import TO_ITS_END, ChecksGrader, ChecksOptions, grade_of
from proctor.model.attempt import Check, InvalidGrade

texts = st.text() | st.none()
checks = st.builds(Check, st.text(), st.booleans(), texts, texts, texts)
scores = st.tuples(st.text(), st.floats() | st.integers() | st.none() | st.text(max_size=5))


@settings(deadline=None, max_examples=100)
@given(st.lists(checks, max_size=20), st.lists(scores, max_size=5), st.booleans())
def test_what_is_recorded_is_read_again(made: list[Check], given_scores: list[tuple[str, object]], ended: bool) -> None:
    record = CheckRecord(ended=ended)
    for check in made:
        record.add(check)
    for name, value in given_scores:
        record.score(name, value, "evals/a.py:1")
    assert decoded(record.encoded()) == record


@settings(deadline=None, max_examples=100)
@given(st.lists(st.booleans(), min_size=1, max_size=50), st.booleans())
def test_02_solved_is_all_true_and_the_score_is_the_share(values: list[bool], ended: bool) -> None:
    record = CheckRecord([Check("x", ok=value) for value in values], ended=ended)
    grade = grade_of(record)
    assert grade.solved is (all(values) and ended)
    assert grade.score == sum(values) / (len(values) + (not ended))
    assert (grade.checks[-1].label == TO_ITS_END) is not ended


def test_checks_beyond_the_bound_are_counted() -> None:
    record = CheckRecord(ended=True)
    for number in range(2 * KEPT_AT_MOST):
        record.add(Check(str(number), ok=number != 2 * KEPT_AT_MOST - 1))
    grade = grade_of(decoded(record.encoded()))
    assert len(grade.checks) == KEPT_AT_MOST
    assert not grade.solved, "the one that is false is among those that are only counted"
    assert grade.score == 1 - 1 / (2 * KEPT_AT_MOST)


def test_05_nothing_checked_is_no_grade() -> None:
    with pytest.raises(InvalidGrade, match="checked nothing"):
        grade_of(CheckRecord(ended=True))
    assert not grade_of(CheckRecord(ended=False)).solved, "who was cut off before the first check has failed"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b'{"format": 2}', b'{"format": 1}', b"\xff", b'{"format": 1, "checks": [1]}'],
)
def test_what_is_no_record_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        decoded(content)


def test_a_task_of_another_benchmark_is_not_graded_by_checks() -> None:
    grader = ChecksGrader(ChecksOptions())
    with pytest.raises(ValueError, match="only tasks of the benchmark `evals`"):
        asyncio.run(grader.grade(SimpleNamespace(files={"other": b""})))  # type: ignore[arg-type]
    record = CheckRecord([Check("x", ok=True)], ended=True).encoded()
    assert asyncio.run(grader.grade(SimpleNamespace(files={RECORD_NAME: record}))).solved  # type: ignore[arg-type]
