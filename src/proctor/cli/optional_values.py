"""Options whose value may be left out: which word after one is its value, and which is an argument (spec 02)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import rich_click as click

LEFT_OUT = "<left-out>"
"""The value of such an option that stands alone; nothing that a person could mean."""

OPTIONAL_VALUES: Mapping[str, frozenset[str] | None] = {
    "--reuse": None,
    "--rerun": frozenset({"failed", "all"}),
    "--keep-environment": frozenset({"failed", "all"}),
}
"""By option: the values that it can have, or None where any word may be one."""


def settle(args: Sequence[str], params: Sequence[click.Parameter]) -> list[str]:
    """Return the words of a command line in which every value of such an option is tied to it by `=`.

    The next word is the value where it is one of the option's own, or, if it has none of its own, where every
    positional argument of the command was given before. Otherwise the option stands alone.
    """
    takes_value = {
        name
        for param in params
        if isinstance(param, click.Option) and not param.is_flag
        for name in (*param.opts, *param.secondary_opts)
    }
    numbers = [param.nargs for param in params if isinstance(param, click.Argument)]
    positionals = sum(numbers) if all(number >= 0 for number in numbers) else math.inf
    settled: list[str] = []
    given, place = 0, 0
    while place < len(args):
        word = args[place]
        place += 1
        if word == "--":
            return [*settled, word, *args[place:]]
        if word in OPTIONAL_VALUES and word in takes_value:
            following = args[place] if place < len(args) else None
            if following is not None and _is_value(following, OPTIONAL_VALUES[word], full=given >= positionals):
                place += 1
            else:
                following = LEFT_OUT
            settled.append(f"{word}={following}")
        elif word.startswith("-") and word != "-":
            settled.append(word)
            if word in takes_value and place < len(args):
                settled.append(args[place])
                place += 1
        else:
            given += 1
            settled.append(word)
    return settled


def _is_value(word: str, own: frozenset[str] | None, *, full: bool) -> bool:
    if own is not None:
        return word in own
    return full and not word.startswith("-")
