"""One run as a side of a comparison: its scores, what they lack, and what it consists of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proctor.core.aggregate import Missing, Rate
from proctor.core.statistics import Estimate, Interval, mean_of
from proctor.model.attempt import Verdict
from proctor.report.metrics import scores_by_task, solved_once
from proctor.report.sub_scores import ByTask
from proctor.report.summary import run_headline, run_rate, total_cost
from proctor.report.view import RunView


@dataclass(frozen=True, slots=True)
class Side:
    """One run, as far as a comparison needs it. `scores` are those of the scored attempts of each task.

    With early exit a task that is decided has one score: whether it was solved at least once.
    """

    run: str
    directory: str
    experiment: str
    headline: str
    rate: Rate
    score: Estimate | None
    """The mean score of what has one, over all tasks of the run."""
    scores: Mapping[str, Sequence[float]]
    lacking: Mapping[str, int]
    """How many scores each task lacks: its slots that have none and are not skipped, where there are any."""
    tasks: tuple[str, ...]
    """All that have a slot, in plan order."""
    attempts: int
    """How many slots a task has, at most."""
    seconds: float
    cost_usd: float | None
    reused_cost_usd: float | None
    """What reused attempts cost in the runs that made them, which is no part of `cost_usd`."""
    sub_scores: Mapping[str, ByTask]
    """By name, those of the scored attempts of each task that has any; with early exit there are none."""
    early_exit: bool
    ended: bool
    missing: Missing | None
    """What becomes of slots without a score."""
    about: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The ids of benchmark, harness and model."""
    parts: Mapping[str, str] | None = None
    """Those of the identity that all slots share; None where the identity is not known."""
    task_parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is in no identity and may change results all the same, as text: limits, retries."""

    def counted(self, task: str) -> Sequence[float]:
        """Return the scores of a task that a comparison counts."""
        lacking = self.lacking.get(task, 0) if self.missing is Missing.ZERO else 0
        return [*self.scores.get(task, ()), *[0.0] * lacking]

    def possible(self, task: str) -> Interval | None:
        """Return between what the mean of a task is, whatever it lacks; None where it has no slots but skipped ones."""
        own, lacking = self.scores.get(task, ()), self.lacking.get(task, 0)
        if not own and not lacking:
            return None
        total, count = math.fsum(own), len(own) + lacking
        return Interval(total / count, (total + lacking) / count)


def side_of(
    view: RunView,
    *,
    run: str,
    directory: str,
    slots: Mapping[str, int] | None = None,
    about: Mapping[str, str | None] | None = None,
    parts: Mapping[str, str] | None = None,
    task_parts: Mapping[str, Mapping[str, str]] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Side:
    """Return a run as a side of a comparison; `slots` says of its plan how many each task has."""
    samples = list(view.samples)
    seen = Counter(one.task for one in samples)
    planned = dict(slots or {}) | {task: seen[task] for task in sorted(seen) if task not in (slots or {})}
    attempts = max([1, *planned.values()])
    scores = solved_once(samples, attempts) if view.early_exit else scores_by_task(samples)
    skipped = Counter(one.task for one in samples if one.verdict is Verdict.SKIPPED)
    if view.early_exit:
        lacking = {task: 1 for task, count in planned.items() if task not in scores and skipped[task] < count}
    else:
        lacking = {task: count - skipped[task] - len(scores.get(task, ())) for task, count in planned.items()}
    return Side(
        run=run,
        directory=directory,
        experiment=view.experiment,
        headline=run_headline(view),
        rate=run_rate(view),
        score=mean_of(scores.values()),
        scores={task: scores[task] for task in planned if task in scores},
        lacking={task: count for task, count in lacking.items() if count > 0},
        tasks=tuple(planned),
        attempts=attempts,
        seconds=view.seconds,
        cost_usd=total_cost(view),
        reused_cost_usd=view.reused_cost_usd,
        sub_scores={} if view.early_exit else view.samples.sub_scores(),
        early_exit=view.early_exit,
        ended=view.completion is not None,
        missing=view.missing,
        about=about or {},
        parts=parts,
        task_parts=task_parts or {},
        settings=settings or {},
    )


def side_data(side: Side) -> dict[str, Any]:
    """Return a run as it stands in the JSON of a comparison; what is unknown is null."""
    score = side.score
    low, high = (score.interval or (None, None)) if score is not None else (None, None)
    return {
        "run": side.run,
        "directory": side.directory,
        "experiment": side.experiment,
        **side.about,
        "headline": side.headline,
        "rate": side.rate.rate,
        "low": side.rate.low,
        "high": side.rate.high,
        "scored": side.rate.scored,
        "base": side.rate.base,
        "mean_score": None if score is None else score.mean,
        "mean_score_low": low,
        "mean_score_high": high,
        "seconds": round(side.seconds, 3),
        "cost_usd": side.cost_usd,
        "reused_cost_usd": side.reused_cost_usd,
        "attempts": side.attempts,
        "missing": side.missing.value if side.missing else None,
        "early_exit": side.early_exit,
        "ended": side.ended,
    }
