"""Ready scripts: how many HumanEval tasks a share solves, and what a file of answers says."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.errors import UsageError
from proctor.models.mock import NoAnswer
from proctor.plugins.api import ChatMessage
from proctor.testing.scripts import answers, is_solved, share_of


def said(script, text):
    return script([ChatMessage("user", text)])


# ------------------------------------------------------------------------------------------------------- shares


@settings(deadline=None, max_examples=200)
@given(share=st.fractions(0, 1, max_denominator=1000), tasks=st.integers(0, 400))
def test_of_the_first_n_tasks_floor_n_times_share_are_solved(share, tasks):
    assert sum(is_solved(index, share) for index in range(tasks)) == tasks * share // 1


@pytest.mark.parametrize(
    ("written", "solved"), [("0", 0), (0.25, 41), ("0.5", 82), (0.613, 100), ("0.622", 102), (1, 164), (1.0, 164)]
)
def test_all_164_tasks(written, solved):
    assert sum(is_solved(index, share_of(written)) for index in range(164)) == solved


def test_a_share_is_the_number_that_was_written():
    assert share_of(0.613) == share_of("0.613") == Fraction(613, 1000)
    assert share_of("1/3") == Fraction(1, 3)
    # In binary 0.07 x 100 is a little more than 7, and 0.29 x 100 a little less than 29.
    assert sum(is_solved(index, share_of(0.29)) for index in range(100)) == 29
    assert sum(is_solved(index, share_of(0.07)) for index in range(100)) == 7


@pytest.mark.parametrize("value", ["", "all", "-0.1", "1.0001", "1/0", float("nan"), float("inf"), "50%"])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(UsageError, match="a share must be a number from 0 to 1"):
        share_of(value)


# ---------------------------------------------------------------------------------------------- files of answers


@pytest.fixture
def file_of(tmp_path):
    def write(*entries):
        file = tmp_path / "answers.jsonl"
        file.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in entries))
        return file

    return write


def test_the_first_line_that_fits_wins(file_of):
    script = answers(
        file_of(
            {"regex": r"^\d+ \+ \d+$", "answer": "a sum"},
            "",
            {"match": "+", "answer": "a plus"},
            {"match": "", "answer": "anything"},
        )
    )
    assert said(script, "1 + 2") == "a sum"
    assert said(script, "x + 2") == "a plus"
    assert said(script, "1 - 2") == "anything"


def test_lines_that_fit_nothing_in_particular_are_given_in_turn(file_of):
    script = answers(file_of({"answer": "one"}, {"match": "x", "answer": "X"}, {"answer": "two"}))
    assert [said(script, text) for text in ("a", "x", "b", "c")] == ["one", "X", "two", "one"]


def test_only_the_last_message_of_the_user_counts(file_of):
    script = answers(file_of({"match": "cat", "answer": "meow"}, {"answer": "?"}))
    conversation = [ChatMessage("user", "cat"), ChatMessage("assistant", "cat"), ChatMessage("user", "dog")]
    assert script(conversation) == "?"


def test_without_a_line_that_fits_there_is_no_answer(file_of):
    script = answers(file_of({"match": "cat", "answer": "meow"}))
    with pytest.raises(NoAnswer, match="fits the message: 'dog'"):
        said(script, "dog")
    with pytest.raises(NoAnswer, match="no message of the user"):
        script([ChatMessage("system", "cat")])


def test_answers_may_hold_any_text(file_of):
    text = "line\nfeed \u2028 separator \ud83d half"
    assert said(answers(file_of({"answer": text})), "q") == text


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        "{}",
        '{"match": "x"}',
        '{"answer": 1}',
        '{"match": 1, "answer": "x"}',
        '{"match": "x", "regex": "x", "answer": "x"}',
        '{"mtach": "x", "answer": "x"}',
        '{"regex": "(", "answer": "x"}',
    ],
)
def test_a_line_that_is_no_answer_is_named(file_of, line):
    file = file_of({"answer": "fine"}, line)
    with pytest.raises(UsageError, match=r"answers\.jsonl:2"):
        answers(file)


def test_a_file_that_cannot_be_read_or_is_empty_is_refused(tmp_path, file_of):
    with pytest.raises(UsageError, match="cannot read the answers in"):
        answers(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"answer": "\xe9"}\n')
    with pytest.raises(UsageError, match="cannot read the answers in"):
        answers(tmp_path / "latin.jsonl")
    with pytest.raises(UsageError, match="there are no answers in"):
        answers(file_of(""))
