"""Words, plurals, durations, numbers and money: the only place where they are spelled."""

from __future__ import annotations

import re
import unicodedata

SEPARATOR = " · "
SMALLEST_USD = 0.0001


def plural(count: int, singular: str, many: str | None = None) -> str:
    """Return `1 task`, `2 tasks`, `1,000 tasks`."""
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def duration(seconds: float) -> str:
    """Return a duration as `0.4s`, `12s`, `3m12s`, `2h05m`."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def running_clock(seconds: float) -> str:
    """Return how long something has been going on as `03:12` or `2:05:00`."""
    whole = max(0, int(seconds))
    minutes = f"{whole // 60 % 60:02d}:{whole % 60:02d}"
    return minutes if whole < 3600 else f"{whole // 3600}:{minutes}"


def briefly(seconds: float) -> str:
    """Return a duration in its largest units, as `4 s`, `9 min`, `2 h 5 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def money(dollars: float | None) -> str:
    """Return an amount of US dollars; an unknown one is said to be unknown."""
    if dollars is None:
        return "cost unknown"
    if 0 < dollars < SMALLEST_USD:
        return f"under ${SMALLEST_USD}"
    text = f"{dollars:.2f}" if dollars >= 1 or dollars == 0 else f"{dollars:.4f}"
    return f"${text.removesuffix('00') if len(text) > len('0.00') and dollars < 1 else text}"


def printable(text: str, *, most: int = 300) -> str:
    """Return foreign text made safe for one line of a terminal.

    Control characters, escape sequences, line breaks and marks that turn the direction of writing are replaced, so
    that what a task, a model or a sandbox says cannot draw on the screen; longer text is cut.
    """
    clean = "".join(
        char
        if char == " " or unicodedata.category(char)[0] not in "CZ"
        else ("\N{REPLACEMENT CHARACTER}", " ")[char.isspace()]
        for char in text[: most + 1]
    )
    return clean if len(clean) <= most else clean[: most - 1] + "…"


_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What does something to a terminal instead of being shown; line ends and tabs are not among it."""


def inactive(text: str) -> str:
    """Return prose of several lines with nothing in it that a terminal would obey: a sign stands in the place of it.

    For text that is ours but may quote what others said; what is all foreign goes through `printable`.
    """
    return _ACTIVE.sub("\N{REPLACEMENT CHARACTER}", text)


def inactive_json(line: str) -> str:
    """Return a line of JSON with the same value, in which what a terminal would obey is written as an escape."""
    return _ACTIVE.sub(lambda found: f"\\u{ord(found.group()):04x}", line)


# ruff: noqa: RUF001 - the signs are meant
_ASCII = str.maketrans({"·": "|", "×": "x", "…": "...", "–": "-", "≤": "<=", "±": "+-", "→": "->", "\ufffd": "?"})


def for_encoding(text: str, encoding: str | None) -> str:
    """Return `text` with stand-ins for what `encoding` cannot express."""
    name = (encoding or "ascii").lower().replace("-", "").replace("_", "")
    if name.startswith("utf"):
        return text.encode("utf-8", "replace").decode("utf-8")
    return text.translate(_ASCII).encode(encoding or "ascii", "replace").decode(encoding or "ascii")
