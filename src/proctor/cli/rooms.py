"""What belongs to one experiment of an invocation: plugins, plan, the run on disk, and the jobs made of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proctor import __version__
from proctor.cli.resolve import Controls, Resolved
from proctor.cli.run_writer import RunWriter
from proctor.core.commands import StartTry
from proctor.core.plan import RunPlan
from proctor.errors import Fault, StoreError
from proctor.model.events import RunStarted
from proctor.runtime.redact import secrets_in
from proctor.runtime.try_runner import Save, TryJob
from proctor.store.codec import FORMAT_VERSION
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


def job_of(room: Room, command: StartTry) -> tuple[TryJob, Save]:
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
    )

    def save(name: str, content: Any) -> None:
        try:
            room.writer.save(command.slot, command.try_number, name, content)
        except NotEncodable as error:  # the plugin's doing: this attempt's trouble, not the disk's
            raise Fault("harness.crashed", f"{name} cannot be kept: {error.message}") from error
        except StoreError as error:
            raise Fault("store.full", error.message) from error

    return job, save


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
