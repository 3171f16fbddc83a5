"""From the attempts of a run to what is said of it: intervals, pass@k, tags, medians (spec 09 M2, M3).

Each number is over scored attempts alone, and says how many those are; what is missing widens the range of the
headline (`core.aggregate`), and is no 0 here. What cannot be said is None.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from proctor.core.statistics import AtK, Estimate, at_k, mean_of
from proctor.model.attempt import Verdict
from proctor.report.samples import Sample, Samples
from proctor.report.sub_scores import mean_of_sub_score

ALL_K_UP_TO = 10
"""Up to so many attempts pass@k is said for every k; beyond, for 1, 2, 4, 8, ... and the number itself."""

_SCORED = (Verdict.PASSED, Verdict.FAILED)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and 90th percentile of what is known, over `samples` attempts; `unknown` more have no number."""

    median: float | None
    p90: float | None
    samples: int
    unknown: int


@dataclass(frozen=True, slots=True)
class TagMetrics:
    """The attempts of the tasks with one tag: how many passed, of how many scored, of how many that are final."""

    passed: int
    scored: int
    final: int
    passes: Estimate | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """What is said of the attempts of one run.

    `passes` is the share of passed attempts, `score` the mean score. With early exit both are of tasks, each with
    whether it was solved at least once, and `at_k` is empty: what was cut is no sample.
    """

    passes: Estimate | None
    score: Estimate | None
    at_k: tuple[AtK, ...] = ()
    by_tag: Mapping[str, TagMetrics] = field(default_factory=dict[str, TagMetrics])
    sub_scores: Mapping[str, Estimate | None] = field(default_factory=dict[str, "Estimate | None"])
    """The mean of each; None where its numbers are too large to add up. With early exit there are none."""
    sub_scores_left_out: int = 0
    """How many more names there are (`SubScores.left_out`)."""
    seconds: Spread | None = None
    tokens: Spread | None = None
    cost_usd: Spread | None = None
    """Of one attempt, all its tries and their grading."""
    cost_per_task_usd: float | None = None
    cost_per_pass_usd: float | None = None
    """What all attempts cost by how many passed; None without a pass, and where a cost is unknown."""


def metrics_of(
    samples: Samples,
    *,
    attempts: int,
    tags: Mapping[str, Sequence[str]] | None = None,
    early_exit: bool = False,
) -> Metrics:
    """Return the metrics of a run whose tasks have `tags`, and so many `attempts` each, or the most that one has."""
    every = list(samples)
    scored = [one for one in every if one.score is not None and one.verdict in _SCORED]
    made = [one for one in every if not one.reused]
    costs = [one.cost_usd for one in made]
    known = [cost for cost in costs if cost is not None]
    total = _sum(known) if len(known) == len(costs) else None
    passed_here = sum(one.verdict is Verdict.PASSED for one in made)
    if early_exit:
        passes = scores = solved_once(every, attempts)
    else:
        passes, scores = _by_task(scored, _passed), scores_by_task(scored)
    most = max([attempts, *Counter(one.task for one in every).values()])
    ks = ks_of(most) if most > 1 and not early_exit else []
    counts = [(len(values), round(sum(values))) for values in passes.values()]
    return Metrics(
        passes=mean_of(passes.values()),
        score=mean_of(scores.values()),
        at_k=tuple(at_k(counts, k) for k in ks),
        by_tag=_by_tag(every, tags or {}, attempts=attempts, early_exit=early_exit),
        sub_scores={} if early_exit else {name: mean_of_sub_score(own) for name, own in samples.sub_scores().items()},
        sub_scores_left_out=0 if early_exit else samples.sub_scores_left_out,
        seconds=spread([one.seconds for one in made]),
        tokens=spread([one.tokens for one in made]),
        cost_usd=spread(costs),
        cost_per_task_usd=total / len({one.task for one in made}) if total is not None and made else None,
        cost_per_pass_usd=total / passed_here if total is not None and passed_here else None,
    )


def _sum(costs: Sequence[float]) -> float | None:
    try:
        return math.fsum(costs)
    except OverflowError:  # a plugin may report any number
        return None


def ks_of(attempts: int) -> list[int]:
    """Return the k of which pass@k is said."""
    if attempts <= ALL_K_UP_TO:
        return list(range(1, attempts + 1))
    powers = [1 << n for n in range(attempts.bit_length()) if 1 << n < attempts]
    return [*powers, attempts]


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return median and 90th percentile, between neighbours in proportion (Hyndman and Fan 1996, 7); None of none."""
    known = sorted(value for value in values if value is not None)
    if not values:
        return None
    return Spread(_quantile(known, 0.5), _quantile(known, 0.9), len(known), len(values) - len(known))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _passed(one: Sample) -> float:
    return 1.0 if one.verdict is Verdict.PASSED else 0.0


def _by_task(samples: Iterable[Sample], value: Callable[[Sample], float]) -> dict[str, list[float]]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in samples:
        found[one.task].append(value(one))
    return dict(found)


def scores_by_task(samples: Iterable[Sample]) -> dict[str, list[float]]:
    """Return the scores of the scored attempts of each task that has any."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in samples:
        if one.score is not None and one.verdict in _SCORED:
            found[one.task].append(one.score)
    return dict(found)


def solved_once(samples: Iterable[Sample], attempts: int) -> dict[str, list[float]]:
    """Return 1 for each task of which an attempt passed, and 0 for each of which all were made and none did.

    What was skipped is made; a task of which all was skipped is left out.
    """
    made: Counter[str] = Counter()
    solved: dict[str, bool] = {}
    for one in samples:
        if one.verdict in _SCORED:
            solved[one.task] = solved.get(one.task, False) or one.verdict is Verdict.PASSED
        if one.verdict in (*_SCORED, Verdict.SKIPPED):
            made[one.task] += 1
    return {task: [float(once)] for task, once in solved.items() if once or made[task] >= attempts}


def _by_tag(
    every: Sequence[Sample], tags: Mapping[str, Sequence[str]], *, attempts: int, early_exit: bool
) -> dict[str, TagMetrics]:
    groups: defaultdict[str, list[Sample]] = defaultdict(list)
    for tag in sorted({tag for each in tags.values() for tag in each}):
        groups[tag] = []  # a group in which nothing is final is told as such
    for one in every:
        for tag in tags.get(one.task, ()):
            groups[tag].append(one)
    found: dict[str, TagMetrics] = {}
    for tag, group in groups.items():
        scored = [one for one in group if one.score is not None and one.verdict in _SCORED]
        passes = solved_once(group, attempts) if early_exit else _by_task(scored, _passed)
        found[tag] = TagMetrics(
            sum(one.verdict is Verdict.PASSED for one in scored),
            len(scored),
            sum(one.verdict is not Verdict.SKIPPED for one in group),
            mean_of(passes.values()),
        )
    return found
