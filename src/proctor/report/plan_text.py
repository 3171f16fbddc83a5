"""What `proctor plan` says: the plan as lines for people, and as records for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from proctor.report.columns import table
from proctor.report.plan_page import GateInForce, PlannedExperiment, PlanPage, Prediction, Quantiles, SlotLine
from proctor.report.wording import SEPARATOR, duration, money, plural, printable

SLOTS_SHOWN = 40
"""Slots that are listed one by one unless all are asked for."""

BLOCKS_AT_MOST = 8
"""More experiments than that have one line each."""

NEVER_RUN = "unknown: nothing was run before"

# ------------------------------------------------------------------------------------------------------- for people


def plan_lines(page: PlanPage, shown: Iterable[SlotLine], *, hidden: int) -> Iterator[str]:
    """Yield the lines of a plan; `shown` are slots, and `hidden` is how many there are beside them."""
    yield page.headline
    several = len(page.experiments) > 1
    if len(page.experiments) > BLOCKS_AT_MOST:
        yield ""
        yield from _experiment_table(page.experiments)
    else:
        for one in page.experiments:
            yield ""
            yield from _experiment_lines(one, several=several)
    yield ""
    yield "limits in force"
    yield from table([(gate.name, gate.limit, _scope(gate)) for gate in page.gates], "  ")
    yield ""
    yield "slots"
    for slot in shown:
        name = f"{printable(slot.experiment)} " if several else ""
        group = f"  group {printable(slot.group)}" if slot.group is not None else ""
        yield f"  {name}{printable(slot.task)} #{slot.ordinal}  {printable(slot.decision)}{group}"
    if hidden:
        yield f"  and {hidden:,} more; `--all` lists every one"
    yield f"{plural(page.slots, 'slot')}: {_counted(page.decisions)}"
    yield ""
    yield from _prediction_lines(page)


def _counted(decisions: Mapping[str, int]) -> str:
    return SEPARATOR.join(f"{number:,} {printable(decision)}" for decision, number in decisions.items())


def _experiment_table(experiments: Sequence[PlannedExperiment]) -> Iterator[str]:
    yield "experiments"
    rows = [("", "tasks", "slots", "benchmark", "harness", "model", "what is done")]
    rows += [
        (
            printable(one.name),
            f"{one.tasks:,}",
            f"{one.slots:,}",
            printable(one.benchmark),
            printable(one.harness),
            printable(one.model or "-"),
            _counted(one.decisions),
        )
        for one in experiments
    ]
    yield from table(rows, "  ")


def _experiment_lines(one: PlannedExperiment, *, several: bool) -> Iterator[str]:
    yield f"experiment {printable(one.name)}"
    slots = f"  {plural(one.tasks, 'task')} × {plural(one.attempts, 'attempt')} = {plural(one.slots, 'slot')}"  # noqa: RUF001
    yield f"{slots}: {_counted(one.decisions)}" if several else slots
    parts = [f"benchmark {printable(one.benchmark)}", f"harness {printable(one.harness)}"]
    parts.append(f"model {printable(one.model)}" if one.model is not None else "no model")
    parts += [f"judge {printable(one.judge)}"] if one.judge is not None else []
    yield "  " + SEPARATOR.join(parts)
    parts = [f"sandboxes at {printable(one.provider)}: {_sandboxes(one)}", f"grading {one.grading}"]
    if one.early_exit:
        parts.append("early exit")
    if one.budget_usd is not None:
        before = f", {money(one.spent_before_usd)} of it spent before" if one.spent_before_usd else ""
        parts.append(f"budget {money(one.budget_usd)}{before}")
    yield "  " + SEPARATOR.join(parts)
    for part, price in one.prices.items():
        yield f"  {printable(part)}: {printable(price)}"


def _sandboxes(one: PlannedExperiment) -> str:
    whose = {0: "none for the agent", one.tasks: "one for each agent"}
    agents = whose.get(one.agent_sandboxes, f"one for the agent of {one.agent_sandboxes:,} of {one.tasks:,} tasks")
    return f"{agents}, a fresh one for grading" if one.grading == "fresh" else agents


def _scope(gate: GateInForce) -> str:
    return f"{printable(gate.scope)} ({gate.source})" if gate.source else printable(gate.scope)


def _prediction_lines(page: PlanPage) -> Iterator[str]:
    if len(page.predictions) > 1:
        yield from _table(page.predictions)
    else:
        [one] = page.predictions
        rows = [("expected wall time", _time(one)), ("expected cost", _cost(one))]
        if one.attempts is not None and one.attempts.p10 < page.slots:
            rows.append(("expected attempts", f"{_spread(one.attempts, _count)} of {plural(page.slots, 'slot')}"))
        yield from table(rows)
    if page.predictions[0].seconds is not None:
        yield from (f"  {line}" for line in _grounds(page))


def _time(one: Prediction) -> str:
    if one.seconds is not None:
        return f"{_spread(one.seconds, duration)}; at most {one.at_once:,} at once"
    return f"{NEVER_RUN}; {_rounds(one)} of {one.at_once:,} if all attempts last equally long"


def _rounds(one: Prediction) -> str:
    return f"{'about ' if one.block > 1 else ''}{plural(one.rounds or 0, 'round')}"


def _cost(one: Prediction) -> str:
    if one.cost_usd is not None:
        return _spread(one.cost_usd, money)
    if one.cost_at_least_usd is not None:
        return f"at least {_spread(one.cost_at_least_usd, money)}: a part of what earlier attempts cost is not known"
    return NEVER_RUN if one.seconds is None else "unknown: what earlier attempts cost is not known"


def _spread(values: Quantiles, say: Any) -> str:
    middle, low, high = say(values.p50), say(values.p10), say(values.p90)
    return middle if low == high == middle else f"{middle}, in 8 of 10 cases {low} to {high}"


def _count(value: float) -> str:
    return f"{round(value):,}"


def _table(predictions: Sequence[Prediction]) -> Iterator[str]:
    if predictions[0].seconds is None:
        yield f"expected wall time and cost: {NEVER_RUN}; rounds if all attempts last equally long:"
        rows = [("task concurrency", "rounds", "at once")]
        rows += [(f"{one.task_concurrency:,}", f"{one.rounds:,}", f"{one.at_once:,}") for one in predictions]
        yield from table(rows, "  ")
        return
    yield "expected wall time and cost by task concurrency"
    rows = [("task concurrency", "wall time", "in 8 of 10 cases", "cost", "at once")]
    for one in predictions:
        if one.seconds is not None:
            between = f"{duration(one.seconds.p10)} to {duration(one.seconds.p90)}"
            cost, least = one.cost_usd, one.cost_at_least_usd
            told = money(cost.p50) if cost else f"at least {money(least.p50)}" if least else "unknown"
            rows.append((f"{one.task_concurrency:,}", duration(one.seconds.p50), between, told, f"{one.at_once:,}"))
    yield from table(rows, "  ")


def _grounds(page: PlanPage) -> Iterator[str]:
    """Yield what the forecast rests on, and what it leaves out."""
    samples, runs = (
        sum(values) for values in zip(*((o.samples, o.runs_before) for o in page.experiments), strict=True)
    )
    one = page.predictions[0]
    what = f"the durations of {plural(samples, 'earlier attempt')} of {plural(runs, 'run')}" if samples else "medians"
    yield f"the scheduler run over {what}, {plural(one.draws, 'time')} by lot"
    yield "retries count as in earlier runs; waits before them, and attempts without a score, do not"
    unknown = sum(each.tasks - each.tasks_known for each in page.experiments)
    if samples and unknown:
        tasks = sum(each.tasks for each in page.experiments)
        yield f"{unknown:,} of {plural(tasks, 'task')} were never run and are taken to be like the others"
    if one.block > 1:
        yield f"there are very many slots: about {one.block:,} of them at a time were taken for one"


# ----------------------------------------------------------------------------------------------------- for programs


def plan_records(page: PlanPage, slots: Iterable[SlotLine]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (type, content) of each record: the plan, every slot, and a forecast for each setting.

    In a forecast `seconds`, `cost_usd` and `attempts` are null where they are not known; `rounds` is given where
    `seconds` is not.
    """
    yield (
        "plan",
        {
            "slots": page.slots,
            "experiments": [{**asdict(one), "slots": one.slots} for one in page.experiments],
            "task_concurrency": [one.task_concurrency for one in page.predictions],
            "concurrency_source": page.concurrency_source,
            "limits": [asdict(gate) for gate in page.gates],
            "decisions": dict(page.decisions),
            "notes": list(page.notes),
        },
    )
    for slot in slots:
        yield "slot", asdict(slot)
    for one in page.predictions:
        yield "forecast", asdict(one)
