"""Graders `text`, `numeric`, `regex` and `choice`: answers and what becomes of them (spec 11)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from proctor.data.numbers import number_of, numbers_in
from proctor.errors import Fault
from proctor.graders.choice import ChoiceGrader, ChoiceOptions
from proctor.graders.numeric import NumericGrader, NumericOptions
from proctor.graders.regex import RegexGrader, RegexOptions
from proctor.graders.text import TextGrader, TextOptions
from proctor.model.attempt import Grade

KINDS: dict[str, tuple[Any, Any]] = {
    "text": (TextGrader, TextOptions),
    "numeric": (NumericGrader, NumericOptions),
    "regex": (RegexGrader, RegexOptions),
    "choice": (ChoiceGrader, ChoiceOptions),
}
ODD = ("\ud83d", "\ude00", "\0", "a\u2028b", "x" * 5_000_000)
"""Case 126: halves of a character, NUL, a separator of lines, one long line."""


def grade(kind: str, answer: str | None, **params: Any) -> Grade:
    grader, options = KINDS[kind]
    return asyncio.run(grader(options(**params)).grade(SimpleNamespace(answer=answer)))


TEXTS: list[tuple[str | None, dict[str, Any], bool]] = [
    ("42", {}, True),
    (" 42\n", {}, True),
    (" 42\n", {"strip": False}, False),
    ("43", {}, False),
    ("", {}, False),
    (None, {}, False),
    ("The answer is 42", {}, False),
    ("The answer is 42.", {"take": "marked"}, True),
    ("Answer: 41\nno, wait.\n**Answer:** 42", {"take": "marked"}, True),
    ("**Answer: 42**", {"take": "marked"}, True),
    ("#### 42", {"take": "marked"}, True),
    ("42", {"take": "marked"}, False),
    ("I think\n\n42\n", {"take": "last_line"}, True),
    ("so \\boxed{41}, no: $\\boxed{42}$.", {"take": "boxed"}, True),
    ("\\boxed{42", {"take": "boxed"}, False),
    ("it has 42 in it", {"mode": "contains"}, True),
    ("it has none", {"mode": "contains"}, False),
    ("b", {"expected": ["a", "b"]}, True),
    ("c", {"expected": ["a", "b"]}, False),
    ("PARIS", {"expected": "Paris"}, False),
    ("PARIS", {"expected": "Paris", "ignore_case": True}, True),
    ("stra\u00dfe", {"expected": "STRASSE", "ignore_case": True}, True),
    ("New   York\ncity", {"expected": "New York city", "collapse_spaces": True}, True),
    ("\u201cParis\u201d, France!", {"expected": "Paris France", "ignore_punctuation": True}, True),
    ("3.5", {"expected": "35", "ignore_punctuation": True}, False),
    ("-5!", {"expected": "5", "ignore_punctuation": True}, False),
    ("\u22125!", {"expected": "-5", "ignore_punctuation": True}, True),
    ("1,000", {"expected": "1000", "ignore_punctuation": True}, True),
    ("\u0915\u093f", {"expected": "\u0915\u093e", "ignore_punctuation": True}, False),
    ("\\(42\\)", {"take": "marked"}, False),
    ("Answer: \\(42\\).", {"take": "marked"}, True),
    ("cafe\u0301", {"expected": "caf\u00e9"}, False),
    ("cafe\u0301", {"expected": "caf\u00e9", "unicode": "NFC"}, True),
    ("\uff14\uff12", {"unicode": "NFKC"}, True),
    ("\ud83d", {"expected": "\ud83d"}, True),
    ("a\0", {"expected": "a\0"}, True),
]


@pytest.mark.parametrize(("answer", "params", "solved"), TEXTS)
def test_11_text_compares(answer: str | None, params: dict[str, Any], solved: bool) -> None:
    assert grade("text", answer, **{"expected": "42", **params}).solved is solved


NUMBERS: list[tuple[str | None, dict[str, Any], bool]] = [
    ("42", {}, True),
    ("42.0", {}, True),
    ("It is 42.", {}, True),
    ("first 41, then 42", {}, True),
    ("first 42, then 41", {}, False),
    ("The answer is 42, and 7 is not", {}, False),
    ("\\boxed{42} as 6 x 7 is not 43", {}, True),
    ("#### 42", {}, True),
    ("forty-two", {}, False),
    ("", {}, False),
    (None, {}, False),
    ("nan", {}, False),
    ("inf", {}, False),
    ("-42", {}, False),
    ("\u221242", {"expected": "-42"}, True),
    ("1,234,567.5", {"expected": "1234567.5"}, True),
    ("1\u202f234", {"expected": "1234"}, True),
    ("1,23", {"expected": "1.23"}, False),
    ("1,23", {"expected": "1,23", "decimal_comma": True}, True),
    ("1.234,5", {"expected": "1234,5", "decimal_comma": True}, True),
    ("$1,200", {"expected": "1200"}, True),
    ("50%", {"expected": "50"}, True),
    ("50%", {"expected": "0.5", "percent": "fraction"}, True),
    ("0.5", {"expected": "50%", "percent": "fraction"}, True),
    ("3/4", {"expected": "0.75"}, True),
    ("\\frac{3}{4}", {"expected": "0.75"}, True),
    ("-\\frac{3}{4}", {"expected": "-0.75"}, True),
    ("1/0", {"expected": "0"}, False),
    ("2.5e3", {"expected": "2500"}, True),
    ("2.5 \\times 10^{3}", {"expected": "2500"}, True),
    ("10^4", {"expected": "10000"}, True),
    ("1/3", {"expected": "0.333"}, False),
    ("1/3", {"expected": "0.333", "tolerance": 0.001}, True),
    ("101", {"expected": "100", "relative_tolerance": 0.01}, True),
    ("102", {"expected": "100", "relative_tolerance": 0.01}, False),
    ("42 km", {}, True),
    ("version 1.42", {}, False),
    ("1.2.42", {}, False),
    ("41 or 42", {"take": "all"}, False),
    ("42 m", {"take": "all"}, True),
    ("42 is right\n41", {"take": "last_line"}, False),
    ("9" * 2_000, {"expected": "9"}, False),
    ("1e99999999999", {"expected": "1"}, False),
    ("0", {"expected": "0"}, True),
    ("12345678901234567890123", {"expected": "12345678901234567890123"}, True),
    ("12345678901234567890124", {"expected": "12345678901234567890123", "relative_tolerance": 0}, False),
]


@pytest.mark.parametrize(("answer", "params", "solved"), NUMBERS)
def test_11_numeric_compares(answer: str | None, params: dict[str, Any], solved: bool) -> None:
    assert grade("numeric", answer, **{"expected": "42", **params}).solved is solved


PATTERNS: list[tuple[str | None, dict[str, Any], bool]] = [
    ("it is 42", {"pattern": r"\d+"}, True),
    ("it is", {"pattern": r"\d+"}, False),
    (None, {"pattern": r".*"}, False),
    ("it is 42", {"pattern": r"\d+", "where": "full"}, False),
    ("42", {"pattern": r"\d+", "where": "full"}, True),
    ("x=1, x=2", {"pattern": r"x=(\d)", "expected": "2"}, True),
    ("x=1, x=2", {"pattern": r"x=(\d)", "expected": "1"}, False),
    ("x=1", {"pattern": r"x=\d", "expected": ["x=0", "x=1"]}, True),
    ("YES", {"pattern": "yes"}, False),
    ("YES", {"pattern": "yes", "ignore_case": True}, True),
    ("say: YES", {"pattern": r"say: (\w+)", "expected": "yes", "ignore_case": True}, True),
    ("a\nb", {"pattern": "^b$", "multiline": True}, True),
    ("a\nb", {"pattern": "a.b", "dotall": True}, True),
]


@pytest.mark.integration
@pytest.mark.parametrize(("answer", "params", "solved"), PATTERNS)
def test_11_regex_looks(answer: str | None, params: dict[str, Any], solved: bool) -> None:
    assert grade("regex", answer, **params).solved is solved


@pytest.mark.integration
def test_11_a_pattern_that_never_ends_holds_nobody() -> None:
    """The event loop goes on meanwhile, and no verdict is made up."""

    async def beside() -> tuple[BaseException, int]:
        grader = RegexGrader(RegexOptions(pattern=r"(a+)+$", timeout_seconds=0.5))
        turns = 0
        task = asyncio.ensure_future(grader.grade(SimpleNamespace(answer="a" * 60 + "b")))  # type: ignore[arg-type]
        while not task.done():
            turns += 1
            await asyncio.sleep(0.01)
        error = task.exception()
        assert error is not None
        return error, turns

    error, turns = asyncio.run(beside())
    assert isinstance(error, Fault)
    assert error.code == "time.grade"
    assert turns > 1


CHOICES = ("a dog", "apple", "car", "Sun")
CHOSEN: list[tuple[str | None, str]] = [
    ("B", "B"),
    ("b", "B"),
    ("(B)", "B"),
    ("B.", "B"),
    ("**B**", "B"),
    ("B) apple", "B"),
    ("B apple", "B"),
    ("apple", "B"),
    ("Apple.", "B"),
    ("option B.", "B"),
    ("Answer: B", "B"),
    ("**Answer:** (B)", "B"),
    ("The answer is B.", "B"),
    ("The final answer is: **B) apple**", "B"),
    ("Answer: A\nNo.\nAnswer: C", "C"),
    ("A is tempting.\n\nB", "B"),
    ("\\boxed{D}", "D"),
    ("\\boxed{\\text{D}}", "D"),
    ("so it is $\\boxed{\\text{(D) Sun}}$", "D"),
    ("A dog", "A"),
    ("", "-"),
    (None, "-"),
    ("A cat has four legs", "-"),
    # as language models write
    ("The answer is \\(B\\).", "B"),
    ("Answer: **B**.", "B"),
    ('answer: "B"', "B"),
    ("Answer: B (apple)", "B"),
    ("Answer: B because it is a fruit", "B"),
    ("The answer is (B). It grows on trees.", "B"),
    ("B) apple\n\nIt grows on trees.", "B"),
    ("The answer is letter B", "B"),
    # what takes it back, or speaks of another
    ("The answer is not B", "-"),
    ("Answer: B is wrong", "-"),
    ("Answer: B, or C", "-"),
    ("Answer: B. No, C.", "-"),
    ("Answer: B) it is a car", "-"),
    ("Answer: A, B", "-"),
    ("A) a dog\nB) apple\nC) car\nD) Sun", "-"),
    ("B) apple\nC) car", "-"),
    ("A) a dog\nB) apple\nC) car\nD) Sun\n\nB", "B"),
    ("Answer: A dog or an apple", "-"),
    ("Answer: A or B", "-"),
    ("A, B", "-"),
    ("AB", "-"),
    ("E", "-"),
    ("I do not know", "-"),
    ("Answer: none\nB", "-"),
    ("B) car", "-"),
    ("x" * 10_000, "-"),
]


@pytest.mark.parametrize(("answer", "letter"), CHOSEN)
def test_11_choice_finds_the_letter(answer: str | None, letter: str) -> None:
    found = {each: grade("choice", answer, choices=CHOICES, expected=each).solved for each in "ABCD"}
    assert found == {each: each == letter for each in "ABCD"}


def test_11_a_letter_is_one_also_where_it_is_the_text_of_another_choice() -> None:
    assert grade("choice", "Answer: B", choices=("B", "A"), expected="B").solved
    assert not grade("choice", "Answer: B", choices=("B", "A"), expected="A").solved
    assert grade("choice", "Answer: 2", choices=("2", "1"), expected="A").solved


@pytest.mark.integration
@pytest.mark.parametrize("answer", ODD, ids=["high half", "low half", "NUL", "U+2028", "5 MB"])
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("text", {"expected": "42", "ignore_case": True, "ignore_punctuation": True, "unicode": "NFKC"}),
        ("numeric", {"expected": "42"}),
        ("regex", {"pattern": r"\d+", "expected": "42"}),
        ("choice", {"expected": "A", "choices": ("p", "q")}),
    ],
)
def test_case_126_odd_answers_are_wrong_and_no_trouble(kind: str, params: dict[str, Any], answer: str) -> None:
    assert grade(kind, answer, **params).solved is False
    if kind in ("numeric", "regex"):
        assert grade(kind, f"{answer} 42", **params).solved is True


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("text", {"expected": []}),
        ("text", {"expected": "a", "ignorecase": True}),
        ("text", {"expected": "", "mode": "contains"}),
        ("text", {"expected": "+", "ignore_punctuation": True}),
        ("numeric", {"expected": "x"}),
        ("numeric", {"expected": "1 or 2"}),
        ("numeric", {"expected": "1", "tolerance": float("nan")}),
        ("regex", {"pattern": "("}),
        ("regex", {"pattern": "x" * 20_000}),
        ("choice", {"choices": ["a"], "expected": "A"}),
        ("choice", {"choices": ["a", "b"], "expected": "C"}),
    ],
)
def test_11_parameters_that_make_no_sense_are_refused(kind: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KINDS[kind][1](**params)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024-01-02", ["2024", "1", "2"]),
        ("3 - 1", ["3", "1"]),
        ("3 -1", ["3", "-1"]),
        ("x=5", ["5"]),
        (".5", ["0.5"]),
        ("$\\boxed{1{,}024}$", ["1024"]),
        ("v2", []),
    ],
)
def test_11_numbers_are_found_in_texts(text: str, found: list[str]) -> None:
    assert [str(each) for each in numbers_in(text)] == found


def test_11_only_one_number_is_a_number() -> None:
    assert number_of("1 2") is None
    assert str(number_of("1,000")) == "1000"
