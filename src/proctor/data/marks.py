"""Finds what an answer says is its answer: what stands after its mark, or in its last box."""

from __future__ import annotations

import re

BOX_CHARACTERS_AT_MOST = 10_000
LOOKED_AT = 1_000_000
"""Characters at the end of an answer in which marks and boxes are looked for: more would hold up everybody else."""
# The spaces are bounded, so that an answer of spaces takes no longer than any other.
_MARK = re.compile(
    r"####|\banswer[*_ \t]{0,9}(?:is[ \t]{0,9}:?|[:=])",
    re.IGNORECASE,
)
_AROUND = " \t\r\n*_`$"
_OPENING = re.compile(r"(?:[ \t\r\n*_`$]|\\[\[(])*")
_CLOSING = re.compile(r"(?:[ \t\r*_`$]|\\[\])]){1,99}(\.?)$")
_CLOSING_AT_MOST = 100


def marked(answer: str) -> str | None:
    r"""Return the rest of the line after the last `Answer:`, `answer is` or `####`, without `*`, `_`, `$`, `\(`."""
    answer = answer[-LOOKED_AT:]
    end = max((match.end() for match in _MARK.finditer(answer)), default=None)
    if end is None:
        return None
    begin = _OPENING.match(answer, end)
    assert begin is not None, "it matches nothing as well"
    line = answer[begin.end() :].partition("\n")[0].rstrip(_AROUND)
    return line[:-_CLOSING_AT_MOST] + _CLOSING.sub(r"\1", line[-_CLOSING_AT_MOST:]) or None


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
