"""A plot of score with its interval against cost, as SVG: drawn here, with nothing in it that is not a shape or text.

Colours and lines are classes, which the page's style sheet has for light and dark; without one it is black on nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from proctor.report.wording import money, printable

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 20, 48
LABEL_CHARACTERS = 40
LEAST = 1e-9
"""What is less is nothing on an axis: its ticks would all be 0."""


@dataclass(frozen=True, slots=True)
class Point:
    """A run: its score in [0, 1] with the interval where there is one, and what that cost in US dollars.

    `reused_usd` is the part of it that was spent by the runs that made the attempts which this one reused.
    """

    label: str
    score: float
    low: float | None
    high: float | None
    cost_usd: float | None
    link: str | None = None
    reused_usd: float | None = 0.0


def point_of(
    label: str,
    score: tuple[float, float | None, float | None],
    cost_usd: float | None,
    reused_usd: float | None,
    link: str | None = None,
) -> Point:
    """Return the point of a run from what it spent itself, and what its reused attempts cost where they were made.

    The score is of all attempts that fill its slots, so what it cost is both together; unknown where one of them is.
    """
    cost = None if cost_usd is None or reused_usd is None else cost_usd + reused_usd
    return Point(label, *score, cost, link, reused_usd)


@dataclass(frozen=True, slots=True)
class Words:
    """What stands in a plot besides numbers and labels; `{cost}` is an amount."""

    title: str
    no_cost: str = "cost unknown"
    reused: str = "{cost} of it for reused attempts, in the runs that made them"


def ticks(highest: float, most: int = 6) -> list[float]:
    """Return round numbers from 0 to `highest` or just above, in at most so many steps."""
    if not highest > LEAST or not math.isfinite(highest):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor * most >= highest * (1 - 1e-9))
    count = math.ceil(highest / step - 1e-9)
    return [round(step * n, 12) for n in range(count + 1)]


def score_against_cost(points: Sequence[Point], words: Words) -> str:
    """Return the plot as an `svg` element. Points of unknown cost stand apart, at the right, never at 0."""
    known = [point.cost_usd for point in points if point.cost_usd is not None]
    across = ticks(max(known, default=0.0))
    apart = len(known) < len(points)
    right = WIDTH - RIGHT - (120 if apart else 0)

    def x_of(cost: float | None) -> float:
        return WIDTH - RIGHT - 60 if cost is None else LEFT + (right - LEFT) * cost / across[-1]

    def y_of(score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * score

    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{_text(words.title)}</title>",
        f"<desc>{_text('; '.join(_described(point, words) for point in points))}</desc>",
    ]
    for score in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(_line(LEFT, y_of(score), right, y_of(score), "grid"))
        parts.append(_word(LEFT - 8, y_of(score) + 4, f"{score:.0%}", "end"))
    for cost in across:
        parts.append(_line(x_of(cost), y_of(0.0), x_of(cost), y_of(0.0) + 5, "axis"))
        parts.append(_word(x_of(cost), y_of(0.0) + 20, money(cost), "middle"))
    parts.append(_line(LEFT, y_of(0.0), right, y_of(0.0), "axis"))
    if apart:
        below = y_of(0.0) + 36  # however long the amounts are
        parts.append(_word(WIDTH - RIGHT - 60, below, words.no_cost, "middle"))
    parts += [_point(point, _described(point, words), x_of(point.cost_usd), y_of, right) for point in points]
    return "\n".join([*parts, "</svg>"])


def _point(point: Point, described: str, x: float, y_of: Callable[[float], float], right: float) -> str:
    place = y_of(point.score)
    shapes: list[str] = []
    if point.low is not None and point.high is not None:
        low, high = y_of(point.low), y_of(point.high)
        shapes.append(_line(x, low, x, high, "interval"))
        shapes += [_line(x - 4, end, x + 4, end, "interval") for end in (low, high)]
    shapes.append(f'<circle class="point" cx="{x:.1f}" cy="{place:.1f}" r="5"/>')
    anchor, beside = ("end", x - 9) if x > right - 120 else ("start", x + 9)
    shapes.append(_word(beside, place - 7, printable(point.label, most=LABEL_CHARACTERS), anchor))
    inside = f"<title>{_text(described)}</title>{''.join(shapes)}"
    if point.link is not None:
        return f'<a href="{escape(point.link)}">{inside}</a>'
    return f"<g>{inside}</g>"


def _described(point: Point, words: Words) -> str:
    interval = "" if point.low is None or point.high is None else f" [{point.low:.1%} \N{EN DASH} {point.high:.1%}]"
    cost = words.no_cost if point.cost_usd is None else money(point.cost_usd)
    reused = f", {words.reused.format(cost=money(point.reused_usd))}" if point.reused_usd else ""
    return f"{point.label}: {point.score:.1%}{interval}, {cost}{reused}"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" stroke="currentColor" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _word(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="12" fill="currentColor">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(printable(text, most=2000))
