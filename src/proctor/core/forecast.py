"""How long a plan will take and what it will cost (spec 04 P4): the real scheduler, run over expected durations.

Durations are drawn several times from what earlier attempts tell; each draw is run to its end in virtual time, and the
results are summed up as quantiles. What the spread shows is the chance in single attempts; it does not know of days on
which everything is slower. What retries took and cost is in the samples of the attempts that had some; waits before
them and attempts that came to no score are left out. Deterministic: the same plans, samples and
seeds give the same forecast, and all settings that are compared get the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proctor.core.blocks import Blocks, in_blocks
from proctor.core.expectations import Draw, Sample, Samples, expectations_of
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.virtual_time import Course, run_in_virtual_time
from proctor.errors import InternalError

if TYPE_CHECKING:
    from random import Random

DRAWS = 20
FEWEST_DRAWS = 3
SIGMA = 0.5
"""Standard deviation of the logarithm of a duration where samples do not tell it: two in three within -40 and +65 %."""

ATTEMPTS_AT_MOST = 50_000
"""So many attempts are run in virtual time for one forecast, all draws and settings together: a few seconds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles over all draws: in one of ten it is less than `p10`, in half of them less than `p50`, in nine `p90`."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan is expected to come to under certain limits.

    `cost_usd` is None where the cost of an attempt is not known. `attempts` are those that start, fewer than slots
    where early exit or a budget ends it. At most `peak` execute at once. In a huge plan about `block` slots were taken
    together; then `attempts` is None.
    """

    seconds: Spread
    cost_usd: Spread | None
    attempts: Spread | None
    peak: int
    draws: int
    block: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """A plan of which no duration is known: if all attempts last equally long, `number` rounds of at most `width`.

    With `block` above 1 the number is rounded up to about so many.
    """

    number: int
    width: int
    block: int


def forecast(
    plans: Sequence[ExperimentPlan],
    limits: GateLimits,
    known: Mapping[str, Samples],
    *,
    rng_of: Callable[[int], Random],
    sigma: float = SIGMA,
    draws: int = DRAWS,
) -> Forecast | None:
    """Return what plans are expected to come to; None where nothing is known of any task.

    `known` has samples by experiment and task; without them a plan's `expected_seconds` count. `rng_of` makes the
    source of chance of each draw from its number. `sigma` is used where samples do not tell how much durations differ.
    """
    found = forecasts(plans, [limits], known, rng_of=rng_of, sigma=sigma, draws=draws)
    return found[0] if found else None


def forecasts(
    plans: Sequence[ExperimentPlan],
    settings: Sequence[GateLimits],
    known: Mapping[str, Samples],
    *,
    rng_of: Callable[[int], Random],
    sigma: float = SIGMA,
    draws: int = DRAWS,
    attempts_at_most: int = ATTEMPTS_AT_MOST,
) -> list[Forecast] | None:
    """Return the forecast under each of several limits, from the same draws; None where nothing is known.

    What a saved attempt fills counts neither time nor cost, what is only graded counts the time of grading.
    """
    expectations = expectations_of(plans, known, sigma=sigma)
    if expectations is None:
        return None
    plans = [expectation.plan for expectation in expectations]
    if not plans:
        return [_NOTHING_LEFT] * len(settings)
    number, block = _effort(plans, attempts_at_most // len(settings), draws)
    blocks = [Blocks(plan, block) for plan in plans]
    courses: list[list[Course]] = [[] for _ in settings]
    for index in range(number):
        rng = rng_of(index)
        drawn = [each.draw(expectation, rng) for each, expectation in zip(blocks, expectations, strict=True)]
        for limits, found in zip(settings, courses, strict=True):
            found.append(_run(blocks, limits, drawn, block))
    return [_summed_up(found, block) for found in courses]


_NONE = Spread(0.0, 0.0, 0.0)
_NOTHING_LEFT = Forecast(_NONE, _NONE, _NONE, peak=0, draws=0, block=1)
"""Of plans whose slots are all reused."""

_ROUNDING = 1e-6


def rounds(
    plans: Sequence[ExperimentPlan],
    limits: GateLimits,
    *,
    rng_of: Callable[[int], Random],
    attempts_at_most: int = ATTEMPTS_AT_MOST,
) -> Rounds:
    """Return how long plans take in units of attempts, all equally long; paces and budgets do not count in it."""
    models = {name: replace(model, requests_per_minute=None) for name, model in limits.models.items()}
    unpaced = replace(limits, open_per_second={}, models=models)
    unlearned = [replace(plan, expected_seconds=(), budget_usd=None) for plan in plans]
    one_each = {plan.name: {plan.task_ids[0]: (Sample(1.0),)} for plan in plans}
    found = forecasts(
        unlearned, [unpaced], one_each, rng_of=rng_of, sigma=0.0, draws=1, attempts_at_most=attempts_at_most
    )
    if found is None:
        raise InternalError("durations were given, and none was found")
    [one] = found
    return Rounds(math.ceil(one.seconds.p50 - _ROUNDING), one.peak, one.block)


def _effort(plans: Sequence[ExperimentPlan], attempts_at_most: int, draws: int) -> tuple[int, int]:
    """Return how many draws to run, and how many slots to take together, so that it stays within bounds."""
    slots = sum(plan.slots - plan.reused for plan in plans)
    number = min(draws, max(FEWEST_DRAWS, attempts_at_most // slots))
    return number, max(1, math.ceil(number * slots / attempts_at_most))


def _run(blocks: Sequence[Blocks], limits: GateLimits, drawn: Sequence[Draw], block: int) -> Course:
    within = limits if block == 1 else in_blocks(limits, block)
    return run_in_virtual_time([each.plan for each in blocks], within, drawn)


def _summed_up(courses: Sequence[Course], block: int) -> Forecast:
    costs = [course.cost_usd for course in courses if course.cost_usd is not None]
    return Forecast(
        seconds=spread([course.seconds for course in courses]),
        cost_usd=spread(costs) if len(costs) == len(courses) else None,
        attempts=spread([float(course.attempts) for course in courses]) if block == 1 else None,
        peak=max(course.peak for course in courses),
        draws=len(courses),
        block=block,
    )


def spread(values: Sequence[float]) -> Spread:
    """Return the quantiles of at least one value, between two by linear interpolation."""
    ordered = sorted(values)

    def quantile(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return Spread(quantile(0.1), quantile(0.5), quantile(0.9))
