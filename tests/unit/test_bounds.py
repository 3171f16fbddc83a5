"""Nothing that a plugin says is kept without bound; what is cut is counted and said (hostile output)."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.errors import Fault, describe
from proctor.model.attempt import Check, Grade, Issue, Severity, Usage, issue_of
from proctor.model.bounds import (
    ANSWER_CHARACTERS,
    CHECKS_AT_MOST,
    CHECKS_CHARACTERS,
    DESCRIPTION_CHARACTERS,
    ISSUES_AT_MOST,
    LOG_LINE_CHARACTERS,
    MESSAGE_CHARACTERS,
    SUB_SCORES_AT_MOST,
    TREE_CHARACTERS,
    TREE_DEPTH,
    TREE_NODES,
    TRY_LOG_BYTES,
    mark,
    shortened,
    with_gap,
)
from proctor.model.codes import CODES
from proctor.runtime import kept
from proctor.runtime.kept import kept_answer, kept_grade, kept_tree
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.output import HeadTail
from proctor.runtime.redact import Redactor

SECRET = "sk-verysecretvalue1234"


@settings(max_examples=200)
@given(st.text(max_size=400), st.integers(0, 200))
def test_a_text_keeps_its_ends_and_says_exactly_how_much_is_missing(text: str, most: int) -> None:
    found = shortened(text, most)
    assert len(found) <= max(most, len(text) if len(text) <= most else 0)
    if len(text) <= most:
        assert found == text
    elif most > 60:
        missing = next(n for n in range(1, len(text)) if mark(n) in found)
        head, tail = found.split(f" {mark(missing)} ", 1)
        assert text == head + text[len(head) : len(head) + missing] + tail


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 60))
def test_the_gap_in_a_stream_is_where_something_is_missing(data: bytes, keep: int) -> None:
    stream = HeadTail(keep)
    stream.add(data)
    shown = with_gap(stream.kept, stream.dropped)
    if not stream.dropped:
        assert shown == data
        return
    head, tail = shown.split(b"\n" + mark(stream.dropped, "bytes").encode() + b"\n", 1)
    assert data.startswith(head)
    assert data.endswith(tail)
    assert len(head) + len(tail) + stream.dropped == len(data)


def noted(*secrets: str) -> tuple[Notes, list[Issue]]:
    told: list[Issue] = []
    return Notes(Redactor(secrets), told.append), told


def test_a_message_is_cut_after_the_secret_is_out_of_it() -> None:
    notes, _ = noted(SECRET)
    for at in range(MESSAGE_CHARACTERS // 2 - 60, MESSAGE_CHARACTERS // 2 + 10):
        notes.raise_issue("harness.limit", "x" * at + SECRET + "y" * MESSAGE_CHARACTERS)
    for issue in notes.issues:
        assert len(issue.message) <= MESSAGE_CHARACTERS
        assert "characters left out" in issue.message
        assert "sk-v" not in issue.message


@pytest.mark.parametrize("message", [3, None, b"\xff", object(), ["a"]])
def test_a_message_that_is_no_text_is_a_message_all_the_same(message: Any) -> None:
    notes, told = noted(SECRET)
    notes.add(Fault("harness.crashed", message).issue)
    assert told == notes.issues
    assert isinstance(told[0].message, str)


def test_issues_beyond_the_bound_are_counted_in_one() -> None:
    notes, told = noted()
    for number in range(ISSUES_AT_MOST + 50):
        notes.raise_issue("harness.limit", f"number {number}")
    notes.raise_issue("output.truncated", "a")
    notes.raise_issue("output.truncated", "b")
    notes.close(TryLog(Redactor(), logging.DEBUG))
    assert len(notes.issues) == ISSUES_AT_MOST + 2
    assert notes.issues == told
    assert notes.issues[-1].code == "output.truncated"
    assert notes.issues[-1].message == "51 more issues are left out: 50 harness.limit, 1 output.truncated"


def test_a_failure_that_decides_is_kept_however_many_came_before_it() -> None:
    notes, _ = noted()
    for _ in range(10 * ISSUES_AT_MOST):
        for code in CODES:
            notes.raise_issue(code, "again")
    assert {issue.code for issue in notes.issues} == set(CODES)
    assert len(notes.issues) <= ISSUES_AT_MOST + len(CODES)
    notes, _ = noted()
    for _ in range(2 * ISSUES_AT_MOST):
        notes.raise_issue("harness.exit_nonzero", "again")
    as_fatal = issue_of("harness.exit_nonzero", "now it matters")
    notes.add(Issue(as_fatal.code, as_fatal.message, Severity.FATAL, as_fatal.owner))
    assert notes.issues[-1].fatal


@pytest.mark.parametrize("usage", [Usage(calls=1, input_tokens=10**5000), Usage(calls=1, cost_usd=1e300)])
def test_what_no_try_can_use_is_refused_where_it_is_reported(usage: Usage) -> None:
    notes, _ = noted()
    notes.report(Usage(calls=1, input_tokens=5, cost_usd=0.5))
    with pytest.raises(ValueError, match="no try uses more"):
        notes.report(usage)
    with pytest.raises(ValueError, match="no try uses more"):
        notes.grader_usage += usage
    assert notes.usage == Usage(calls=1, input_tokens=5, cost_usd=0.5)


def test_the_log_of_a_try_keeps_its_beginning_and_end_and_says_what_is_missing() -> None:
    log = TryLog(Redactor(), logging.DEBUG)
    for number in range(60_000):
        log.logger.info("line %d %s", number, "x" * 100)
    content = log.content
    assert len(content.encode()) <= TRY_LOG_BYTES + 100
    assert "INFO line 0 x" in content
    assert f"line 59999 {'x' * 100}\n" in content
    assert mark(log.dropped, "bytes") in content
    notes, _ = noted()
    notes.close(log)
    assert [issue.message for issue in notes.issues] == [f"try.log: {log.dropped:,} bytes in the middle are left out"]


def test_a_line_of_a_log_is_bounded_and_foreign_text_does_not_break_it(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("\x1b[2Jno text")

    log = TryLog(Redactor([SECRET]), logging.DEBUG)
    log.logger.info("%s", "y" * 10 * LOG_LINE_CHARACTERS + SECRET)
    log.logger.info("half a pair \ud800, a zero \0, %s", "end")
    log.logger.info("%d", "no number")
    log.logger.info("%s", Broken())
    lines = log.content.split("\n")
    assert len(lines[0]) <= LOG_LINE_CHARACTERS
    assert "verysecret" not in log.content
    assert lines[1].endswith("half a pair \\ud800, a zero \0, end")
    assert "cannot be formatted: TypeError" in log.content
    assert "cannot be formatted: RuntimeError" in log.content
    assert capsys.readouterr() == ("", ""), "a plugin's line is never printed"


def test_the_text_of_an_exception_is_bounded() -> None:
    said = describe(ValueError("a " * DESCRIPTION_CHARACTERS + "end"))
    assert len(said) <= DESCRIPTION_CHARACTERS + 20
    assert said.endswith("end")


def test_an_answer_keeps_its_ends() -> None:
    short, words = kept_answer("x" * ANSWER_CHARACTERS)
    assert (len(short), words) == (ANSWER_CHARACTERS, None)
    found, words = kept_answer("begin" + "x" * ANSWER_CHARACTERS + "end")
    assert len(found) <= ANSWER_CHARACTERS
    assert found.startswith("begin")
    assert found.endswith("end")
    assert words is not None
    assert f"{ANSWER_CHARACTERS + 8:,} characters" in words


def test_a_grade_within_the_bounds_is_left_alone() -> None:
    grade = Grade(True, 1.0, {"a": 0.5}, (Check("label", ok=True, expected="x" * 2000),))
    assert kept_grade(grade) == (grade, None)


def test_of_too_many_checks_the_failed_ones_are_kept_in_their_order() -> None:
    checks = tuple(Check(f"check {n}", ok=n % 100 != 0, actual="y" * 3000) for n in range(20_000))
    found, words = kept_grade(Grade(False, 0.0, checks=checks))
    assert len(found.checks) == CHECKS_AT_MOST
    assert sum(not check.ok for check in found.checks) == 200
    numbers = [int(check.label.split()[1]) for check in found.checks]
    assert numbers == sorted(numbers)
    assert sum(len(check.label) + len(check.actual or "") for check in found.checks) <= CHECKS_CHARACTERS
    assert words is not None
    assert "1,000 of 20,000 checks" in words


def test_of_too_many_sub_scores_the_first_are_kept() -> None:
    found, words = kept_grade(Grade(True, 1.0, {f"{n} " + "x" * 500: 1.0 for n in range(3000)}))
    assert len(found.sub_scores) == SUB_SCORES_AT_MOST
    assert all(len(name) <= 200 for name in found.sub_scores)
    assert words is not None
    assert "1,000 of 3,000 sub-scores" in words


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=100)
@given(VALUES)
def test_a_trajectory_within_the_bounds_is_left_alone(value: Any) -> None:
    assert kept_tree(value, str) == (value, None)


def test_129_a_trajectory_nested_too_deep_is_kept_in_part() -> None:
    value: Any = "the end"
    for _ in range(2000):
        value = {"inner": [value]}
    found, words = kept_tree({"deep": value, "flat": "kept"}, str)
    assert found["flat"] == "kept"
    assert json.loads(json.dumps(found)) == found
    assert words == "the trajectory is kept in part: 1 values nested too deep"
    assert TREE_DEPTH < 256


@pytest.mark.long
def test_a_trajectory_that_contains_itself_ends() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    found, words = kept_tree(loop, str)
    assert words is not None
    assert len(json.dumps(found)) < 100 * TREE_NODES


def test_of_a_trajectory_that_is_too_long_both_ends_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TREE_CHARACTERS", 1000)
    steps = [{"message": f"step {number} " + "x" * 80} for number in range(1000)]
    found, words = kept_tree({"steps": steps}, str)
    assert found["steps"][0] == steps[0]
    assert found["steps"][-1] == steps[-1]
    missing = int(next(each for each in found["steps"] if isinstance(each, str)).split()[1].replace(",", ""))
    assert len(found["steps"]) - 1 + missing == 1000
    assert words is not None
    assert f"{missing} values left out" in words
    assert TREE_CHARACTERS > 1_000_000


def test_secrets_leave_a_trajectory_before_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TREE_TEXT_CHARACTERS", 200)
    for at in range(60, 120):
        found, _ = kept_tree([{SECRET: "x" * at + SECRET + "y" * 200}], Redactor([SECRET]).text)
        assert "sk-v" not in json.dumps(found)
