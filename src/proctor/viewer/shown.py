"""How values look on a page; filters of the templates. What they return is text, which the template escapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from proctor.report.wording import duration, money
from proctor.viewer.words import in_language

TEXT_CHARACTERS = 200_000
"""So much of one text is put into a page; the rest is in the file."""

UNLIKELY = 1e18
"""A number that is as large, or is none (NaN), is none that anybody measured."""

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that act on a reader's screen or turn text around instead of being seen."""


def visible(text: str) -> str:
    """Return text in which every character is seen as one: controls and turns of direction as their code points."""
    return _UNSEEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def cut(text: str, most: int = TEXT_CHARACTERS) -> str:
    """Return the beginning of a text, and how much was left out."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n... {left:,} characters left out"


def shown(value: Any) -> str:
    """Return any text as it is shown: bounded, and with nothing in it that acts."""
    return visible(cut(str(value)))


def known(value: Any) -> float | None:
    """Return a number; None for what is none, as a file may hold anything, and for one that nobody measured."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < UNLIKELY else None


def seconds(value: Any) -> str:
    """Return a duration, or a dash."""
    return "-" if (found := known(value)) is None else duration(found)


def share(value: Any) -> str:
    """Return a share in percent, or a dash."""
    return "-" if (found := known(value)) is None else f"{100 * found:.1f}%"


def decimal(value: Any) -> str:
    """Return a number that may be any, or a dash."""
    return "-" if (found := known(value)) is None else f"{found:,.3f}"


def signed(value: Any) -> str:
    """Return a difference with its sign, or a dash."""
    return "-" if (found := known(value)) is None else f"{found:+,.3f}"


def dollars(value: Any) -> str:
    """Return an amount; what is unknown is said to be."""
    return money(known(value))


def number(value: Any) -> str:
    """Return a whole number with separators, or a dash."""
    return "-" if (found := known(value)) is None else f"{found:,.0f}"


def moment(value: Any) -> str:
    """Return a moment in UTC, or a dash."""
    found = known(value)
    if found is None:
        return "-"
    try:
        return datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "-"


def counted(counts: Mapping[str, Any], language: str) -> str:
    """Return where the slots of a run stand that has no headline yet."""
    named = [
        f"{number(count)} {in_language(language, name)}" for name, count in counts.items() if known(count) and count
    ]
    return ", ".join(named) or "-"


FILTERS: dict[str, Callable[..., Any]] = {
    "shown": shown,
    "seconds": seconds,
    "share": share,
    "number": number,
    "signed": signed,
    "decimal": decimal,
    "moment": moment,
}
