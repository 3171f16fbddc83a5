"""The page that compares runs: side by side, then each with the first, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from proctor.core.statistics import Estimate
from proctor.report.compare import Side, Versus, all_versus, side_data
from proctor.report.compare_text import letters
from proctor.report.plot import point_of
from proctor.viewer.page import Asked, NotFound, Page
from proctor.viewer.results import Results
from proctor.viewer.runs_page import drawn
from proctor.viewer.scatter import scatter

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
    notes: Sequence[str]


def compare_page(results: Results, asked: Asked) -> Page:
    """Return the comparison of the runs that were asked for. Raises `NotFound` where there are fewer than two."""
    runs = list(dict.fromkeys(asked.runs))
    if len(runs) < 2:
        raise NotFound(asked.say("a comparison takes two runs or more: choose them in the list of runs"))
    if len(runs) > MOST_RUNS:
        raise NotFound(asked.say("so many runs are not compared on a page: `proctor compare` does it"))
    read = [results.compared(run) for run in runs]
    sides = [side for side, _ in read]
    names = list(letters_of(len(runs)))
    named = dict(zip(map(id, sides), names, strict=True))
    found = all_versus(sides)
    values = {
        "sides": list(zip(names, runs, map(side_data, sides), strict=True)),
        "pairs": [_pair(one, named[id(one.first)], named[id(one.second)], asked) for one in found],
        "damaged": [name for name, (side, wrong) in zip(names, read, strict=True) if len(wrong) > (side.parts is None)],
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
    there, left_out = set(one.second.tasks), set(one.left_out)
    means = [
        (_mean(one.first.counted(task)), _mean(one.second.counted(task)), task)
        for task in one.first.tasks
        if task in there and task not in left_out
    ]
    points = [(across, up, task) for across, up, task in means if across is not None and up is not None]
    title = asked.say("mean score of each task: {first} across, {second} up", first=first, second=second)
    drawing = scatter(points, title=title, count=lambda n: asked.say("{tasks} tasks", tasks=n))
    plot = Markup(drawing) if points else None  # noqa: S704 - drawn here, its texts escaped
    return Pair(first, second, one, plot, lists, list(_notes(one, first, second, asked)))


def _notes(one: Versus, first: str, second: str, asked: Asked) -> Iterator[str]:
    """Yield what a reader of the difference has to know."""
    if one.settings:
        both = (f"{name} ({own}, {other})" for name, (own, other) in one.settings.items())
        yield f"{asked.say('limits and retries differ, which no identity has')}: {', '.join(both)}"
    if any(one.lacking):
        here, there = one.lacking
        yield asked.say(
            "slots without a score: {here} in {first}, {there} in {second}",
            here=here, first=first, there=there, second=second,
        )  # fmt: skip
    if one.possible is not None:
        low, high = (f"{100 * end:+.1f}%" for end in one.possible)
        yield asked.say("whatever they would score, the difference is from {low} to {high}", low=low, high=high)
    if one.first.early_exit != one.second.early_exit or (
        one.first.early_exit and one.first.attempts != one.second.attempts
    ):
        yield asked.say("not the same quantity, so no fair comparison: with early exit a task is solved at least once")
    elif one.first.early_exit:
        yield asked.say("with early exit a task counts as solved at least once: that is no estimate of one attempt")
    elif one.first.attempts != one.second.attempts:
        yield asked.say(
            "not the same number of attempts of a task: {here} in {first}, {there} in {second}",
            here=one.first.attempts, first=first, there=one.second.attempts, second=second,
        )  # fmt: skip


def _listed(title: str, tasks: Sequence[str], one: Versus) -> Listed:
    rows = [(task, _mean(one.first.counted(task)), _mean(one.second.counted(task))) for task in tasks[:TASKS_LISTED]]
    return Listed(title, rows, len(tasks) - len(rows))


def _mean(scores: Sequence[float] | None) -> float | None:
    return sum(scores) / len(scores) if scores else None


def _with_ends(score: Estimate) -> tuple[float, float | None, float | None]:
    low, high = score.interval or (None, None)
    return score.mean, low, high


def _plot(sides: Sequence[Side], names: Sequence[str], runs: Sequence[str], asked: Asked) -> Markup | None:
    points = [
        point_of(
            f"{name} {side.about.get('model') or side.run}",
            _with_ends(score),
            side.cost_usd,
            side.reused_cost_usd,
            asked.links.run(run),
        )
        for side, name, run in zip(sides, names, runs, strict=True)
        if (score := side.score) is not None
    ]
    return drawn(points, asked)
