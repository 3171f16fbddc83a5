"""The run that accepting attempts makes: it executes nothing, and is there as a whole or not at all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from proctor.cli.accept_checks import Acceptable
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import run_started, secrets_of
from proctor.cli.run_writer import redacted
from proctor.cli.saved_work import slot_filled
from proctor.core.plan import RunPlan
from proctor.model.events import Completion, Event, RunEnded
from proctor.model.ids import new_id, run_id_of
from proctor.report.summary import summary_of
from proctor.report.summary_html import points_of, summary_html
from proctor.report.view import RunView
from proctor.runtime.clock import utc
from proctor.runtime.redact import Redactor
from proctor.store.codec import encode
from proctor.store.files import write_file
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.store.plan_tags import KEY, rows_by_tag
from proctor.store.results import write_json


class AcceptedRun(NamedTuple):
    """A run that fills slots with accepted attempts, and its summary."""

    layout: RunLayout
    summary: dict[str, Any]


def write_accepted(
    resolved: Resolved,
    run_plan: RunPlan,
    accepted: Sequence[Acceptable],
    *,
    results_dir: Path,
    group: Path,
    run_id: str | None,
    at: float,
) -> AcceptedRun:
    """Write a run in `group` whose slots are filled by attempts, `at` seconds after the epoch.

    The journal comes last and in one step: before it is there, there is no run. Raises `UsageError` for a run id that
    is taken, and `CannotStart` where something cannot be written; then nothing is left behind.
    """
    layout = RunLayout.create(group.parent, group.name, default_id=run_id_of(utc(at)), run_id=run_id)
    with layout.opening():
        rng = random.Random(int.from_bytes(os.urandom(16)))  # noqa: S311 - ids have to differ, not to be secret
        invocation = new_id(rng)
        events = list(_events(run_plan, accepted, results_dir, invocation, layout.run_id))
        view = RunView(run_plan.experiment.name, tags={task.id: task.tags for task in run_plan.tasks if task.tags})
        for event in events:
            view.add(event, at)
        about = {"run": layout.run_id, "invocation": invocation}
        write_plan(layout.plan, _plan_of(run_plan, accepted, about, Redactor(secrets_of([resolved]))))
        directory = str(layout.directory)
        summary = summary_of(view, run=layout.run_id, directory=directory)
        html = summary_html(summary.data, points_of([summary.data]))
        write_json(layout.summary_json, summary.data, durable=True)
        write_file(layout.summary_markdown, summary.markdown.encode(), durable=True)
        write_file(layout.summary_html, html.encode(), durable=True)
        write_file(layout.journal, b"".join(encode(event, at) for event in events), durable=True)
    return AcceptedRun(layout, summary.data)


def _events(
    run_plan: RunPlan, accepted: Sequence[Acceptable], results_dir: Path, invocation: str, run_id: str
) -> Iterator[Event]:
    # Only what is accepted is in it, and as nothing is executed, nothing is left out because of another success.
    yield replace(
        run_started(invocation, run_plan, run_id),
        slots=len(accepted),
        tasks=len({one.place for one in accepted}),
        early_exit=False,
    )
    for one in accepted:
        slot = run_plan.schedule.slot(one.place, one.ordinal)
        yield slot_filled(slot, one.source, results_dir, accepted=True)
    yield RunEnded(run_plan.experiment.name, Completion.COMPLETE)


def _plan_of(run_plan: RunPlan, accepted: Sequence[Acceptable], about: dict[str, Any], redactor: Redactor) -> PlanFile:
    """Return the plan with the slots that are accepted, and no others."""
    slots = [
        PlannedSlot(
            run_plan.tasks[one.place].id,
            one.ordinal,
            one.identity,
            one.changed.kind.value,
            one.changed.reason,
            one.source.attempt_id,
        )
        for one in accepted
    ]
    tasks = [run_plan.tasks[place] for place in dict.fromkeys(one.place for one in accepted)]
    task_parts = {task.id: run_plan.task_parts(task) for task in tasks}
    if tags := rows_by_tag(task.tags for task in tasks):
        about = {**about, KEY: tags}
    return PlanFile(redacted(run_plan.experiment, redactor), slots, run_plan.shared_identity.parts, task_parts, about)
