"""Reads the verdict of a judge: the JSON object with which its answer ends, and nothing that only looks like one."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, cast

LOOKED_AT = 20_000
"""Characters at the end of what a judge says in which its verdict begins."""
BEGINNINGS_AT_MOST = 1_000
_BEGUN = re.compile(r'\{\s{0,99}"(?:verdict|score|reason)"\s{0,99}:')


class NoVerdict(ValueError):
    """What a judge said ends with no verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided: 1 or 0 for yes or no, else a number on the scale."""

    value: float


def read_verdict(said: str, scale: tuple[float, float] | None) -> Verdict:
    """Return the verdict with which a judge's answer ends; a fence of a code block around it does not matter.

    Raises `NoVerdict`.
    """
    found = _last_object(said)
    name = "verdict" if scale is None else "score"
    if name not in found:
        raise NoVerdict(f"the JSON object has no `{name}`")
    value: Any = found[name]
    if scale is None:
        if value not in ("yes", "no"):
            raise NoVerdict(f'`verdict` has to be "yes" or "no", not {value!r:.80}')
        return Verdict(1.0 if value == "yes" else 0.0)
    if type(value) not in (int, float) or not scale[0] <= value <= scale[1]:
        raise NoVerdict(f"`score` has to be a number from {scale[0]:g} to {scale[1]:g}, not {value!r:.80}")
    return Verdict(float(value))


def _last_object(said: str) -> dict[str, Any]:
    text = said.rstrip()
    if text.endswith("```"):
        text = text[:-3].rstrip()
    text = text[-LOOKED_AT:]
    if not text.endswith("}"):
        raise NoVerdict("it does not end with a JSON object")
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse, parse_float=_number)
    begin = -1
    for _ in range(BEGINNINGS_AT_MOST):
        begin = text.find("{", begin + 1)
        if begin < 0:
            break
        try:
            found, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):  # a brace of the text before it, or of a text in it
            continue
        if end == len(text) and isinstance(found, dict):
            begun = max((match.end() for match in _BEGUN.finditer(text, 0, begin)), default=begin)
            if "}" not in text[begun:begin] and begun < begin:  # it stands in a text that the judge quotes
                raise NoVerdict("it ends with an object inside of another that is not ended")
            return cast("dict[str, Any]", found)
    raise NoVerdict("it does not end with a JSON object that can be read")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is larger than any number here")
    return number
