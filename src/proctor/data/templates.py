"""Texts with places to fill in: `{name}` is replaced, `{{` and `}}` stand for braces; nothing is filled in twice."""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")


def places_in(template: str) -> list[str]:
    """Return the names of the places in a text. Raises `ValueError` for a brace that stands alone."""
    names: list[str] = []
    fill(template, lambda name: names.append(name) or "")
    return names


def fill(template: str, value_of: Callable[[str], str]) -> str:
    """Return the text with every place replaced by its value; braces in values are left as they are.

    Raises `ValueError` for a brace that stands alone, and what `value_of` raises.
    """

    def value(match: re.Match[str]) -> str:
        found = match.group()
        if found in ("{{", "}}"):
            return found[0]
        name = match.group(1)
        if name is None or not name.strip():
            at = template.count("\n", 0, match.start()) + 1
            raise ValueError(f"`{found}` in line {at} names nothing; a brace itself is written twice")
        return value_of(name.strip())

    return _PLACE.sub(value, template)
