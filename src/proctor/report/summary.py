"""The end of a run in numbers: summary.json, summary.md and the last lines on the terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from proctor.core.aggregate import headline, pass_rate
from proctor.model.attempt import Usage
from proctor.report.plain import counts_line
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, duration, money, plural, printable

FORMAT = 1


def usage_data(usage: Usage) -> dict[str, Any] | None:
    """Return token counts as JSON, or None where no call was made."""
    return asdict(usage) if usage.calls else None


def summary_data(view: RunView, *, run: str, directory: str) -> dict[str, Any]:
    """Return the content of summary.json.

    `counts` are disjoint and add up to `total`; `rate` is over `base` slots, with `low` and `high` as the range that
    unscored slots leave open; `cost_usd` is 0 where no call was made and null where a price is unknown.
    """
    rate = pass_rate(view.counts)
    counts = asdict(view.counts)
    return {
        "format": FORMAT,
        "run": run,
        "experiment": view.experiment,
        "directory": directory,
        "completion": view.completion.value if view.completion else None,
        "signal": view.signal or None,
        "headline": headline(view.counts),
        "rate": rate.rate,
        "low": rate.low,
        "high": rate.high,
        "scored": rate.scored,
        "base": rate.base,
        "mean_score": view.mean_score,
        "counts": counts,
        "tries": view.tries,
        "seconds": round(view.seconds, 3),
        "usage": usage_data(view.usage),
        "grader_usage": usage_data(view.grader_usage),
        "cost_usd": total_cost(view),
        "issues": [
            {"severity": severity, "code": code, "count": n} for (severity, code), n in sorted(view.issues.items())
        ],
    }


def total_cost(view: RunView) -> float | None:
    """Return the cost of all calls in US dollars: 0 where none was made, None where a price is unknown."""
    both = view.usage + view.grader_usage
    return both.cost_usd if both.calls else 0.0


def summary_lines(view: RunView, *, directory: str) -> list[str]:
    """Return the last lines about a run, for the terminal and summary.md."""
    lines = [f"{printable(view.experiment)}: {headline(view.counts)}", counts_line(view.counts)]
    facts = [f"{duration(view.seconds)} wall time"]
    both = view.usage + view.grader_usage
    if both.calls:
        facts.append(plural(both.calls, "model call"))
        read = both.input_tokens + both.cache_read_tokens + both.cache_write_tokens
        facts.append(f"{read:,} tokens in, {both.output_tokens:,} out")
        facts.append(money(both.cost_usd))
    lines.append(SEPARATOR.join(facts))
    if view.issues:
        shown = [f"{n:,} {severity} {code}" for (severity, code), n in sorted(view.issues.items())]
        lines.append("issues: " + SEPARATOR.join(shown))
    lines.append(f"results: {directory}")
    return lines


def summary_markdown(view: RunView, *, run: str, directory: str) -> str:
    """Return the content of summary.md."""
    headed, *rest = summary_lines(view, directory=directory)
    return "\n".join([f"# {headed}", "", f"run `{run}`", "", *(f"- {line}" for line in rest), ""])
