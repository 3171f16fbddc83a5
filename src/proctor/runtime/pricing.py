"""What calls cost, as the runtime is told it: by a function that whoever wires the program hands over."""

from __future__ import annotations

from collections.abc import Callable

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec

Tell = Callable[[str, str], None]
"""Takes the code of an issue and its message."""

Price = Callable[[ModelSpec | None, Usage, Tell], Usage]
"""Returns usage of a model with its cost, where that is known; says what is not known as an issue."""


def unpriced(model: ModelSpec | None, usage: Usage, tell: Tell) -> Usage:
    """Return usage as it is."""
    return usage


__all__ = ["Price", "Tell", "unpriced"]
