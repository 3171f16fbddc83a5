"""What belongs to one experiment of an invocation: plugins, plan, the run on disk, and the jobs made of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proctor import __version__
from proctor.cli.controls import Controls
from proctor.cli.experiment_hooks import Hooks
from proctor.cli.resolve import Resolved
from proctor.cli.run_writer import RunWriter
from proctor.core.commands import StartTry
from proctor.core.plan import RunPlan
from proctor.errors import Fault, StoreError
from proctor.model.events import RunStarted
from proctor.model.secrets import secrets_in
from proctor.runtime.job import Save, TryJob
from proctor.runtime.lanes import Lane
from proctor.store.codec import FORMAT_VERSION
from proctor.store.lease_info import Teardown
from proctor.store.plain import NotEncodable


@dataclass(frozen=True, slots=True)
class Options:
    """What a command asks of a session, beside the experiments themselves."""

    controls: Controls
    task_ids: tuple[str, ...] = ()
    limit: int | None = None
    run_name: str | None = None
    run_id: str | None = None
    progress: str = "auto"
    as_json: bool = False
    attempt_files: bool = True
    file_log_level: str = "DEBUG"
    fail_under: float | None = None


@dataclass(slots=True)
class Room:
    """An experiment with everything that belongs to its run."""

    resolved: Resolved
    plan: RunPlan
    tasks: dict[str, int]
    writer: RunWriter
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def run_started(invocation: str, run_plan: RunPlan, run_id: str) -> RunStarted:
    """Return the first event of a run."""
    return RunStarted(
        format=FORMAT_VERSION,
        invocation=invocation,
        run=run_id,
        experiment=run_plan.experiment.name,
        proctor=__version__,
        host=socket.gethostname(),
        pid=os.getpid(),
        slots=len(run_plan),
        tasks=len(run_plan.tasks),
        early_exit=run_plan.experiment.early_exit,
    )


def labels_of(invocation: str, run_id: str, experiment: str) -> dict[str, str]:
    """Return what every sandbox of a run is labelled with (spec 06 V1)."""
    return {
        "proctor": __version__,
        "invocation": invocation,
        "run": run_id,
        "experiment": experiment,
        "owner_host": socket.gethostname(),
        "owner_pid": str(os.getpid()),
    }


def job_of(room: Room, command: StartTry, lanes: Mapping[str, Lane]) -> tuple[TryJob, Save]:
    """Return what a try needs, and where it keeps its evidence."""
    resolved, schedule = room.resolved, room.plan.schedule
    index = room.tasks[command.slot.task]
    task = room.plan.tasks[index]
    experiment = resolved.experiment
    job = TryJob(
        attempt=command.attempt,
        try_number=command.try_number,
        task=task,
        benchmark=resolved.benchmark,
        harness=resolved.harness,
        grader=resolved.grader(task),
        grading=experiment.grading,
        provider=resolved.provider,
        environment=task.environment or experiment.environment,
        agent_sandbox=schedule.agent_sandbox[index],
        limits=experiment.limits,
        model=resolved.model,
        flags=experiment.flags,
        labels=room.labels,
        retry=schedule.retry,
        lane=lanes[command.lane] if command.lane is not None else None,
    )

    def save(name: str, content: Any) -> None:
        try:
            room.writer.save(command.slot, command.try_number, name, content)
        except NotEncodable as error:  # the plugin's doing: this attempt's trouble, not the disk's
            raise Fault("harness.crashed", f"{name} cannot be kept: {error.message}") from error
        except StoreError as error:
            raise Fault("store.full", error.message) from error

    return job, save


def hooks_of(room: Room) -> Hooks:
    """Return the hooks of an experiment. Raises `UsageError` for a path that names no function."""
    experiment = room.resolved.experiment
    return Hooks(
        setup=Teardown(experiment.setup) if experiment.setup else None,
        teardown=Teardown(experiment.teardown) if experiment.teardown else None,
        run=room.writer.run_id,
        dispose_seconds=experiment.limits.dispose_seconds,
    )


def secrets_of(resolved: Sequence[Resolved]) -> Iterator[str | None]:
    """Yield every value that must not be written: keys of models, and what stands under the name of a secret."""
    yield from secrets_in(os.environ)
    for one in resolved:
        experiment = one.experiment
        for tree in (
            experiment.environment.env,
            experiment.harness.params,
            experiment.benchmark.params,
            experiment.flags,
        ):
            yield from secrets_in(tree)
        if experiment.model is not None:
            yield experiment.model.api_key
            yield from secrets_in(experiment.model.params)
