"""Any value as a text for people: bounded, and never a crash, whatever the value is."""

from __future__ import annotations

from reprlib import Repr
from typing import Any

from proctor.errors import describe
from proctor.model.bounds import shortened

SHOWN_CHARACTERS = 1_000
"""Of one value."""

ITEMS_SHOWN = 50
LEVELS_SHOWN = 5


def _representation() -> Repr:
    short = Repr()
    short.maxlevel = LEVELS_SHOWN
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = ITEMS_SHOWN
    short.maxdeque = short.maxarray = ITEMS_SHOWN
    short.maxstring = short.maxother = short.maxlong = SHOWN_CHARACTERS
    return short


def shown_value(value: Any) -> str:
    """Return a text as it is and anything else as Python writes it, of what is long the beginning and the end."""
    try:
        text = value if type(value) is str else _representation().repr(value)
    except BaseException as error:  # how a value of a project is written is code of the project
        text = f"<{type(value).__name__} that cannot be shown: {describe(error)}>"
    return clean_text(text)


def clean_text(text: str) -> str:
    """Return a text that any file can hold, of what is long the beginning and the end."""
    return shortened(text, SHOWN_CHARACTERS).encode("utf-8", "backslashreplace").decode()


def shown_pair(expected: Any, actual: Any) -> tuple[str, str]:
    """Return two values as texts that differ where only their types do."""
    one, other = shown_value(expected), shown_value(actual)
    if one == other and type(expected) is not type(actual):
        return f"{one} ({type(expected).__name__})", f"{other} ({type(actual).__name__})"
    return one, other


__all__ = ["SHOWN_CHARACTERS", "clean_text", "shown_pair", "shown_value"]
