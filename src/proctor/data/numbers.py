"""Reads numbers as people and models write them: `1,234.5`, `-3/4`, `2 1/2`, `6 x 10^4`, `2^10`, `50%`, `$12`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Literal

from proctor.data.marks import boxed, marked

Percent = Literal["ignore", "fraction"]

DIGITS_AT_MOST = 1_000
"""Longer ones are no numbers that anybody means."""
EXPONENT_AT_MOST = 100_000
CONTEXT = Context(prec=60, Emax=10**9, Emin=-(10**9))
"""Of all arithmetic here: sixty digits are more than any answer has to be exact to."""
AROUND = 24
"""Characters before and after a number that say whether it is one."""

_MINUS = "\u2212\u2013-"
"""The dash comes last, where a class of characters takes it for itself."""
_SPACES = "'\u2019\u202f\u00a0_"
"""What stands between groups of digits, beside commas and dots."""
_PLAIN = (
    (re.compile(r"\{,\}|,\\!"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\[,;:]"), "\u202f"),
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s{0,9}\{([^{}]{0,1000})\}"), r" \1 "),
    (re.compile(r"\\(?:sqrt(?:\[[^\]]{0,9}\])?|pi|ln|log|sin|cos|tan|exp)(?![a-z])\s{0,9}"), "\u221a"),
    (re.compile(r"\u221a\{([^{}]{0,1000})\}"), "\u221a(\\1)"),
    (re.compile(r"\\[dt]?frac\s{0,9}([0-9])\s{0,9}([0-9])"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\[dt]?frac\s{0,9}([0-9])\s{0,9}\{"), r"\\frac{\1}{"),
    (re.compile(r"\\[dt]?frac\s{0,9}\{([^{}]{0,1000})\}\s{0,9}([0-9])"), r"\\frac{\1}{\2}"),
    (re.compile(r"([0-9])\s{0,9}(?=\\[dt]?frac)"), r"\1 "),
    (re.compile(r"\\[dt]?frac\s{0,9}\{([^{}]{0,1000})\}\s{0,9}\{([^{}]{0,1000})\}"), r"\1/\2 "),
    (re.compile(r"\\(?:times|cdot)"), "\u00d7"),
    (re.compile(r"\\(?:left|right)(?![a-z])"), ""),
    (re.compile(r"\\([%$])"), r"\1"),
)
"""What LaTeX says otherwise. A root, and what else makes another number of one, is one sign for all."""
_FRACTION = re.compile("([0-9]?)([\u00bc-\u00be\u2150-\u215e])")
_RAISED = re.compile("[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
_DIGITS = rf"[0-9]+(?:[.,{_SPACES}]+[0-9]+)*|(?<!\.)\.[0-9]+"
_NUMBER = re.compile(
    rf"(?:(?<![\w.,])|(?<=\.\.))(?P<sign>[+{_MINUS}][ \t]?|(?:minus|negative)\s)?(?P<money>[$\u20ac\u00a3\u00a5]\s?)?"
    rf"(?P<inner>[{_MINUS}])?"
    rf"(?:(?P<whole>[0-9]{{1,9}})\s(?P<over>[0-9]{{1,9}})\s?/\s?(?P<below>[0-9]{{1,9}})(?![0-9.,/])|(?P<head>{_DIGITS})"
    rf"(?:(?P<exponent>[eE][+{_MINUS}]?[0-9]+)|\s?[x\u00d7*]\s?10\s?(?:\^|\*\*)\s?\{{?(?P<power>[+{_MINUS}]?[0-9]+)\}}?"
    rf"|\s?(?:\^|\*\*)\s?\{{?(?P<raised>[+{_MINUS}]?[0-9]{{1,4}})\}}?)?"
    rf"(?:\s?[/\u00f7\u2044]\s?(?P<under>{_DIGITS}))?)(?P<percent>\s?(?:%|per\s?cent\b))?",
    re.IGNORECASE,
)
_TOKEN = re.compile(rf"[0-9.,{_SPACES}]{{1001,}}")
_PART_BEFORE = re.compile(
    rf"(?:[\^/\u00f7\u2044]\s?[({{]?|_\{{|[0-9]\s?[x*\u00d7]\s?|[\w)}}]\+|\u221a[\s({{]{{0,3}}|[0-9]:"
    rf"|\b(?:sqrt|log|ln|sin|cos|tan|exp)\s?\(?)[+{_MINUS}]?\Z"
)
_PART_AFTER = re.compile(
    r"\s?[\u221a\u03c0]|\s?pi\b|i\b|:[0-9]|\s?[/\u00f7\u2044x*\u00d7+]\s?[0-9(]|(?<=0)[xXbBoO][0-9A-Fa-f]"
)
"""Of an exponent, a root, a product, a multiple of pi, a time: the number there is a part of another."""
_DENIED = re.compile(
    r"(?:\bnot|n['\u2019]t)(?: be| equal(?: to)?)?\s[*_$\"(]{0,4}\Z|(?:instead of|rather than)\s\Z", re.IGNORECASE
)
_SIGNED = re.compile(r"(?:^|[=(\[{:<>\u2264\u2265\u2248~|])[ \t$]*\Z")
"""Where a sign and a space are those of a number, and not of a list or a sentence."""
_ADDED = re.compile(r"[0-9)}][ \t]?\Z")
_OR = re.compile(r"[^.;\n]{0,24}\bor\b[^.;\n]{0,24}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    end: int
    value: Decimal


def numbers_in(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Iterator[Decimal]:
    """Yield the numbers in a text, in order; what only looks like one (`1.2.3`, `1,23`) is left out.

    So is what is a part of another (`x^2`, the root of 2, `2 pi`, 12:30), and what the text denies (`not 7`). Between
    digits a comma separates thousands only where it has three digits after it; with `decimal_comma` dots do, and the
    comma is that of the decimals. With `percent` "fraction" `50%` is 0.5, else 50.
    """
    for found in _all_in(_plain_text(text), percent=percent, decimal_comma=decimal_comma):
        yield found.value


def number_of(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Decimal | None:
    """Return the only number of a text, or None where there is none, or several."""
    found = list(numbers_in(text, percent=percent, decimal_comma=decimal_comma))
    return found[0] if len(found) == 1 else None


def expected_number(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Decimal | None:
    """Return the only number of a right answer, of a worked solution that of its last box, or what `####` marks."""
    part = boxed(text) or (marked(text) if "####" in text else None) or text
    return number_of(part, percent=percent, decimal_comma=decimal_comma)


def last_number(text: str, *, percent: Percent = "ignore", decimal_comma: bool = False) -> Decimal | None:
    """Return the last number of a text, or None where there is none, or it leaves open which (`41 or 42`)."""
    text = _plain_text(text)
    found = list(_all_in(text, percent=percent, decimal_comma=decimal_comma))
    if len(found) > 1 and found[-1].value != found[-2].value and _OR.fullmatch(text, found[-2].end, found[-1].start):
        return None
    return found[-1].value if found else None


def _plain_text(text: str) -> str:
    text = _TOKEN.sub(" ", text)
    if "\\" in text or "{" in text:
        for pattern, plain in _PLAIN:
            text = pattern.sub(plain, text)
    if not text.isascii():
        text = _FRACTION.sub(lambda match: f"{match[1]} {_compatible(match[2])} ".lstrip(), text)
        text = _RAISED.sub(lambda match: f"^{_compatible(match[0])}", text)
    return text


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\u2044", "/")


def _all_in(text: str, *, percent: Percent, decimal_comma: bool) -> Iterator[_Found]:
    for match in _NUMBER.finditer(text):
        start, end = match.span()
        before, after = text[max(0, start - AROUND) : start], text[max(0, end - 1) : end + AROUND]
        if _PART_BEFORE.search(before) or _PART_AFTER.match(after, 1) or _DENIED.search(before):
            continue
        if match["sign"] and match["sign"][0] == "+" and _ADDED.search(before):
            continue
        value = _value(match, percent=percent, decimal_comma=decimal_comma)
        if value is not None:
            sign = match["sign"] or ""
            dash = sign[:1] in _MINUS and (not sign[1:] or _SIGNED.search(before) is not None)
            negative = bool(sign) and (sign[0].isalpha() or dash)
            yield _Found(start, end, -value if negative or match["inner"] else value)


def _value(match: re.Match[str], *, percent: Percent, decimal_comma: bool) -> Decimal | None:
    """Return the number without its sign."""
    try:
        number = _mixed(match) if match["whole"] else _simple(match, decimal_comma=decimal_comma)
        if number is not None and match["percent"] and percent == "fraction":
            number = CONTEXT.scaleb(number, -2)
    except (InvalidOperation, ZeroDivisionError, ArithmeticError):
        return None
    return number


def _mixed(match: re.Match[str]) -> Decimal | None:
    whole, over, below = (CONTEXT.create_decimal(match[name]) for name in ("whole", "over", "below"))
    return CONTEXT.add(whole, CONTEXT.divide(over, below)) if over < below else None


def _simple(match: re.Match[str], *, decimal_comma: bool) -> Decimal | None:
    head = _plain(match["head"], decimal_comma=decimal_comma)
    under = _plain(match["under"], decimal_comma=decimal_comma) if match["under"] else None
    if head is None or (match["under"] and under is None):
        return None
    power = _with_dash((match["exponent"] or "e")[1:] or match["power"] or "0")
    if len(power) > len(str(EXPONENT_AT_MOST)) + 1:
        return None
    number = CONTEXT.scaleb(CONTEXT.create_decimal(head), int(power))
    if match["raised"]:
        number = CONTEXT.power(number, int(_with_dash(match["raised"])))
    return number if under is None else CONTEXT.divide(number, CONTEXT.create_decimal(under))


def _with_dash(text: str) -> str:
    """Return a whole number with the sign that Python knows."""
    for minus in _MINUS:
        text = text.replace(minus, "-")
    return text


def _plain(digits: str, *, decimal_comma: bool) -> str | None:
    """Return digits as Python writes them, or None where they are no number."""
    for space in _SPACES:
        digits = digits.replace(space, "," if not decimal_comma else ".")
    point, comma = (",", ".") if decimal_comma else (".", ",")
    whole, dot, rest = digits.partition(point)
    if len(digits) > DIGITS_AT_MOST or point in rest or comma in rest:
        return None
    first, *groups = whole.split(comma)
    if groups and (not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups)):
        return None
    return f"{first}{''.join(groups)}{'.' if dot else ''}{rest}" if first or rest else None
