"""summary.html: the content of summary.json for people, as one file without scripts that a browser opens from a disk.

It is written by hand: a library for templates takes longer to import than most runs have to wait at their end. Every
text goes through `_text`, ours and that of others alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from proctor.report.metrics_text import number_text
from proctor.report.plot import Point, Words, point_of, score_against_cost
from proctor.report.summary_style import POLICY, STYLE
from proctor.report.wording import duration, money, plural, printable

Row = Sequence[str]

TAGS_SHOWN = 200
"""So many tags have a row; summary.json has all."""

POINTS_SHOWN = 50
"""Of more runs than that each has a plot of its own, or the files of an invocation grow with its square."""

NONE = "-"

FILES = ("summary.json", "summary.md", "plan.json", "journal.jsonl", "run.log")

_USAGE = ("work", "usage"), ("grading", "grader_usage"), ("of both, replaced by a later try", "retried_usage")
_TOKENS = ("calls", "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")


def points_of(runs: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Return a point for each run with a score, from what summary.json has of it."""
    points: list[Point] = []
    for run in runs:
        score = run["metrics"]["score"]
        if score is not None:
            estimate = score["mean"], score["low"], score["high"]
            points.append(point_of(run["experiment"], estimate, run["cost_usd"], run["reused_cost_usd"]))
    return points


def summary_html(data: Mapping[str, Any], points: Sequence[Point]) -> str:
    """Return the content of summary.html, from that of summary.json and the points of all runs of the invocation."""
    if len(points) > POINTS_SHOWN:
        points = points_of([data])
    title = f"{data['experiment']}: {data['headline']}"
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{_text(data['experiment'])}</h1>",
            f'<p class="headline">{_text(data["headline"])}</p>',
            f"<p>{_text(_about(data))}</p>",
            *_sections(data, points),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _sections(data: Mapping[str, Any], points: Sequence[Point]) -> Iterator[str]:
    metrics = data["metrics"]
    yield from _section("Slots", ("what became of them", "slots"), _counts(data), "disjoint, and together the total")
    yield from _section("Scores", ("", "mean", "95% interval", "over"), _scores(data), "over what has a score")
    if any(point.cost_usd != 0 for point in points):  # else there is nothing to weigh against
        what = f"score with 95% interval against cost, of {plural(len(points), 'run')} of the invocation"
        yield f"<h2>Score against cost</h2>\n{score_against_cost(points, Words(what))}"
    left_out = f"; {metrics['sub_scores_left_out']:,} more names are left out" if metrics["sub_scores_left_out"] else ""
    rows = [_sub_score(*each) for each in metrics["sub_scores"].items()]
    what = f"means over the attempts that have them{left_out}"
    yield from _section("Sub-scores", ("sub-score", "mean", "95% interval", "over"), rows, what)
    tags = list(metrics["by_tag"].items())
    more = f"; {len(tags) - TAGS_SHOWN:,} more are in summary.json" if len(tags) > TAGS_SHOWN else ""
    rows = [_tag(*each) for each in tags[:TAGS_SHOWN]]
    yield from _section("Tags", ("tag", "passed", "scored", "final", "95% interval"), rows, f"attempts by tag{more}")
    taken = list(_attempt(metrics))
    yield from _section(
        "An attempt takes",
        ("", "median", "90th percentile", "known", "unknown"),
        taken,
        "agent time of the work that counts, all else of all tries",
    )
    used = list(_usage(data))
    head = ("", "calls", "new tokens in", "out", "of that reasoning", "read from cache", "written to it", "cost")
    yield from _section("Calls of models", head, used, "what a later try replaced is part of the rows above it")
    codes = [(one["code"], one["severity"], f"{one['count']:,}") for one in data["issues"]]
    yield from _section("Issues", ("code", "severity", "times"), codes, "what each means: `docs/codes.md`")
    total = sum(data["slot_seconds"].values())
    parts = sorted(data["slot_seconds"].items(), key=lambda part: -part[1])
    times = [(part, duration(seconds), f"{seconds / total:.1%}") for part, seconds in parts if total]
    yield from _section("Where the time went", ("", "time", "share"), times, "of all slots, from the start of the run")
    links = "".join(f'<li><a href="{name}">{name}</a></li>' for name in FILES)
    yield f"<h2>Files</h2>\n<ul>{links}</ul>"


def _section(title: str, head: Row, rows: Sequence[Row], about: str) -> Iterator[str]:
    """Yield a heading and a table, the first cell of each row being its name; nothing without rows."""
    if rows:
        yield f"<h2>{_text(title)}</h2>"
        yield f'<div class="wide" tabindex="0" role="region" aria-label="{_text(title)}">\n<table>'
        yield f"<caption>{_text(about)}</caption>"
        yield "<thead><tr>" + "".join(map(_column, head)) + "</tr></thead>\n<tbody>"
        for name, *cells in rows:
            yield (
                f'<tr><th scope="row">{_text(name)}</th>'
                + "".join(f"<td>{_text(cell)}</td>" for cell in cells)
                + "</tr>"
            )
        yield "</tbody>\n</table>\n</div>"


