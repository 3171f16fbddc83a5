"""What earlier runs paid for the slots of a plan, which counts to its budget (spec 03 E4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from proctor.core.budget import Budget
from proctor.core.plan import RunPlan
from proctor.core.reuse import Kind
from proctor.model.attempt import Verdict
from proctor.report.wording import money, printable

if TYPE_CHECKING:
    from proctor.store.record import Candidate, Record

_SCORED = (Verdict.PASSED, Verdict.FAILED)


def with_spent_before(run_plan: RunPlan, saved: Iterable[Sequence[Candidate]], record: Record) -> RunPlan:
    """Return a plan whose budget begins with what was paid for its slots; `saved` are attempts by slot, newest first.

    Of each slot that is its newest attempt with a score, and all without one that the record tells. What was spent on
    older results that newer ones replaced counts no more.
    """
    from proctor.store.record_spent import known_costs_of  # noqa: PLC0415 - runs that reuse nothing need no database

    counted = [one for attempts in saved for one in _counted(attempts)]
    unpriced = [(one.run_key, one.attempt_id) for one in counted if one.cost_usd is None]
    with record.database.reading() as connection:
        known = known_costs_of(connection, unpriced)
    costs = [(one, known.get((one.run_key, one.attempt_id), 0.0) if one.cost_usd is None else one.cost_usd)
             for one in counted]  # fmt: skip
    # One whose cost nobody knows says nothing of what the next one costs; one that was free does.
    telling = [usd for one, usd in costs if usd or (one.cost_usd is not None and one.verdict in _SCORED)]
    schedule = replace(
        run_plan.schedule,
        spent_before_usd=sum(usd for _, usd in costs),
        largest_before_usd=max(telling, default=None),
    )
    return replace(run_plan, schedule=schedule, unpriced_before=len(unpriced))


def _counted(attempts: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the attempts of one slot that count; one that is there twice, in a copy of its run, was paid once."""
    replaced = False
    for one in {each.attempt_id: each for each in attempts}.values():
        if one.verdict not in _SCORED:
            yield one
        elif not replaced:
            replaced = True
            yield one


def budget_notes(plans: Iterable[RunPlan]) -> list[str]:
    """Return what is left of budgets of which earlier runs have spent something."""
    return [note for run_plan in plans if (note := _budget_note(run_plan)) is not None]


def _budget_note(run_plan: RunPlan) -> str | None:
    schedule = run_plan.schedule
    limit, before, largest = schedule.budget_usd, schedule.spent_before_usd, schedule.largest_before_usd
    if limit is None or not before:
        return None
    at_least = "at least " if run_plan.unpriced_before else ""
    left = f"{money(max(0.0, limit - before))} {'at most ' if at_least else ''}is left"
    paid = f"earlier runs paid {at_least}{money(before)} for its attempts"
    whose = f"the budget of {money(limit)} of {printable(schedule.name)}"
    executed = any(one.kind not in _NOT_EXECUTED for one in run_plan.decided.values())
    if Budget(schedule).allows() or not (executed or len(run_plan.decided) < schedule.slots):
        return f"note: {whose} counts what was spent before: {paid}, {left}"
    dearest = f", and one attempt cost {money(largest)}" if largest and before < limit else ""
    return f"warning: {whose} is spent, so nothing more is started: {paid}, {left}{dearest}; raise `--budget`"


_NOT_EXECUTED = (Kind.REUSE, Kind.ACCEPT, Kind.NOT_DISPATCHED)
