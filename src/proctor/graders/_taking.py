"""Which part of an answer counts: all of it, its last line, what stands after its mark, or in its last box."""

from __future__ import annotations

from typing import Literal

from proctor.data.marks import boxed, marked
from proctor.model.attempt import Check, Grade

Take = Literal["all", "last_line", "marked", "boxed"]

SHOWN_LENGTH = 200


def taken(answer: str, take: Take) -> str | None:
    """Return the part of an answer that counts, or None where the answer has no such part."""
    match take:
        case "all":
            return answer
        case "last_line":
            return answer.rstrip().rpartition("\n")[2]
        case "marked":
            return marked(answer)
        case "boxed":
            return boxed(answer)


def shown(text: str) -> str:
    """Return a text that is short enough for a check."""
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}... ({len(text)} characters)"


def graded(solved: bool, label: str, expected: str, actual: str | None) -> Grade:
    """Return the grade of one comparison."""
    check = Check(label, solved, shown(expected), None if actual is None else shown(actual))
    return Grade(solved=solved, score=1.0 if solved else 0.0, checks=(check,))


def either(expected: tuple[str, ...]) -> str:
    """Return in words what was expected."""
    return expected[0] if len(expected) == 1 else " or ".join(f"`{shown(each)}`" for each in expected)
