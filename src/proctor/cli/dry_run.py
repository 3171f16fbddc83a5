"""Says what an invocation would do: every slot, the limits, expected time and cost. Starts and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.cli.beforehand import beforehand
from proctor.cli.closing import ClosingOnce
from proctor.cli.exits import Exit
from proctor.cli.expected_durations import histories_of, with_durations
from proctor.cli.interrupts import Interrupts
from proctor.cli.output import Lines, say
from proctor.cli.plan_forecast import (
    decisions_of,
    first_slots_of,
    history_of,
    planned_experiment,
    predictions_of,
    slots_of,
)
from proctor.cli.plan_gates import gates_in_force, limits_of
from proctor.cli.plan_line import plan_line
from proctor.cli.planning import plan_all
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.saved_work import fill, group_of
from proctor.core.plan import RunPlan
from proctor.errors import UsageError
from proctor.report.ndjson import Ndjson
from proctor.report.plan_page import PlanPage
from proctor.report.plan_text import SLOTS_SHOWN, plan_lines, plan_records
from proctor.report.wording import printable
from proctor.runtime.running import run_to_end
from proctor.store.codec import encode
from proctor.store.history import History
from proctor.store.layout import checked_run_id


@dataclass(frozen=True, slots=True)
class DryRun:
    """A plan with all that is said of it; the slots one by one are made of `plans` when they are asked for."""

    page: PlanPage
    plans: Sequence[RunPlan]


async def planned(resolved: Sequence[Resolved], options: Options, concurrency: Sequence[int] = ()) -> DryRun:
    """Plan experiments as a run would; `concurrency` are settings of the global limit to compare.

    Raises `UsageError` or `NothingToRun`, as the run would.
    """
    interrupts = Interrupts(signals=False)
    closing = ClosingOnce(resolved, interrupts, options.controls.cleanup_grace_seconds)
    troubles: list[str] = []
    try:
        kept, plans, left_out = await plan_all(resolved, options)
        filled = fill(plans, options, look=True, tell=troubles.append)
        plans = [plan for plan, _ in with_durations(filled, histories_of(filled, options))]
        _check_names(plans, options)
        page = _page(kept, plans, options, concurrency or (options.controls.task_concurrency,))
    finally:
        await closing.close(troubles.append)
    said = [*(f"warning: {printable(text)}" for text in troubles), *(f"note: {text}" for text in left_out)]
    return DryRun(replace(page, notes=[*page.notes, *said]), plans)


def dry_run(
    resolved: Sequence[Resolved], options: Options, *, all_slots: bool = False, concurrency: Sequence[int] = ()
) -> int:
    """Print what a run would do and return the exit code: 0. Raises what `planned` raises."""
    found = run_to_end(planned(resolved, options, concurrency))
    page, plans = found.page, found.plans
    for note in page.notes:
        say(note, err=True)
    if options.as_json:
        out = Ndjson(Lines(), encode)
        for kind, content in plan_records(page, slots_of(plans)):
            out.write(kind, content)
        out.flush()
        return Exit.OK
    shown = list(first_slots_of(plans, SLOTS_SHOWN))
    every = all_slots or len(shown) == page.slots
    for line in plan_lines(page, slots_of(plans) if every else shown, hidden=0 if every else page.slots - len(shown)):
        say(line)
    return Exit.OK


def _check_names(plans: Sequence[RunPlan], options: Options) -> None:
    """Refuse names of a run that the run would refuse. Raises `UsageError`."""
    groups = [group_of(plan.experiment, Path(options.controls.results_dir), options.run_name) for plan in plans]
    if options.run_id is None:
        return
    run_id = checked_run_id(options.run_id)
    for group in groups:
        directory = group / run_id
        if directory.exists():
            raise UsageError(
                f"run id `{run_id}` is taken: `{directory}` exists",
                hint="choose another `--run-id`, or leave it out to use the start time",
            )


def _page(
    resolved: Sequence[Resolved], plans: Sequence[RunPlan], options: Options, concurrency: Sequence[int]
) -> PlanPage:
    controls = options.controls
    schedules = [plan.schedule for plan in plans]
    histories = {plan.experiment.name: history_of(plan, options, len(plans)) for plan in plans}
    limits = limits_of(controls)
    source = controls.concurrency_source
    if len(concurrency) > 1:
        others = ", ".join(f"{number:,}" for number in concurrency[1:])
        source = f"{source}, compared with {others}"
    experiments = [
        planned_experiment(one, plan, histories[plan.experiment.name])
        for one, plan in zip(resolved, plans, strict=True)
    ]
    return PlanPage(
        headline=plan_line(schedules, replace(options, controls=replace(controls, concurrency_source=source))),
        experiments=experiments,
        gates=gates_in_force(
            schedules,
            limits,
            concurrency=concurrency,
            concurrency_source=controls.concurrency_source,
            sources=controls.limit_sources,
            host_sources=controls.host_sources,
        ),
        concurrency_source=controls.concurrency_source,
        decisions=decisions_of(one.decisions for one in experiments),
        predictions=predictions_of(schedules, limits, concurrency, histories),
        notes=_notes(resolved, plans, histories),
    )


def _notes(resolved: Sequence[Resolved], plans: Sequence[RunPlan], histories: Mapping[str, History]) -> list[str]:
    """Return what one should know beside the plan: what the run would warn of, and what is amiss with earlier runs."""
    notes = beforehand(resolved, plans)
    for history in histories.values():
        for remark in history.remarks:
            used = "" if remark.used else "; it is left out of the forecast"
            notes.append(f"note: {printable(str(remark.journal))}: {printable(remark.what)}{used}")
    return list(dict.fromkeys(notes))
