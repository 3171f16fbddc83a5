"""`proctor plan`: what a run would do, how long it would take and what it would cost; starts and writes nothing."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.commands.run import OWN_FIELDS, options_of, typed_of
from proctor.cli.commands.run import command as run_command
from proctor.cli.displays import plan_line
from proctor.cli.exits import Exit
from proctor.cli.options import COUNT
from proctor.cli.output import Lines, say
from proctor.cli.plan_forecast import (
    decisions_of,
    history_of,
    planned_experiment,
    predictions_of,
    slots_of,
)
from proctor.cli.plan_gates import gates_in_force, limits_of
from proctor.cli.planning import plan_all
from proctor.cli.resolve import Resolved, resolve_experiment
from proctor.cli.rooms import Options
from proctor.cli.saved_work import fill, group_of
from proctor.config.load import split_assignments
from proctor.core.plan import RunPlan
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.plugins.api import Provider
from proctor.report.ndjson import Ndjson
from proctor.report.plan_page import PlanPage
from proctor.report.plan_text import SLOTS_SHOWN, plan_lines, plan_records
from proctor.report.wording import printable
from proctor.store.codec import encode
from proctor.store.history import History
from proctor.store.layout import checked_run_id

SETTINGS_AT_MOST = 20
"""So many settings may be compared in one plan."""


class Counts(click.ParamType[tuple[int, ...]]):
    """Whole numbers of at least 1, with commas between them; a number that comes twice counts once."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        numbers = [COUNT.convert(part.strip(), param, ctx) for part in str(value).split(",")]
        if len(numbers) > SETTINGS_AT_MOST:
            self.fail(f"{len(numbers)} settings are more than the {SETTINGS_AT_MOST} that can be compared", param, ctx)
        return tuple(dict.fromkeys(numbers))


@click.command("plan", cls=Command)
@click.option("--all", "all_slots", is_flag=True, help=f"List every slot (default: the first {SLOTS_SHOWN}).")
def command(
    benchmark: str,
    harness: str,
    model: str | None,
    *,
    all_slots: bool,
    task_concurrency: tuple[int, ...] | None,
    fail_under: float | None,
    **given: Any,
) -> int:
    """Say what `run` would do with BENCHMARK, HARNESS and MODEL: every slot, the limits, expected time and cost.

    Takes the options of `run`. Starts nothing and writes nothing.
    """
    name = "/".join(filter(None, [benchmark, harness, model]))
    given["task_concurrency"] = task_concurrency[0] if task_concurrency else None
    typed = typed_of(given, benchmark, harness, model, **{field: given[field] for field in OWN_FIELDS})
    resolved = [resolve_experiment(typed, name)]
    options = options_of(given, resolved, fail_under=fail_under)
    plans = asyncio.run(_plan(resolved, options))
    _check_names(plans, options)
    page = _page(resolved, plans, options, task_concurrency or (options.controls.task_concurrency,), given)
    for note in page.notes:
        say(note, err=True)
    if options.as_json:
        out = Ndjson(Lines(), encode)
        for kind, content in plan_records(page, slots_of(plans)):
            out.write(kind, content)
        out.flush()
        return Exit.OK
    shown = page.slots if all_slots else SLOTS_SHOWN
    lines = plan_lines(page, islice(slots_of(plans), shown), hidden=max(0, page.slots - shown))
    for line in lines:
        say(line)
    return Exit.OK


def _params() -> list[click.Parameter]:
    """Return the parameters of `run`, with those in their place that mean more or other things here, and our own."""
    ours = {
        "task_concurrency": click.Option(
            ["--task-concurrency", "--max-concurrency"],
            type=Counts(),
            metavar="N,...",
            help="Attempts executing at once, over everything (default: 32). Several compare the expected wall times.",
        ),
        "as_json": click.Option(
            ["--json", "as_json"],
            is_flag=True,
            help="Write the plan, every slot and the forecasts to standard output, as NDJSON.",
        ),
    }
    return [ours.get(param.name or "", param) for param in run_command.params] + command.params


command.params = _params()


async def _plan(resolved: Sequence[Resolved], options: Options) -> list[RunPlan]:
    try:
        return [plan for plan, _ in fill(await plan_all(resolved, options), options, look=True)]
    finally:
        for one in resolved:
            if one.model is not None:
                await one.model.close()


def _check_names(plans: Sequence[RunPlan], options: Options) -> None:
    """Refuse names of a run that `run` would refuse. Raises `UsageError`."""
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
    resolved: Sequence[Resolved],
    plans: Sequence[RunPlan],
    options: Options,
    concurrency: Sequence[int],
    given: Mapping[str, Any],
) -> PlanPage:
    controls = options.controls
    schedules = [plan.schedule for plan in plans]
    histories = {plan.experiment.name: history_of(plan, options) for plan in plans}
    limits = limits_of(controls)
    source = controls.concurrency_source
    if len(concurrency) > 1:
        others = ", ".join(f"{number:,}" for number in concurrency[1:])
        source = f"{source}, compared with {others}"
    return PlanPage(
        headline=plan_line(schedules, replace(options, controls=replace(controls, concurrency_source=source))),
        experiments=[
            planned_experiment(one, plan, histories[plan.experiment.name])
            for one, plan in zip(resolved, plans, strict=True)
        ],
        gates=gates_in_force(
            schedules,
            limits,
            concurrency=concurrency,
            concurrency_source=controls.concurrency_source,
            sources=_sources([one.provider for one in resolved], given),
        ),
        concurrency_source=controls.concurrency_source,
        decisions=decisions_of(plans),
        predictions=predictions_of(schedules, limits, concurrency, histories),
        notes=_notes(resolved, plans, histories),
    )


def _sources(providers: Sequence[Provider], given: Mapping[str, Any]) -> dict[str, str]:
    """Return where the limit of each provider comes from."""
    _, sections = split_assignments(given["assignments"])
    sources = {provider.name: "default" for provider in providers}
    sources |= dict.fromkeys(sections["runtime"].get("provider_limits", {}), "from --set")
    sources |= {name: "from flag" for name, _ in given["provider_limit"]}
    return sources


def _notes(resolved: Sequence[Resolved], plans: Sequence[RunPlan], histories: Mapping[str, History]) -> list[str]:
    """Return what one should know beside the plan: what `run` would warn of, and what is amiss with earlier runs."""
    notes: list[str] = []
    for one, plan in zip(resolved, plans, strict=True):
        opens = any(plan.schedule.agent_sandbox) or plan.schedule.grading is GradingMode.FRESH
        if one.provider.warning and opens:
            notes.append(f"warning: {one.provider.warning}")
        notes += [f"note: {text}" for text in one.notes]
    for history in histories.values():
        for remark in history.remarks:
            used = "" if remark.used else "; it is left out of the forecast"
            notes.append(f"note: {printable(str(remark.journal))}: {printable(remark.what)}{used}")
    return list(dict.fromkeys(notes))
