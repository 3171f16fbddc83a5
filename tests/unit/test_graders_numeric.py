"""Grader `numeric`: what is a number, which one of an answer counts, and how near is near enough (spec 11)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from proctor.data.numbers import numbers_in
from proctor.graders.numeric import NumericGrader, NumericOptions

GSM8K = "She sold 48/2 = <<48/2=24>>24 clips in May.\nIn all 48+24 = <<48+24=72>>72 clips.\n#### 72"
MATH = "The area is $2\\cdot 6 = \\boxed{12\\text{ cm}^2}$."


def solved(answer: str, expected: str | tuple[str, ...], **params: Any) -> bool:
    grader = NumericGrader(NumericOptions(expected=expected, **params))
    return asyncio.run(grader.grade(SimpleNamespace(answer=answer))).solved  # type: ignore[arg-type]


RIGHT: list[tuple[str, str]] = [
    # as language models write
    ("Answer:\n\\[\n42\n\\]", "42"),
    ("The answer is \\(42\\).", "42"),
    ("The answer is 42, not 41.", "42"),
    ("The answer is 42. Confidence: 95%", "42"),
    ("Answer: 42 (95% confident)", "42"),
    ("Answer: 5 (because 3 + 2)", "5"),
    ("The answer is 7 * 6 = 42", "42"),
    ("so:\n- 42", "42"),
    ("the answer \u2013 42", "42"),
    ("it is...42", "42"),
    ("Answer: minus 42", "-42"),
    ("so x = - 42", "-42"),
    # LaTeX, as in MATH
    ("\\boxed{\\frac12}", "0.5"),
    ("\\boxed{\\dfrac{1}2}", "0.5"),
    ("it is -\\frac{3}{4}", "-0.75"),
    ("\\boxed{2\\frac{1}{2}}", "2.5"),
    ("\\boxed{1,\\!234,\\!567}", "1234567"),
    ("\\boxed{\\$12\\,000}", "12000"),
    ("\\boxed{12\\text{ cm}^2}", "12"),
    ("\\boxed{x = 42}", "42"),
    # other ways
    ("2 1/2", "2.5"),
    ("2\u00bd", "2.5"),
    ("10\u207b\u00b3", "0.001"),
    ("12 m\u00b2", "12"),
    ("3\u00f74", "0.75"),
    ("1'234", "1234"),
    # right answers as they are published
    ("#### 72", GSM8K),
    ("12", MATH),
]


@pytest.mark.parametrize(("answer", "expected"), RIGHT)
def test_11_a_right_number_is_found(answer: str, expected: str) -> None:
    assert solved(answer, expected)


WRONG: list[tuple[str, str]] = [
    # whole numbers are never near enough to the next one
    ("9876543211", "9876543210"),
    ("12345678901234567890124", "12345678901234567890123"),
    ("1000000000.5", "1000000000"),
    # what is denied, or left open
    ("The answer is not 42", "42"),
    ("It can't be 42.", "42"),
    ("41 or 42", "42"),
    ("Answer: 41 apples or 42", "42"),
    ("\\boxed{41, 42}", "42"),
    ("minus 42", "42"),
    # a part of another number
    ("2 1/2", "0.5"),
    ("\\sqrt{2}", "2"),
    ("\\boxed{\\frac{\\sqrt{3}}{2}}", "2"),
    ("3\u221a2", "2"),
    ("2\\pi", "2"),
    ("2\u03c0", "2"),
    ("x^2", "2"),
    ("x_{2}", "2"),
    ("k^{-3}", "-3"),
    ("6 * 7", "7"),
    ("6 + 7", "7"),
    ("6 x 7", "7"),
    ("x/2", "2"),
    ("1/2/2024", "2024"),
    ("12:30", "30"),
    ("0x2A", "0"),
    ("3i", "3"),
]


@pytest.mark.parametrize(("answer", "expected"), WRONG)
def test_11_a_number_that_is_not_the_answer_does_not_count(answer: str, expected: str) -> None:
    assert not solved(answer, expected)


def test_11_how_near_is_near_enough_can_be_said() -> None:
    assert solved("0.30000000000000004", "0.3")
    assert solved("9876543211", "9876543210", relative_tolerance=1e-9)
    assert not solved("0.30000000000000004", "0.3", relative_tolerance=0)
    assert solved("43", "42", tolerance=1)


@pytest.mark.parametrize("expected", ["She has 3, then 4", "", "x", "\\boxed{}", "#### none"])
def test_11_a_right_answer_that_is_no_one_number_is_refused(expected: str) -> None:
    with pytest.raises(ValidationError, match="must be a number"):
        NumericOptions(expected=expected)


@pytest.mark.parametrize("unit", ["1 ", "- ", "\\frac{", "1/", "1'", "\\sqrt ", "(1 ", "1 or ", "not ", "x^", "\\["])
def test_11_no_answer_takes_long(unit: str) -> None:
    """Each is read to its end: what takes time that grows with the square of it does not end here."""
    assert solved(f"{unit * 100_000}\nAnswer: 42", "42")
    list(numbers_in(unit * 5_000))
