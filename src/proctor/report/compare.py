"""Runs side by side: what differs in their identities, and how their scores differ task by task (spec 09 M4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proctor.core.aggregate import Rate
from proctor.core.compare import Paired, holm, paired
from proctor.model.attempt import Verdict
from proctor.report.metrics import Metrics
from proctor.report.metrics_text import metrics_of_view
from proctor.report.summary import run_headline, run_rate, total_cost
from proctor.report.view import RunView

TASK_PARTS = frozenset({"task", "grader"})
"""Parts of the identity without which a task is another one: its content, and how it is graded."""


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
    metrics: Metrics
    scores: Mapping[str, Sequence[float]]
    tasks: tuple[str, ...]
    """All that have a slot, in plan order."""
    seconds: float
    cost_usd: float | None
    early_exit: bool
    ended: bool
    about: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """The ids of benchmark, harness and model."""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])
    task_parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


@dataclass(frozen=True, slots=True)
class Versus:
    """The second run against the first."""

    first: Side
    second: Side
    differs: tuple[str, ...]
    """The parts of the identity in which they differ, by name; those of tasks where any task that both have does."""
    changed: Mapping[str, int]
    """Of those of tasks: in how many tasks."""
    left_out: tuple[str, ...]
    """Tasks that are not compared: their content or their grading is not the same."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    unscored: tuple[str, ...]
    """Tasks that both have, of which one run has no score."""
    paired: Paired | None
    corrected_p_value: float | None = None
    """By Holm's correction for the number of comparisons that were made at once."""

    @property
    def ties(self) -> int:
        """Tasks without a difference."""
        return 0 if self.paired is None else self.paired.tasks - len(self.paired.won) - len(self.paired.lost)


def side_of(
    view: RunView,
    *,
    run: str,
    directory: str,
    tasks: Sequence[str] = (),
    about: Mapping[str, str | None] | None = None,
    parts: Mapping[str, str] | None = None,
    task_parts: Mapping[str, Mapping[str, str]] | None = None,
) -> Side:
    """Return a run as a side of a comparison; `tasks` are those of its plan."""
    scores: dict[str, list[float]] = {}
    for one in view.samples:
        if one.score is not None and one.verdict in (Verdict.PASSED, Verdict.FAILED):
            scores.setdefault(one.task, []).append(one.score)
    if view.early_exit:
        attempts = view.total // view.tasks if view.tasks else 1
        scores = {
            task: [1.0 if task in view.solved else 0.0]
            for task, own in scores.items()
            if task in view.solved or len(own) >= attempts
        }
    order = list(dict.fromkeys([*tasks, *sorted(scores)]))
    return Side(
        run=run,
        directory=directory,
        experiment=view.experiment,
        headline=run_headline(view),
        rate=run_rate(view),
        metrics=metrics_of_view(view),
        scores={task: scores[task] for task in order if task in scores},
        tasks=tuple(order),
        seconds=view.seconds,
        cost_usd=total_cost(view),
        early_exit=view.early_exit,
        ended=view.completion is not None,
        about=about or {},
        parts=parts or {},
        task_parts=task_parts or {},
    )


def versus(first: Side, second: Side, *, include_changed: bool = False) -> Versus:
    """Compare two runs on the tasks that are the same in both; with `include_changed` on those of the same id."""
    common = [task for task in first.scores if task in second.scores]
    here, there = set(first.tasks), set(second.tasks)
    shared = [task for task in first.tasks if task in there]
    changed: Counter[str] = Counter()
    other: set[str] = set()
    for task in shared:
        own, others = (side.task_parts.get(task, {}) for side in (first, second))
        differing = [name for name in {*own, *others} if own.get(name) != others.get(name)]
        changed.update(differing)
        if TASK_PARTS.intersection(differing):
            other.add(task)
    names = {*first.parts, *second.parts}
    differs = sorted(name for name in names if first.parts.get(name) != second.parts.get(name))
    left_out = () if include_changed else tuple(task for task in common if task in other)
    compared = [task for task in common if task not in set(left_out)]
    return Versus(
        first,
        second,
        differs=(*differs, *sorted(changed)),
        changed=dict(sorted(changed.items())),
        left_out=left_out,
        only_first=tuple(task for task in first.tasks if task not in there),
        only_second=tuple(task for task in second.tasks if task not in here),
        unscored=tuple(task for task in shared if task not in first.scores or task not in second.scores),
        paired=paired(
            {task: first.scores[task] for task in compared}, {task: second.scores[task] for task in compared}
        ),
    )


def all_versus(sides: Sequence[Side], *, every_pair: bool = False, include_changed: bool = False) -> list[Versus]:
    """Compare each run with the first, or with `every_pair` each with each; p-values are corrected for their number."""
    pairs = [
        (first, second)
        for place, first in enumerate(sides if every_pair else sides[:1])
        for second in sides[place + 1 :]
    ]
    found = [versus(first, second, include_changed=include_changed) for first, second in pairs]
    tested = [place for place, one in enumerate(found) if one.paired is not None and one.paired.p_value is not None]
    values = [one.paired.p_value for one in found if one.paired is not None and one.paired.p_value is not None]
    for place, value in zip(tested, holm(values) if len(found) > 1 else [], strict=len(found) > 1):
        found[place] = replace(found[place], corrected_p_value=value)
    return found


def side_data(side: Side) -> dict[str, Any]:
    """Return a run as it stands in the JSON of a comparison; what is unknown is null."""
    score = side.metrics.score
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
        "early_exit": side.early_exit,
        "ended": side.ended,
    }


def versus_data(one: Versus) -> dict[str, Any]:
    """Return a comparison as JSON: `first` and `second` are directories; `difference` is the second less the first."""
    found = one.paired
    low, high = (found.interval or (None, None)) if found is not None else (None, None)
    return {
        "first": one.first.directory,
        "second": one.second.directory,
        "differs": list(one.differs),
        "changed_tasks": dict(one.changed),
        "tasks": 0 if found is None else found.tasks,
        "first_mean": None if found is None else found.first,
        "second_mean": None if found is None else found.second,
        "difference": None if found is None else found.difference,
        "low": low,
        "high": high,
        "test": None if found is None else found.test,
        "p_value": None if found is None else found.p_value,
        "corrected_p_value": one.corrected_p_value,
        "won": [] if found is None else list(found.won),
        "lost": [] if found is None else list(found.lost),
        "ties": one.ties,
        "left_out": list(one.left_out),
        "only_first": list(one.only_first),
        "only_second": list(one.only_second),
        "unscored": list(one.unscored),
    }
