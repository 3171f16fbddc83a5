"""The page that compares runs: side by side, then each with the first, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from proctor.report.compare import Side, Versus, all_versus, side_data
from proctor.report.compare_text import letters
from proctor.report.plot import Point
from proctor.viewer.page import Asked, NotFound, Page
from proctor.viewer.results import Results
from proctor.viewer.runs_page import drawn
from proctor.viewer.scatter import scatter
from proctor.viewer.sides import side_of_run

MOST_RUNS = 12
TASKS_LISTED = 200
"""So many tasks of each kind are listed; `proctor compare --json` has all."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Some tasks with the means of both runs; `more` are not listed."""

    title: str
    tasks: Sequence[tuple[str, float | None, float | None]]
    more: int


@dataclass(frozen=True, slots=True)
class Pair:
    """The second run against the first."""

    first: str
    second: str
    versus: Versus
    plot: Markup | None
    lists: Sequence[Listed]


def compare_page(results: Results, asked: Asked) -> Page:
    """Return the comparison of the runs that were asked for. Raises `NotFound` where there are fewer than two."""
    runs = list(dict.fromkeys(asked.runs))
    if len(runs) < 2:
        raise NotFound(asked.say("a comparison takes two runs or more: choose them in the list of runs"))
    if len(runs) > MOST_RUNS:
        raise NotFound(asked.say("so many runs are not compared on a page: `proctor compare` does it"))
    sides = [results.read(run, side_of_run) for run in runs]
    names = list(letters_of(len(runs)))
    named = dict(zip(map(id, sides), names, strict=True))
    found = all_versus(sides)
    values = {
        "sides": list(zip(names, runs, map(side_data, sides), strict=True)),
        "pairs": [_pair(one, named[id(one.first)], named[id(one.second)], asked) for one in found],
        "plot": _plot(sides, names, runs, asked),
    }
    return Page("compare.html", asked.say("comparison"), values, live=not all(side.ended for side in sides))


def letters_of(count: int) -> Sequence[str]:
    """Return what so many runs are called."""
    return [name for name, _ in zip(letters(), range(count), strict=False)]


def _pair(one: Versus, first: str, second: str, asked: Asked) -> Pair:
    found = one.paired
    won, lost = (found.won, found.lost) if found is not None else ((), ())
    kinds = (
        (asked.say("{run} is better", run=second), won),
        (asked.say("{run} is worse", run=second), lost),
        (asked.say("no score in one of them"), one.unscored),
        (asked.say("left out: the task or its grading is not the same"), one.left_out),
        (asked.say("only in {run}", run=first), one.only_first),
        (asked.say("only in {run}", run=second), one.only_second),
    )
    lists = [_listed(title, tasks, one) for title, tasks in kinds if tasks]
    left_out = set(one.left_out)
    points = [
        (_mean(one.first.scores[task]) or 0.0, _mean(one.second.scores[task]) or 0.0, task)
        for task in one.first.scores
        if task in one.second.scores and task not in left_out
    ]
    title = asked.say("mean score of each task: {first} across, {second} up", first=first, second=second)
    plot = Markup(scatter(points, title=title)) if points else None  # noqa: S704 - drawn here, its texts escaped
    return Pair(first, second, one, plot, lists)


def _listed(title: str, tasks: Sequence[str], one: Versus) -> Listed:
    rows = [
        (task, _mean(one.first.scores.get(task)), _mean(one.second.scores.get(task))) for task in tasks[:TASKS_LISTED]
    ]
    return Listed(title, rows, len(tasks) - len(rows))


def _mean(scores: Sequence[float] | None) -> float | None:
    return sum(scores) / len(scores) if scores else None


def _plot(sides: Sequence[Side], names: Sequence[str], runs: Sequence[str], asked: Asked) -> Markup | None:
    points = [
        Point(
            f"{name} {side.about.get('model') or side.run}",
            side.metrics.score.mean,
            *(side.metrics.score.interval or (None, None)),
            side.cost_usd,
            asked.links.run(run),
        )
        for side, name, run in zip(sides, names, runs, strict=True)
        if side.metrics.score is not None
    ]
    return drawn(points, asked)
