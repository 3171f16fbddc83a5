"""How values look on a page; filters of the templates. What they return is text, which the template escapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from proctor.report.wording import duration, money

TEXT_CHARACTERS = 200_000
"""So much of one text is put into a page; the rest is in the file."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
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


def seconds(value: float | None) -> str:
    """Return a duration, or a dash."""
    return "-" if value is None else duration(value)


def share(value: float | None) -> str:
    """Return a share in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.1f}%"


def dollars(value: float | None) -> str:
    """Return an amount; what is unknown is said to be."""
    return money(value)


def number(value: float | None) -> str:
    """Return a whole number with separators, or a dash."""
    return "-" if value is None else f"{value:,.0f}"


def moment(value: float | None) -> str:
    """Return a moment in UTC, or a dash."""
    if value is None:
        return "-"
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "-"


def counted(counts: Mapping[str, Any]) -> str:
    """Return where the slots of a run stand that has no headline yet."""
    named = [f"{count:,} {name}" for name, count in counts.items() if isinstance(count, int) and count]
    return ", ".join(named) or "-"


FILTERS: dict[str, Callable[..., Any]] = {
    "shown": shown,
    "seconds": seconds,
    "share": share,
    "dollars": dollars,
    "number": number,
    "moment": moment,
}
