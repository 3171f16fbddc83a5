"""How metrics are said: in summary.json, and in the lines of a summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from proctor.core.aggregate import percent
from proctor.core.statistics import AtK, Estimate
from proctor.report.metrics import Metrics, Spread, TagMetrics, metrics_of
from proctor.report.sub_scores import OTHERS_AT_MOST
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, duration, money, plural, printable

EN_DASH = "\u2013"
TAGS_SHOWN = 20
"""So many tags have a line; summary.json has all."""
SUB_SCORES_SHOWN = 10
"""So many sub-scores have a line; summary.json has all that are kept."""


def metrics_of_view(view: RunView) -> Metrics:
    """Return the metrics of what is final in a run."""
    return metrics_of(view.samples, attempts=view.attempts, tags=view.tags, early_exit=view.early_exit)


def metrics_data(metrics: Metrics) -> dict[str, Any]:
    """Return the part `metrics` of summary.json. All intervals are of 95 %; what cannot be said is null."""
    return {
        "passes": _estimate(metrics.passes),
        "score": _estimate(metrics.score),
        "pass_at_k": [_at_k(one) for one in metrics.at_k],
        "by_tag": {
            tag: {"passed": one.passed, "scored": one.scored, "final": one.final, "passes": _estimate(one.passes)}
            for tag, one in metrics.by_tag.items()
        },
        "sub_scores": {name: _estimate(one) for name, one in metrics.sub_scores.items()},
        "sub_scores_left_out": metrics.sub_scores_left_out,
        "agent_seconds": _spread(metrics.seconds),
        "tokens": _spread(metrics.tokens),
        "attempt_cost_usd": _spread(metrics.cost_usd),
        "cost_per_task_usd": metrics.cost_per_task_usd,
        "cost_per_pass_usd": metrics.cost_per_pass_usd,
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    low, high = estimate.interval or (None, None)
    return {
        "mean": estimate.mean,
        "low": low,
        "high": high,
        "error": estimate.error,
        "samples": estimate.samples,
        "tasks": estimate.clusters,
    }


def _at_k(one: AtK) -> dict[str, Any]:
    return {"k": one.k, "pass_at_k": _estimate(one.at), "pass_hat_k": _estimate(one.hat), "left_out": one.left_out}


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {"median": spread.median, "p90": spread.p90, "samples": spread.samples, "unknown": spread.unknown}


def metrics_lines(metrics: Metrics) -> list[str]:
    """Return what a summary says of metrics: intervals, pass@k, tags, and what an attempt takes."""
    return [
        *_interval_lines(metrics),
        *map(_at_k_line, metrics.at_k),
        *_sub_score_lines(metrics),
        *_tag_lines(metrics),
        *_spread_lines(metrics),
    ]


def share_text(estimate: Estimate) -> str:
    """Say a share in percent, with its interval behind it in brackets where there is one."""
    if estimate.interval is None:
        return f"{100 * estimate.mean:.1f}%"
    low, high = estimate.interval
    return f"{100 * estimate.mean:.1f}% [{100 * low:.1f}–{100 * high:.1f}%]"  # noqa: RUF001 - an en dash


def _interval_lines(metrics: Metrics) -> Iterator[str]:
    passes, score = metrics.passes, metrics.score
    if passes is None or passes.samples < 2:
        return
    yield f"passed, with 95% interval: {share_text(passes)} over {_samples(passes)}"
    if score is not None and abs(score.mean - passes.mean) > 1e-9:
        yield f"mean score: {_mean_text(score)}"


def _mean_text(estimate: Estimate) -> str:
    """Say a mean, with its interval behind it in brackets where there is one."""
    if estimate.interval is None:
        return number_text(estimate.mean)
    low, high = map(number_text, estimate.interval)
    return f"{number_text(estimate.mean)} [{low}{' to ' if low[0] == '-' else EN_DASH}{high}]"


def number_text(number: float) -> str:
    """Say a number of any size."""
    return f"{number:.3f}" if abs(number) < 1e6 else f"{number:.4g}"


def _sub_score_lines(metrics: Metrics) -> Iterator[str]:
    shown = list(metrics.sub_scores.items())[:SUB_SCORES_SHOWN]
    for name, one in shown:
        said = "too large to add up" if one is None else f"{_mean_text(one)} over {_samples(one)}"
        yield f"sub-score {printable(name)}: {said}"
    more = len(metrics.sub_scores) - len(shown)
    if more:
        yield f"{plural(more, 'sub-score')} more: see summary.json"
    if metrics.sub_scores_left_out:
        least = "at least " if metrics.sub_scores_left_out >= OTHERS_AT_MOST else ""
        yield f"left out: {least}{plural(metrics.sub_scores_left_out, 'sub-score')} more, of other names"


def _samples(estimate: Estimate) -> str:
    about = plural(estimate.clusters, "task")
    several = estimate.samples > estimate.clusters
    return f"{plural(estimate.samples, 'attempt')} of {about}" if several else about


def _at_k_line(one: AtK) -> str:
    if one.at is None or one.hat is None:
        return f"pass@{one.k}: not available, no task has {plural(one.k, 'scored attempt')}"
    parts = [f"pass@{one.k} {share_text(one.at)}", f"pass^{one.k} {share_text(one.hat)}"]
    if one.left_out:
        parts.append(f"{plural(one.left_out, 'task')} with fewer than {plural(one.k, 'scored attempt')} left out")
    return SEPARATOR.join(parts)


def _tag_lines(metrics: Metrics) -> Iterator[str]:
    samples = metrics.passes.samples if metrics.passes else 0
    parts = [(tag, one) for tag, one in metrics.by_tag.items() if one.scored < samples]  # not those that all have
    for tag, one in parts[:TAGS_SHOWN]:
        yield f"tag {printable(tag)}: {_of_tag(one)}"
    if len(parts) > TAGS_SHOWN:
        yield f"{len(parts) - TAGS_SHOWN:,} tags more: see summary.json"


def _of_tag(one: TagMetrics) -> str:
    if not one.scored or one.passes is None:
        return f"- (nothing scored of {one.final:,})"
    missing = f", {one.final - one.scored:,} not scored" if one.final > one.scored else ""
    return f"{percent(one.passed, one.scored)}% ({one.passed:,}/{one.scored:,} passed{missing})"


def _spread_lines(metrics: Metrics) -> Iterator[str]:
    parts = [
        _spread_text("agent time", metrics.seconds, duration),
        _spread_text("tokens", metrics.tokens, _whole),
        _spread_text("cost", metrics.cost_usd, money),
    ]
    if metrics.cost_per_pass_usd:
        parts.append(f"{money(metrics.cost_per_pass_usd)} a pass")
    if said := [part for part in parts if part]:
        yield f"an attempt, median (p90): {SEPARATOR.join(said)}"


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _spread_text(what: str, spread: Spread | None, number: Callable[[float], str]) -> str:
    if spread is None or not spread.p90 or spread.median is None or spread.samples < 2:
        return ""
    unknown = f", {spread.unknown:,} unknown" if spread.unknown else ""
    return f"{what} {number(spread.median)} ({number(spread.p90)}{unknown})"


__all__ = ["metrics_data", "metrics_lines", "metrics_of_view", "number_text", "share_text"]
