"""The page of a results root: its runs, filtered, sorted and page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from proctor.report.plot import Point, Words, point_of, score_against_cost
from proctor.viewer.page import Asked, Page
from proctor.viewer.paging import Paging
from proctor.viewer.results import Results
from proctor.viewer.run_list import DEFAULT_SORT, SORTS, STATES, RunEntry, chosen

RUNS_ON_A_PAGE = 100
PLOTTED = 30
"""So many runs are drawn, those at the top of the page."""

COLUMNS = ("run", "experiment", "model", "state", "passed", "time", "cost", "started")


def runs_page(results: Results, asked: Asked) -> Page:
    """Return the list of runs."""
    entries = results.entries()
    query = {name: asked.query.get(name, "") for name in ("q", "state", "sort")}
    sort = query["sort"] if query["sort"].removeprefix("-") in SORTS else DEFAULT_SORT
    found = chosen(entries, text=query["q"], state=query["state"], sort=sort)
    paging = Paging.of(len(found), asked.query.get("page"), len(found) if asked.links.static else RUNS_ON_A_PAGE)
    shown = found[paging.start : paging.end]
    given = {name: value for name, value in query.items() if value}
    values = {
        "runs": shown,
        "total": len(entries),
        "found": len(found),
        "paging": paging,
        "given": given,
        "states": [state for state in STATES if any(one.state == state for one in entries)],
        "columns": [_column(name, sort, given) for name in COLUMNS],
        "plot": plot_of(shown[:PLOTTED], asked),
    }
    return Page("runs.html", asked.say("runs"), values, live=any(one.state == "running" for one in shown))


def _column(name: str, sort: str, given: Mapping[str, str]) -> tuple[str, str, Mapping[str, str]]:
    """Return a column: its name, how it is sorted for a screen reader, and the query that sorts by it."""
    turned = sort == name
    order = {name: "ascending", f"-{name}": "descending"}.get(sort, "none")
    return name, order, {**given, "sort": f"-{name}" if turned else name}


def plot_of(entries: Sequence[RunEntry], asked: Asked) -> Markup | None:
    """Return the plot of score against cost of runs that have a score; None where there is none, or only one."""
    return drawn([point for one in entries if (point := _point(one, asked)) is not None], asked)


def drawn(points: Sequence[Point], asked: Asked) -> Markup | None:
    """Return the plot of score against cost of some runs; None of fewer than two."""
    if len(points) < 2:
        return None
    words = Words(
        asked.say("score against cost, with 95% intervals"),
        asked.say("cost unknown"),
        asked.say("{cost} of it for reused attempts, in the runs that made them", cost="{cost}"),
    )
    # Drawn here, with every text in it escaped: the one thing that goes into a page as it is.
    return Markup(score_against_cost(points, words))  # noqa: S704


def _point(one: RunEntry, asked: Asked) -> Point | None:
    if one.score is None:
        return None
    label = one.model or one.experiment or one.name
    return point_of(label, one.score, one.cost_usd, one.reused_cost_usd, asked.links.run(one.run))
