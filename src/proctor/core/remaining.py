"""How long what is left will take and what it will cost: by the real scheduler while that is cheap, else by a formula.

The forecast runs the scheduler over what is left, attempts in flight with what is left of them; it is right about
gates, lanes and the last long attempt. It costs time for each attempt, so of much that is left the formula says about
the same: the work, divided by what the tightest gate lets through at once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from proctor.core.expectations import Sample, expectations_of
from proctor.core.forecast import SIGMA
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.virtual_time import run_in_virtual_time
from proctor.core.whats_left import Rest, WhatsLeft, rest_of
from proctor.model.attempt import GradingMode

if TYPE_CHECKING:
    from random import Random

SIMULATED_AT_MOST = 2_000
"""So many attempts are run in virtual time for one estimate, all draws together: about 0.1 s."""

DRAWS = 5


class Cost(NamedTuple):
    """What is expected to be spent still, and one standard deviation of it where that can be told."""

    usd: float
    spread_usd: float | None


def simulable(lefts: Sequence[WhatsLeft]) -> bool:
    """Say whether what is left is so little that the forecast is cheap."""
    return sum((0 if left.stopped else left.slots) + left.in_flight for left in lefts) <= SIMULATED_AT_MOST


def simulated_seconds(rests: Sequence[Rest], limits: GateLimits, rng_of: Callable[[int], Random]) -> float | None:
    """Return how long what is left takes, the mean over some draws; None where nothing is known of any task."""
    plans = [rest.plan for rest in rests]
    expectations = expectations_of(plans, {rest.plan.name: rest.known for rest in rests}, sigma=SIGMA)
    if expectations is None:
        return None
    slots = sum(plan.slots - plan.reused for plan in plans)
    elapsed = {rest.plan.name: rest.elapsed for rest in rests}
    draws = max(1, min(DRAWS, SIMULATED_AT_MOST // max(1, slots)))
    found: list[float] = []
    for index in range(draws):
        rng = rng_of(index)
        drawn: list[list[Sample]] = []
        for each in expectations:
            samples = list(each.draw(rng))
            tasks = len(each.plan.task_ids)
            for (task, ordinal), seconds in elapsed[each.plan.name].items():
                place = ordinal * tasks + task
                samples[place] = rest_of(samples[place], seconds)
            drawn.append(samples)
        found.append(run_in_virtual_time([each.plan for each in expectations], limits, drawn).seconds)
    return math.fsum(found) / len(found)


def roughly_seconds(lefts: Sequence[WhatsLeft], limits: GateLimits, now: float) -> float | None:
    """Return how long what is left takes, by the formula; None where nothing is known of an experiment."""
    work: defaultdict[tuple[str, str], float] = defaultdict(float)
    width: dict[tuple[str, str], float] = {("", ""): limits.task_concurrency}
    starts: defaultdict[tuple[str, str], float] = defaultdict(float)
    pace: dict[tuple[str, str], float] = {}
    longest = typical = 0.0
    for left in lefts:
        slots = 0 if left.stopped else left.slots * left.share_executed()
        queued = left.seconds.sum_of(left.slots) if slots else 0.0
        rest = list(left.in_flight_seconds(now))
        running = [seconds for seconds in rest if seconds is not None]
        if queued is None or len(running) < len(rest):
            return None
        if slots:
            queued *= slots / left.slots
            typical = max(typical, queued / slots)
        longest = max(longest, *running, 0.0)
        for gate, most in _widths(left.plan, limits):
            work[gate] += queued + math.fsum(running)
            width[gate] = most
        for gate, seconds in _paces(left.plan, limits):
            starts[gate] += slots
            pace[gate] = seconds
    through = max((work[gate] / width[gate] for gate in work), default=0.0)
    # The last ones to start are, on average, half done when the others have ended.
    ending = typical / 2 if typical else 0.0
    paced = max((starts[gate] * pace[gate] for gate in starts), default=0.0)
    return max(longest, through + ending, paced + typical)


def _widths(plan: ExperimentPlan, limits: GateLimits) -> list[tuple[tuple[str, str], float]]:
    """Return the gates that an experiment goes through, and how many executing attempts each lets through."""
    gates: list[tuple[tuple[str, str], float]] = [(("", ""), limits.task_concurrency)]
    if plan.max_concurrency:
        gates.append((("experiment", plan.name), plan.max_concurrency))
    if any(plan.agent_sandbox):
        most = 1 if plan.provider in limits.exclusive else limits.of_provider(plan.provider)
        if most:
            gates.append((("provider", plan.provider), most))
    if plan.model is not None and (connections := limits.of_model(plan.model).max_connections):
        gates.append((("model", plan.model), connections))
    if not plan.isolated:
        gates.append((("tasks", plan.name), len(plan.task_ids)))
    if plan.groups and sum(len(group.members) for group in plan.groups) == len(plan.task_ids):
        gates.append((("groups", plan.name), len(plan.groups)))
    return gates


def _paces(plan: ExperimentPlan, limits: GateLimits) -> list[tuple[tuple[str, str], float]]:
    """Return how far apart starts are, by gate."""
    paces: list[tuple[tuple[str, str], float]] = []
    fresh = plan.grading is GradingMode.FRESH
    if (any(plan.agent_sandbox) or fresh) and (apart := limits.open_interval_seconds(plan.provider)):
        paces.append((("opening", plan.provider), apart * (2 if fresh and any(plan.agent_sandbox) else 1)))
    if plan.model is not None and (rate := limits.of_model(plan.model).requests_per_minute):
        paces.append((("starts", plan.model), 60.0 / rate))
    return paces


def remaining_cost(lefts: Sequence[WhatsLeft]) -> Cost | None:
    """Return what is expected to be spent still; None where the cost of an attempt is not known.

    The spread is that of single attempts, and that of their mean where only few were seen.
    """
    usd, variance, told = 0.0, 0.0, True
    for left in lefts:
        slots = 0.0 if left.stopped else left.slots * left.share_executed()
        queued = left.cost.sum_of(left.slots) if slots else 0.0
        declared = left.plan.expected_cost_usd
        running = [declared if cost is None else cost for cost in left.in_flight_costs()]
        if queued is None and declared is not None:
            queued = declared * left.slots
        if queued is None or None in running:
            return None
        number = slots + len(running)
        if not number:
            continue
        in_flight = math.fsum(cost or 0.0 for cost in running)
        expected = queued * (slots / left.slots if left.slots else 0.0) + in_flight
        budget = left.plan.budget_usd
        if budget is not None and expected:  # what is in flight goes on, and only whole attempts are started
            each = expected / number
            expected = min(expected, max(in_flight, each * math.floor(max(0.0, budget - left.spent_usd) / each + 1e-9)))
        usd += expected
        deviation, seen = left.cost.deviation, max(left.cost.here.count, left.cost.before.count)
        if deviation is None and expected > 0:
            told = False
        elif deviation is not None:
            variance += deviation**2 * (number + number**2 / max(1, seen))
    return Cost(usd, math.sqrt(variance) if told else None)
