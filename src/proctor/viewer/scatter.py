"""A scatter of tasks: the mean score in one run across, in another up. Tasks at one place are one larger circle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from html import escape

from proctor.report.wording import plural, printable

SIZE, LEFT, TOP, BOTTOM = 300, 44, 12, 36
TASKS_NAMED = 5


def scatter(
    points: Sequence[tuple[float, float, str]], *, title: str, count: Callable[[int], str] = lambda n: plural(n, "task")
) -> str:
    """Return an `svg` element for (across, up, task), both scores in [0, 1]; `count` says how many tasks there are."""
    places: defaultdict[tuple[float, float], list[str]] = defaultdict(list)
    for across, up, task in points:
        places[round(across, 2), round(up, 2)].append(task)
    width, height = LEFT + SIZE + 16, TOP + SIZE + BOTTOM
    parts = [
        f'<svg class="plot scatter" viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(printable(title))}</title>",
        _line(0, 0, 1, 1, "axis"),
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts += [_line(0, share, 1, share, "grid"), _line(share, 0, share, 1, "grid")]
        parts.append(_word(LEFT - 6, _y(share) + 4, f"{share:.0%}", "end"))
        parts.append(_word(_x(share), _y(0) + 18, f"{share:.0%}", "middle"))
    for (across, up), tasks in sorted(places.items()):
        kind = "better" if up > across else "worse" if up < across else "equal"
        named = ", ".join(printable(task) for task in tasks[:TASKS_NAMED])
        more = ", ..." if len(tasks) > TASKS_NAMED else ""
        said = f"{count(len(tasks))}: {across:.0%}, {up:.0%}: {named}{more}"
        radius = min(18.0, 3 + len(tasks) ** 0.5)
        parts.append(
            f'<circle class="task {kind}" cx="{_x(across):.1f}" cy="{_y(up):.1f}" r="{radius:.1f}">'
            f"<title>{escape(said)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"])


def _x(share: float) -> float:
    return LEFT + SIZE * share


def _y(share: float) -> float:
    return TOP + SIZE * (1 - share)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return (
        f'<line class="{kind}" stroke="currentColor" x1="{_x(x1):.1f}" y1="{_y(y1):.1f}" '
        f'x2="{_x(x2):.1f}" y2="{_y(y2):.1f}"/>'
    )


def _word(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11">{text}</text>'
