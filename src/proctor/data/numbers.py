"""Reads numbers as people and models write them: `1,234.5`, `-3/4`, `2.5e3`, `6 x 10^4`, `2^10`, `50%`, `$12`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import Literal

Percent = Literal["ignore", "fraction"]

DIGITS_AT_MOST = 1_000
"""Longer ones are no numbers that anybody means."""
EXPONENT_AT_MOST = 100_000
CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
"""Of all arithmetic here: sixty digits are more than any answer has to be exact to."""

_MINUS = "\u2212\u2013-"
"""The dash comes last, where a class of characters takes it for itself."""
_LATEX = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2 "),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)"), "\u00d7"),
    (re.compile(r"\{,\}|\\[,!;]"), ","),
    (re.compile(r"\\([%$])"), r"\1"),
)
_DIGITS = r"[0-9][0-9.,\u202f\u00a0_]*|\.[0-9][0-9]*"
_NUMBER = re.compile(
    rf"(?<![\w.,])(?P<sign>[+{_MINUS}]\s?)?(?P<money>[$\u20ac\u00a3]\s?)?(?P<head>{_DIGITS})"
    rf"(?:(?P<exponent>[eE][+{_MINUS}]?[0-9]+)|\s?[x\u00d7*]\s?10\s?(?:\^|\*\*)\s?\{{?(?P<power>[+{_MINUS}]?[0-9]+)\}}?"
    rf"|\s?(?:\^|\*\*)\s?\{{?(?P<raised>[+{_MINUS}]?[0-9]{{1,4}})\}}?)?"
    rf"(?:\s?/\s?(?P<under>{_DIGITS}))?(?P<percent>\s?%)?"
)
_TOKEN = re.compile(r"[0-9.,]{1001,}")


def numbers_in(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Iterator[Decimal]:
    """Yield the numbers in a text, in order; what only looks like one (`1.2.3`, `1,23`) is left out.

    Between digits a comma separates thousands only where it has three digits after it; with `decimal_comma` dots do,
    and the comma is that of the decimals. With `percent` "fraction" `50%` is 0.5, else 50.
    """
    text = _TOKEN.sub(" ", text)
    for pattern, plain in _LATEX:
        if "\\" in text or "{" in text:
            text = pattern.sub(plain, text)
    for match in _NUMBER.finditer(text):
        number = _value(match, percent=percent, decimal_comma=decimal_comma)
        if number is not None:
            yield number


def number_of(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Decimal | None:
    """Return the only number of a text, or None where there is none, or several."""
    found = list(numbers_in(text, percent=percent, decimal_comma=decimal_comma))
    return found[0] if len(found) == 1 else None


def _value(match: re.Match[str], *, percent: Percent, decimal_comma: bool) -> Decimal | None:
    head = _plain(match["head"], decimal_comma=decimal_comma)
    under = _plain(match["under"], decimal_comma=decimal_comma) if match["under"] else None
    if head is None or (match["under"] and under is None):
        return None
    power = _with_dash((match["exponent"] or "e")[1:] or match["power"] or "0")
    if len(power) > len(str(EXPONENT_AT_MOST)) + 1:
        return None
    try:
        number = CONTEXT.scaleb(CONTEXT.create_decimal(head), int(power))
        if match["raised"]:
            number = CONTEXT.power(number, int(_with_dash(match["raised"])))
        if under is not None:
            number = CONTEXT.divide(number, CONTEXT.create_decimal(under))
        if match["percent"] and percent == "fraction":
            number = CONTEXT.scaleb(number, -2)
    except (InvalidOperation, ZeroDivisionError, ArithmeticError):
        return None
    return -number if match["sign"] and match["sign"][0] in _MINUS else number


def _with_dash(text: str) -> str:
    """Return a whole number with the sign that Python knows."""
    for minus in _MINUS:
        text = text.replace(minus, "-")
    return text


def _plain(digits: str, *, decimal_comma: bool) -> str | None:
    """Return digits as Python writes them, or None where they are no number."""
    digits = digits.rstrip(".,\u202f\u00a0_")
    for space in "\u202f\u00a0_":
        digits = digits.replace(space, "," if not decimal_comma else ".")
    point, comma = (",", ".") if decimal_comma else (".", ",")
    whole, dot, rest = digits.partition(point)
    if len(digits) > DIGITS_AT_MOST or point in rest or comma in rest:
        return None
    first, *groups = whole.split(comma)
    if groups and (not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups)):
        return None
    return f"{first}{''.join(groups)}{'.' if dot else ''}{rest}" if first or rest else None