def _column(title: str) -> str:
    return f'<th scope="col">{_text(title)}</th>' if title else "<td></td>"


def _about(data: Mapping[str, Any]) -> str:
    """Return what run it is, how it ended and what it took, in one line."""
    ended = data["completion"] or "not ended"
    facts = [
        f"run {data['run']}",
        ended,
        f"{duration(data['seconds'])} wall time",
        plural(data["tries"], "try", "tries"),
    ]
    facts += [f"of them retries: {data['retries']:,}"] if data["retries"] else []
    if waits := sum(data["backoffs"].values()):
        facts.append(f"{plural(waits, 'wait')} for refused calls, {duration(data['backoff_seconds'])}")
    return " · ".join(facts)


def _counts(data: Mapping[str, Any]) -> list[Row]:
    counts = dict(data["counts"])
    total, stopped = counts.pop("total"), counts.pop("not_dispatched")
    parts = [(name.replace("_", ", "), number) for name, number in counts.items() if number]
    parts += [(f"not dispatched: {reason}", number) for reason, number in stopped.items()]
    return [(name, f"{number:,}") for name, number in (*parts, ("total", total))]


def _scores(data: Mapping[str, Any]) -> list[Row]:
    metrics = data["metrics"]
    rows = [
        _score("tasks solved at least once" if data["early_exit"] else "passed", metrics["passes"], ""),
        _score("score", metrics["score"], ""),
    ]
    for one in metrics["pass_at_k"]:
        left = f", {plural(one['left_out'], 'task')} with fewer attempts left out" if one["left_out"] else ""
        rows += [
            _score(f"pass@{one['k']}", one["pass_at_k"], left),
            _score(f"pass^{one['k']}", one["pass_hat_k"], left),
        ]
    retried = data["without_retried"]
    if data["retried_attempts"] and retried is not None:
        about = f"without {plural(data['retried_attempts'], 'retried attempt')}: {retried['headline']}"
        rows.append(("passed, without those that were retried", _percent(retried["rate"]), NONE, about))
    return rows


def _score(name: str, estimate: Mapping[str, Any] | None, left: str) -> Row:
    if estimate is None:
        return (name, NONE, NONE, f"nothing scored{left}")
    return (name, _percent(estimate["mean"]), _interval(estimate), f"{_over(estimate)}{left}")


def _sub_score(name: str, one: Mapping[str, Any] | None) -> Row:
    if one is None:
        return (name, NONE, NONE, "too large to add up")
    ends = NONE if one["low"] is None else f"{number_text(one['low'])} to {number_text(one['high'])}"
    return (name, number_text(one["mean"]), ends, _over(one))


def _over(estimate: Mapping[str, Any]) -> str:
    return f"{plural(estimate['samples'], 'sample')} of {plural(estimate['tasks'], 'task')}"


def _tag(name: str, one: Mapping[str, Any]) -> Row:
    interval = NONE if one["passes"] is None else _interval(one["passes"])
    return (
        name,
        *(f"{one[what]:,}" if one["scored"] else NONE for what in ("passed", "scored")),
        f"{one['final']:,}",
        interval,
    )


def _attempt(metrics: Mapping[str, Any]) -> Iterator[Row]:
    kinds = (
        ("agent time", "agent_seconds", duration),
        ("tokens", "tokens", "{:,.0f}".format),
        ("cost", "attempt_cost_usd", money),
    )
    for name, key, number in kinds:
        if (one := metrics[key]) is not None and (one["p90"] or one["unknown"]):
            ends = (NONE if one[end] is None else number(one[end]) for end in ("median", "p90"))
            yield (name, *ends, f"{one['samples']:,}", f"{one['unknown']:,}")
    for name, key in (("cost of a task, mean", "cost_per_task_usd"), ("cost of a pass, mean", "cost_per_pass_usd")):
        if cost := metrics[key]:
            yield (name, money(cost), NONE, NONE, NONE)


def _usage(data: Mapping[str, Any]) -> Iterator[Row]:
    for name, key in _USAGE:
        if (used := data[key]) is not None:
            yield (name, *(f"{used[kind]:,}" for kind in _TOKENS), _cost(used["cost_usd"], used["cost_at_least_usd"]))
    if data["counts"]["reused_passed"] + data["counts"]["reused_failed"]:
        cost = _cost(data["reused_cost_usd"], data["reused_cost_at_least_usd"])
        yield ("reused attempts, in the runs that made them", *([NONE] * len(_TOKENS)), cost)


def _cost(whole: float | None, at_least: float) -> str:
    return money(whole) if whole is not None or not at_least else f"at least {money(at_least)}"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f}%"


def _interval(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["low"], estimate["high"]
    return NONE if low is None or high is None else f"{_percent(low)} to {_percent(high)}"


def _text(text: str) -> str:
    return escape(printable(text, most=2000))


__all__ = ["points_of", "summary_html"]
