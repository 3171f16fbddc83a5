"""Text with colours: what a terminal would have coloured, and the lines of a diff. All else in it stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_SGR = re.compile(r"\x1b\[([0-9;]{0,64})m")
"""The only sequences that are obeyed: colours and weight. Whatever else a terminal would do is shown as text."""

RUNS_AT_MOST = 500
"""So many changes of colour are shown of one text; what follows keeps the last one."""

_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


class Run(NamedTuple):
    """A stretch of text in one colour; `kind` are classes of the style sheet, empty for plain text."""

    kind: str
    text: str


def coloured(text: str) -> list[Run]:
    """Return a text as stretches of one colour, and at most `RUNS_AT_MOST` of them."""
    text = text.replace("\r\n", "\n")
    runs: list[Run] = []
    place, kind = 0, frozenset[str]()
    for found in _SGR.finditer(text):
        if found.start() > place:
            runs.append(Run(" ".join(sorted(kind)), text[place : found.start()]))
        place = found.end()
        kind = _changed(kind, found[1])
        if len(runs) == RUNS_AT_MOST - 1:
            break
    if place < len(text):
        runs.append(Run(" ".join(sorted(kind)), _SGR.sub("", text[place:])))
    return runs


def _changed(kind: frozenset[str], codes: str) -> frozenset[str]:
    """Return the classes after a sequence; colours of 256 and more are passed over with their arguments."""
    numbers = [int(code[:4] or "0") for code in codes.split(";")]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            kind = frozenset()
        elif code in (38, 48):
            del numbers[: {5: 2, 2: 4}.get(numbers[0] if numbers else 0, 0)]
        elif code == 1:
            kind |= {"ansi-bold"}
        elif code == 22:
            kind -= {"ansi-bold"}
        elif code == 39 or 30 <= code <= 37 or 90 <= code <= 97:
            kind = frozenset(one for one in kind if one == "ansi-bold")
            if code != 39:
                kind |= {f"ansi-{_COLOURS[code % 10]}"}
    return kind


def diff_lines(text: str) -> Iterator[Run]:
    """Yield the lines of a unified diff, each with what it is: `added`, `removed`, `hunk`, `file`, or plain."""
    for line in text.split("\n"):
        if line.startswith(("+++ ", "--- ", "diff ", "index ", "rename ", "new file", "deleted file")):
            kind = "diff-file"
        elif line.startswith("@@"):
            kind = "diff-hunk"
        elif line.startswith("+"):
            kind = "diff-added"
        elif line.startswith("-"):
            kind = "diff-removed"
        else:
            kind = ""
        yield Run(kind, line)
