"""Which part of an answer counts: all of it, its last line, what stands after its mark, or in its last box."""

from __future__ import annotations

import re
from typing import Literal

from proctor.model.attempt import Check, Grade

Take = Literal["all", "last_line", "marked", "boxed"]

SHOWN_LENGTH = 200
BOX_CHARACTERS_AT_MOST = 10_000
LOOKED_AT = 1_000_000
"""Characters at the end of an answer in which marks and boxes are looked for: more would hold up everybody else."""
# The spaces are bounded, so that an answer of spaces takes no longer than any other.
_MARK = re.compile(
    r"####|\banswer[*_ \t]{0,9}(?:is[ \t]{0,9}:?|[:=])",
    re.IGNORECASE,
)
_AROUND = " \t\r\n*_`$"


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


def marked(answer: str) -> str | None:
    """Return the rest of the line after the last `Answer:`, `answer is` or `####`, without `*`, `_`, `` ` ``, `$`."""
    answer = answer[-LOOKED_AT:]
    end = max((match.end() for match in _MARK.finditer(answer)), default=None)
    if end is None:
        return None
    return answer[end:].lstrip(_AROUND).partition("\n")[0].strip(_AROUND) or None


def boxed(answer: str) -> str | None:
    r"""Return what the last `\boxed{...}` holds, which may hold braces itself."""
    answer = answer[-LOOKED_AT:]
    start = answer.rfind("\\boxed{")
    if start < 0:
        return None
    start += len("\\boxed{")
    depth = 1
    for place, char in enumerate(answer[start : start + BOX_CHARACTERS_AT_MOST]):
        depth += (char == "{") - (char == "}")
        if not depth:
            return answer[start : start + place].strip(_AROUND)
    return None


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
