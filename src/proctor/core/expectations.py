"""How long each slot of a plan may last and what it may cost: drawn from samples of earlier attempts, or from medians.

One draw is one way in which the plan may go. Of a task that was run before, each attempt is one of its samples drawn
by lot. Fewer than three samples hardly tell how much attempts of one task differ; then the drawn one is spread by a
lognormal factor with mean 1, as wide as attempts of one task differ in this experiment, where that can be told. Of a
task with nothing but an expected duration, a median, it is that median spread by a lognormal factor with median 1. A
task of which nothing is known is taken to be like one of the others, drawn by lot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from proctor.core.decided import what_is_left
from proctor.core.schedule import ExperimentPlan

if TYPE_CHECKING:
    from random import Random

ENOUGH_SAMPLES = 3
"""So many samples of a task show by themselves how much its attempts differ."""

ENOUGH_PAIRS = 5
"""So many second samples of tasks tell how much attempts of one task differ in an experiment."""


class Sample(NamedTuple):
    """How long the parts of one attempt execute, what it costs and whether it passes.

    The agent's part is everything before grading. Grading in a sandbox of its own includes opening and disposing of
    that; `dispose_seconds` are for the agent's sandbox. `cost_usd` is None where it is not known.
    """

    agent_seconds: float
    grade_seconds: float = 0.0
    dispose_seconds: float = 0.0
    cost_usd: float | None = None
    passed: bool = False

    @property
    def seconds(self) -> float:
        """The seconds of execution in all."""
        return self.agent_seconds + self.grade_seconds + self.dispose_seconds

    def times(self, factor: float) -> Sample:
        """Return a sample that lasts and costs `factor` times as much."""
        agent, grade, dispose, cost, passed = self
        cost = None if cost is None else cost * factor
        return Sample(agent * factor, grade * factor, dispose * factor, cost, passed)

    def of_grading(self) -> Sample:
        """Return the sample of an attempt that is only graded; what grading alone costs is not known and left out."""
        return Sample(0.0, self.grade_seconds, 0.0, 0.0, self.passed)

    def with_cost(self, cost_usd: float | None) -> Sample:
        """Return the sample with a cost where it has none."""
        return self if self.cost_usd is not None or cost_usd is None else self._replace(cost_usd=cost_usd)


Draw = Sequence[Sample]
"""What each slot of one experiment comes to, at `ordinal * tasks + task`."""

Samples = Mapping[str, Sequence[Sample]]
"""What is known of one experiment: samples by task id."""


class Expectation:
    """What is expected of one experiment.

    `others` are samples of tasks that those of which nothing is known are taken to be like. `sigma` is the standard
    deviation of the logarithm of a duration where samples do not tell it; 0 spreads nothing.
    """

    def __init__(self, plan: ExperimentPlan, samples: Samples, others: Sequence[Sample], *, sigma: float) -> None:
        self.plan = plan
        self._others = others
        told = _sigma_within_tasks(samples) if sigma else None
        self._sigma = sigma if told is None else told
        known = [samples.get(task, ()) for task in plan.task_ids]
        self.tasks_known = sum(map(bool, known))
        """Tasks of which there are samples."""
        whole = _mean_cost([sample for task in samples.values() for sample in task])
        self._cost = plan.expected_cost_usd if whole is None else whole
        self._known = known

    def draw(self, rng: Random) -> Draw:
        """Return one way in which the experiment may go."""
        tasks = len(self.plan.task_ids)
        drawn: list[Sample] = [_NOTHING] * self.plan.slots
        for task in range(tasks):
            drawn[task::tasks] = self.draw_task(task, rng)
        return drawn

    def draw_task(self, task: int, rng: Random) -> list[Sample]:
        """Return one way in which the attempts of one task may go."""
        attempts, own = range(self.plan.attempts), self._known[task]
        cost = self._cost if (mean := _mean_cost(own)) is None else mean
        if len(own) >= ENOUGH_SAMPLES:
            return [own[int(rng.random() * len(own))].with_cost(cost) for _ in attempts]
        expected = self.plan.expected_seconds[task] if self.plan.expected_seconds else None
        if not own and expected is not None:
            return [Sample(expected * self._factor(rng, 0.0), cost_usd=cost) for _ in attempts]
        if not own:
            # One other task for all its attempts: how much tasks differ must not average out within one.
            own = (self._others[int(rng.random() * len(self._others))],)
        location = -0.5 * self._sigma**2
        factors = (self._factor(rng, location) for _ in attempts)
        return [own[int(rng.random() * len(own))].times(factor).with_cost(cost) for factor in factors]

    def _factor(self, rng: Random, location: float) -> float:
        return math.exp(rng.gauss(location, self._sigma)) if self._sigma else 1.0


_NOTHING = Sample(0.0)


def expectations_of(
    plans: Sequence[ExperimentPlan], known: Mapping[str, Samples], *, sigma: float
) -> list[Expectation] | None:
    """Return what is expected of each experiment; None where nothing is known of any task of any of them.

    `known` is by the names of the experiments. Expected is only what is left to be executed; plans of which nothing is
    left are left out. A task of which nothing is known is like another of its experiment, or
    if there is none like one of the others', of which neither the cost nor the success says anything here.
    """
    pools = [_pool(plan, known.get(plan.name, {})) for plan in plans]
    strangers = [Sample(*sample[:3]) for pool in pools for sample in pool]
    if not strangers:
        return None
    return [
        Expectation(left, known.get(plan.name, {}), pool or strangers, sigma=sigma)
        for plan, pool in zip(plans, pools, strict=True)
        if (left := what_is_left(plan)) is not None
    ]


def _pool(plan: ExperimentPlan, samples: Samples) -> list[Sample]:
    pool = [sample for task in samples.values() for sample in task]
    return pool or [Sample(seconds) for seconds in plan.expected_seconds if seconds is not None]


def _sigma_within_tasks(samples: Samples) -> float | None:
    """Return the standard deviation of the logarithm of durations of one task, pooled over all; None if unknown."""
    squares, pairs = 0.0, 0
    for own in samples.values():
        logarithms = [math.log(sample.seconds) for sample in own if sample.seconds > 0]
        if len(logarithms) > 1:
            mean = math.fsum(logarithms) / len(logarithms)
            squares += math.fsum((value - mean) ** 2 for value in logarithms)
            pairs += len(logarithms) - 1
    return math.sqrt(squares / pairs) if pairs >= ENOUGH_PAIRS else None


def _mean_cost(samples: Sequence[Sample]) -> float | None:
    costs = [sample.cost_usd for sample in samples if sample.cost_usd is not None]
    return math.fsum(costs) / len(costs) if costs else None
