"""From resolved plans and earlier runs to what `proctor plan` says of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, product
from pathlib import Path

from proctor.cli.price_notes import priced_models
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.run_writer import experiment_dir_of
from proctor.core.expectations import Sample, Samples
from proctor.core.forecast import ATTEMPTS_AT_MOST, Forecast, Spread, forecasts, rounds
from proctor.core.limits import GateLimits
from proctor.core.plan import RunPlan
from proctor.core.reuse import NEW, Decided
from proctor.core.schedule import ExperimentPlan
from proctor.report.plan_page import PlannedExperiment, Prediction, Quantiles, SlotLine
from proctor.store.history import BYTES_AT_MOST, History, read_history

BYTES_OF_EACH = 1024 * 1024
"""At least so much is read of the earlier runs of each of many experiments."""


def history_of(plan: RunPlan, options: Options, experiments: int = 1) -> History:
    """Return what earlier runs of one of so many experiments tell. Raises `UsageError` for a bad run name."""
    return read_history(
        Path(options.controls.results_dir),
        experiment_dir_of(plan.experiment),
        run_name=options.run_name,
        bytes_at_most=max(BYTES_AT_MOST // experiments, BYTES_OF_EACH),
    )


def samples_of(history: History, *, at_least: bool = False) -> Samples:
    """Return a history as the forecast takes it; with `at_least`, a cost that is not known is what is known of it."""
    by_task: dict[str, list[Sample]] = {}
    for one in history.all:
        cost = one.known_cost_usd if at_least and one.cost_usd is None else one.cost_usd
        sample = Sample(one.agent_seconds, one.grade_seconds, one.dispose_seconds, cost, one.passed)
        by_task.setdefault(one.task, []).append(sample)
    return by_task


def predictions_of(
    schedules: Sequence[ExperimentPlan],
    limits: GateLimits,
    concurrency: Sequence[int],
    histories: Mapping[str, History],
) -> list[Prediction]:
    """Return what is expected under each setting of the global limit; `histories` are by name of the experiment."""
    settings = [replace(limits, task_concurrency=number) for number in concurrency]
    known = {name: samples_of(history) for name, history in histories.items()}
    found = forecasts(schedules, settings, known, rng_of=_chance)
    if found is not None:
        least = found
        partly = any(one.known_cost_usd for history in histories.values() for one in history.all)
        if partly and any(one.cost_usd is None for one in found):
            known = {name: samples_of(history, at_least=True) for name, history in histories.items()}
            least = forecasts(schedules, settings, known, rng_of=_chance) or found
        return [_prediction(*each) for each in zip(concurrency, found, least, strict=True)]
    unknown: list[Prediction] = []
    for number, setting in zip(concurrency, settings, strict=True):
        count = rounds(schedules, setting, rng_of=_chance, attempts_at_most=ATTEMPTS_AT_MOST // len(settings))
        unknown.append(Prediction(number, count.width, None, None, None, count.number, 0, count.block))
    return unknown


def _chance(draw: int) -> random.Random:
    """Return the same source of chance each time: the same plan has the same forecast."""
    return random.Random(f"forecast {draw}")  # noqa: S311 - it draws durations, no secrets


def _prediction(concurrency: int, one: Forecast, least: Forecast) -> Prediction:
    partly = one.cost_usd is None and least.cost_usd is not None
    return Prediction(
        task_concurrency=concurrency,
        at_once=one.peak,
        seconds=_quantiles(one.seconds),
        cost_usd=_quantiles(one.cost_usd) if one.cost_usd is not None else None,
        attempts=_quantiles(one.attempts) if one.attempts is not None else None,
        rounds=None,
        draws=one.draws,
        block=one.block,
        cost_at_least_usd=_quantiles(least.cost_usd) if partly and least.cost_usd is not None else None,
    )


def _quantiles(spread: Spread) -> Quantiles:
    return Quantiles(spread.p10, spread.p50, spread.p90)


def planned_experiment(one: Resolved, plan: RunPlan, history: History) -> PlannedExperiment:
    """Return what is said of one experiment."""
    experiment, schedule = plan.experiment, plan.schedule
    known = {sample.task for sample in history.all}
    return PlannedExperiment(
        name=experiment.name,
        tasks=len(plan.tasks),
        attempts=schedule.attempts,
        benchmark=f"{experiment.benchmark.id} {one.benchmark.version}",
        harness=f"{experiment.harness.id} {one.harness.version}",
        model=experiment.model.id if experiment.model else None,
        provider=schedule.provider,
        grading=schedule.grading.value,
        agent_sandboxes=sum(schedule.agent_sandbox),
        early_exit=schedule.early_exit,
        budget_usd=schedule.budget_usd,
        runs_before=len(history.runs),
        samples=len(history.all),
        tasks_known=sum(task.id in known for task in plan.tasks),
        decisions=_decisions_of(plan),
        prices=priced_models(experiment),
        spent_before_usd=schedule.spent_before_usd,
        judge=experiment.judge.id if experiment.judge and schedule.judge else None,
    )


def first_slots_of(plans: Sequence[RunPlan], most: int) -> Iterator[SlotLine]:
    """Yield the first slots of each experiment, as many of all of them together as `most`."""
    each = max(1, most // max(1, len(plans)))
    return islice(chain.from_iterable(islice(slots_of([plan]), each) for plan in plans), most)


def slots_of(plans: Sequence[RunPlan]) -> Iterator[SlotLine]:
    """Yield every slot in plan order with the decision on it."""
    for plan in plans:
        schedule = plan.schedule
        group_of = {schedule.task_ids[member]: group.name for group in schedule.groups for member in group.members}
        for entry in plan.entries():
            slot = entry.slot
            yield SlotLine(
                slot.experiment, slot.task, slot.ordinal, str(entry.decision), entry.identity, group_of.get(slot.task)
            )


def _decisions_of(plan: RunPlan) -> dict[str, int]:
    """Return how many slots each decision is about, in the order in which they come first."""
    slots = product(range(len(plan.tasks)), range(plan.schedule.attempts))
    numbers = Counter(plan.decided.get(slot, NEW)[:2] for slot in slots)
    return decisions_of({str(Decided(*what)): number} for what, number in numbers.items())


def decisions_of(numbers: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of how many slots decisions are about."""
    total: Counter[str] = Counter()
    for one in numbers:
        total.update(one)
    return dict(total)
