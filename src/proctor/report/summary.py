"""The end of a run in numbers: summary.json, summary.md and the last lines on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from proctor.core.aggregate import SAID_OF_MISSING, Missing, Rate, headline, pass_rate, rate_of
from proctor.model.attempt import Verdict
from proctor.model.events import StopReason
from proctor.report.cost_words import cost_of, cost_words, known_part, token_words, usage_data
from proctor.report.metrics import Metrics
from proctor.report.metrics_text import metrics_data, metrics_lines, metrics_of_view
from proctor.report.plain import counts_line
from proctor.report.time_hints import hint_of_agent, largest, time_lines
from proctor.report.time_spent import together
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, duration, plural, printable

FORMAT = 1

TIME_TOLD_FROM_SECONDS = 1.0
"""Of a run that is shorter nobody needs to be told where its time went; summary.json says it all the same."""

_RATE = ("rate", "low", "high", "passed", "scored", "base")
"""What is said of a rate beside its headline."""


def run_rate(view: RunView) -> Rate:
    """Return the rate of a run: passed slots, or with early exit tasks that were solved at least once (spec 09 M3)."""
    if not view.early_exit:
        return pass_rate(view.counts, view.missing)
    solved = len(view.solved)
    return rate_of(solved, solved + view.unsolved, view.tasks - view.skipped_tasks, view.missing)


def run_headline(view: RunView) -> str:
    """Return the first sentence about a run; it says what is missing from the number."""
    if not view.early_exit:
        return headline(view.counts, view.missing)
    rate = run_rate(view)
    if rate.low is None or rate.high is None:
        return headline(view.counts)
    skipped = view.skipped_tasks
    lacking = view.tasks - skipped - rate.scored
    policy = f", {lacking:,} not decided: {SAID_OF_MISSING[view.missing]}" if view.missing and lacking else ""
    policy += f", {skipped:,} skipped" if skipped else ""
    words = f"({rate.passed}/{rate.base} tasks solved at least once{policy}; early exit, so pass@1 would be biased)"
    if view.missing is Missing.FAIL and lacking:
        return f"no rate {words}"
    if rate.rate is not None:
        return f"{rate.rate:.1%} {words}"
    return f"{100 * rate.low:.1f}–{100 * rate.high:.1f}% incomplete {words}"  # noqa: RUF001


class Summary(NamedTuple):
    """What is said at the end of a run: the content of summary.json and summary.md, and the last lines about it."""

    data: dict[str, Any]
    markdown: str
    lines: list[str]


def summary_of(view: RunView, *, run: str, directory: str, time: bool = True) -> Summary:
    """Return what is said of a run, its metrics being worked out once; `time` is as for `summary_lines`."""
    metrics = metrics_of_view(view)
    return Summary(
        summary_data(view, run=run, directory=directory, metrics=metrics),
        summary_markdown(view, run=run, directory=directory, metrics=metrics),
        summary_lines(view, directory=directory, time=time, metrics=metrics),
    )


def summary_data(view: RunView, *, run: str, directory: str, metrics: Metrics | None = None) -> dict[str, Any]:
    """Return the content of summary.json, each name as docs/metrics.md defines it.

    `metrics` are those of the view, where they are at hand.
    """
    rate = run_rate(view)
    counts = asdict(view.counts)
    return {
        "format": FORMAT,
        "run": run,
        "experiment": view.experiment,
        "directory": directory,
        "completion": view.completion.value if view.completion else None,
        "signal": view.signal or None,
        "headline": run_headline(view),
        "early_exit": view.early_exit,
        "rate": rate.rate,
        "low": rate.low,
        "high": rate.high,
        "scored": rate.scored,
        "base": rate.base,
        "missing": view.missing.value if view.missing else None,
        "mean_score": view.mean_score,
        "metrics": metrics_data(metrics or metrics_of_view(view)),
        "counts": counts,
        "tries": view.tries,
        "retries": view.retries,
        "grading_only_tries": view.grading_only_tries,
        "retried_attempts": view.retried.total(),
        "passed_after_retry": view.retried[Verdict.PASSED],
        "without_retried": _without_retried(view),
        "backoffs": dict(view.backoffs),
        "backoff_seconds": round(view.backoff_seconds, 3),
        "seconds": round(view.seconds, 3),
        "slot_seconds": {part: round(seconds, 3) for part, seconds in view.time.parts.items()},
        "most_time": largest(view.time.parts),
        "usage": usage_data(view.usage),
        "grader_usage": usage_data(view.grader_usage),
        "cost_usd": total_cost(view),
        "cost_at_least_usd": view.all_usage.cost_at_least_usd,
        "unpriced_calls": view.all_usage.unpriced_calls,
        "retried_cost_usd": cost_of(view.retried_usage),
        "retried_usage": usage_data(view.retried_usage),
        "reused_cost_usd": view.reused_cost_usd,
        "reused_cost_at_least_usd": view.reused_known_usd,
        "reused_unpriced_attempts": view.reused_unpriced,
        "issues": [
            {"severity": severity, "code": code, "count": n} for (severity, code), n in sorted(view.issues.items())
        ],
    }


def total_cost(view: RunView) -> float | None:
    """Return the cost of all calls in US dollars: 0 where none was made, None where a price is unknown."""
    return cost_of(view.all_usage)


def _without_retried(view: RunView) -> dict[str, Any] | None:
    if view.early_exit:
        return None
    counts = view.counts_without_retried
    rate = pass_rate(counts)._asdict()
    return {"headline": headline(counts), **{name: rate[name] for name in _RATE}}


def retry_lines(view: RunView) -> list[str]:
    """Return what a reader of the rate has to know of the attempts that took more than one try; nothing without any."""
    retried = view.retried.total()
    if not retried:
        return []
    parts = [f"passed after retry: {view.retried[Verdict.PASSED]:,}"]
    if not view.early_exit:
        parts.append(f"without the {plural(retried, 'retried attempt')}: {headline(view.counts_without_retried)}")
    return [SEPARATOR.join(parts)]


def reuse_lines(view: RunView) -> list[str]:
    """Return what reused attempts cost in the runs that made them, which is not counted again; nothing for nothing."""
    cost = view.reused_cost_usd
    if not view.reused.total() or cost == 0:
        return []
    words = known_part(cost, view.reused_known_usd, view.reused_unpriced, "attempt")
    what = "what they cost is unknown" if cost is None and not view.reused_known_usd else f"they cost {words}"
    return [f"{view.reused.total():,} reused: {what} in the runs that made them, not counted above"]


def grading_lines(view: RunView) -> list[str]:
    """Return what grading used, which the numbers above it include; nothing where no judge was asked."""
    used = view.grader_usage
    if not used.calls:
        return []
    facts = [plural(used.calls, "model call"), token_words(used), cost_words(used)]
    return [f"of that for grading: {SEPARATOR.join(facts)}"]


def budget_lines(view: RunView) -> list[str]:
    """Return what to do about slots that the budget left out; nothing where it left none out."""
    left_out = view.not_dispatched[StopReason.BUDGET]
    if not left_out:
        return []
    how = "raise `--budget` and run it again with `--reuse` (`proctor exp` always reuses)"
    return [f"the budget left out {plural(left_out, 'slot')}: {how}; what was paid so far counts to it"]


def summary_lines(view: RunView, *, directory: str, time: bool = True, metrics: Metrics | None = None) -> list[str]:
    """Return the last lines about a run, for the terminal and summary.md; with `time`, where its time went."""
    lines = [f"{printable(view.experiment)}: {run_headline(view)}", counts_line(view.counts)]
    facts = [f"{duration(view.seconds)} wall time"]
    both = view.all_usage
    if both.calls:
        facts += [plural(both.calls, "model call"), token_words(both), cost_words(both)]
    if view.in_flight:
        facts.append(f"what {plural(len(view.in_flight), 'unfinished attempt')} used is counted as far as it was saved")
    if view.retries:
        facts.append(plural(view.retries, "retry", "retries") + _of_them(view))
    if view.only_graded:
        facts.append(f"{view.only_graded:,} only graded, from work of an earlier run")
    if view.backoffs:
        facts.append(f"{plural(view.backoffs.total(), 'wait')} for refused calls, {duration(view.backoff_seconds)}")
    lines.append(SEPARATOR.join(facts))
    lines += metrics_lines(metrics or metrics_of_view(view))
    lines += grading_lines(view) + reuse_lines(view) + retry_lines(view) + budget_lines(view)
    if time:
        lines += time_spent_lines([view])
    if view.issues:
        shown = [f"{n:,} {severity} {code}" for (severity, code), n in sorted(view.issues.items())]
        lines.append("issues: " + SEPARATOR.join(shown))
    lines.append(f"results: {directory}")
    return lines


def time_spent_lines(views: Sequence[RunView]) -> list[str]:
    """Return where the time of runs went, all together; nothing where they were too short for that to matter."""
    if max((view.seconds for view in views), default=0.0) < TIME_TOLD_FROM_SECONDS:
        return []
    busy = [view.host_cpu for view in views if view.host_cpu is not None]
    return time_lines(together([view.time for view in views]), _about_agent(views), max(busy, default=None))


def _about_agent(views: Sequence[RunView]) -> str:
    """Return what there is to do about the work itself."""
    begins = [view.started_at for view in views if view.started_at is not None]
    ends = [view.last_at for view in views if view.last_at is not None]
    wall = max(ends) - min(begins) if begins and ends else 0.0
    longest = max(views, key=lambda view: view.longest_seconds)
    task, ordinal = longest.longest
    name = f"{longest.experiment} " if len(views) > 1 else ""
    several = sum(view.sealed for view in views) > 1
    return hint_of_agent(
        (f"{name}{task} #{ordinal}", longest.longest_seconds) if several else None,
        wall,
        repeated=any(view.total > view.tasks and not view.early_exit for view in views),
    )


def _of_them(view: RunView) -> str:
    """Return what has to be said of retries beside their number."""
    said: list[str] = []
    if regraded := view.grading_only_tries - view.only_graded:
        said.append(f"{regraded:,} of grading only")
    if view.retried_usage.calls:
        used = view.retried_usage
        known = used.cost_usd is not None or used.cost_at_least_usd
        said.append(f"what they replaced cost {cost_words(used)}" if known else "cost of what they replaced unknown")
    return f" ({', '.join(said)})" if said else ""


def summary_markdown(view: RunView, *, run: str, directory: str, metrics: Metrics | None = None) -> str:
    """Return the content of summary.md."""
    headed, *rest = summary_lines(view, directory=directory, metrics=metrics)
    return "\n".join([f"# {headed}", "", f"run `{run}`", "", *(f"- {line}" for line in rest), ""])
