"""What belongs to one experiment of an invocation: plugins, plan, the run on disk, and the jobs made of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from proctor import __version__
from proctor.cli.controls import Controls
from proctor.cli.experiment_hooks import Hooks
from proctor.cli.model_limits import endpoints_of
from proctor.cli.proxy import proxy_credentials, with_proxy
from proctor.cli.resolve import Resolved
from proctor.cli.run_writer import RunWriter
from proctor.cli.sandbox_hooks import sandbox_hooks
from proctor.cli.saved_attempt import checkpoint_in
from proctor.cli.saved_work import Reusing
from proctor.core.aggregate import Missing
from proctor.core.commands import StartTry
from proctor.core.environments import as_graded, environment_of
from proctor.core.plan import RunPlan
from proctor.core.task_limits import limits_of
from proctor.errors import InternalError
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import Event, RunStarted
from proctor.model.secrets import secrets_in
from proctor.model.spec import Task
from proctor.runtime.images import Images
from proctor.runtime.job import Checkpoint, Keep, Save, TryJob
from proctor.runtime.lanes import Lane
from proctor.runtime.pricing import Price, unpriced
from proctor.store.codec import FORMAT_VERSION

if TYPE_CHECKING:
    from proctor.store.record import Candidate


class Follower(Protocol):
    """Is shown what happens; what it raises ends the showing, not the run."""

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Take an event that is on disk."""
        ...

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """Take what is no event: the plan, the receipt."""
        ...

    def flush(self) -> None:
        """Know that nothing more comes for now."""
        ...


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
    log_level: str = "INFO"
    file_log_level: str = "DEBUG"
    fail_under: float | None = None
    missing: Missing | None = None
    """What the rate of a run makes of slots without a score."""
    junit: Path | None = None
    """Where results go as JUnit XML, too."""
    reusing: Reusing | None = None
    """What may be taken from earlier runs; None is nothing."""
    own_reusing: Mapping[str, Reusing | None] = field(default_factory=dict[str, "Reusing | None"])
    """What experiments say of that themselves, by name."""
    tags: tuple[str, ...] = ()
    """Only tasks, and experiments, that have one of them; empty is all."""
    follower: Follower | None = None
    """Gets what `--json` writes, as it comes."""

    def reusing_of(self, experiment: str) -> Reusing | None:
        """Return what may be taken from earlier runs of an experiment."""
        return self.own_reusing.get(experiment, self.reusing)


@dataclass(slots=True)
class Room:
    """An experiment with everything that belongs to its run."""

    resolved: Resolved
    plan: RunPlan
    tasks: dict[str, int]
    writer: RunWriter
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    keep: Keep | None = None
    """Of which tries the sandboxes are kept."""
    images: Images | None = None
    """What makes images ready, shared by the invocation; there once it runs."""
    price: Price = unpriced
    """Says what calls cost, and once in the run of each model of which nobody knows that."""
    saved: Mapping[tuple[int, int], Candidate] = field(default_factory=dict[tuple[int, int], "Candidate"])
    """The saved attempts that slots (place of the task, ordinal) are filled or graded from."""


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


def environment_in(room: Room, task: Task) -> EnvironmentSpec:
    """Return the environment in which a task is worked on, with the proxy variables of this process if wanted."""
    environment = environment_of(task, room.resolved.experiment.environment)
    return with_proxy(environment, os.environ) if environment.proxy else environment


def job_of(room: Room, command: StartTry, lanes: Mapping[str, Lane]) -> tuple[TryJob, Save]:
    """Return what a try needs, and what keeps its evidence."""
    resolved, schedule = room.resolved, room.plan.schedule
    index = room.tasks[command.slot.task]
    task = room.plan.tasks[index]
    experiment = resolved.experiment
    folder = room.writer.folder(command.slot, command.try_number)
    job = TryJob(
        attempt=command.attempt,
        try_number=command.try_number,
        task=task,
        benchmark=resolved.benchmark,
        harness=resolved.harness,
        grader=resolved.grader(task),
        grading=experiment.grading,
        provider=resolved.provider,
        environment=environment_in(room, task),
        grade_environment=None if task.grade_environment is None else environment_in(room, as_graded(task)),
        agent_sandbox=schedule.agent_sandbox[index],
        limits=limits_of(task, experiment.limits),
        model=resolved.model,
        judge=resolved.judge,
        flags=experiment.flags,
        labels=room.labels,
        retry=schedule.retry,
        lane=lanes[command.lane] if command.lane is not None else None,
        log_level=room.writer.handler.level,
        artifacts=task.artifacts + experiment.artifacts,
        folder=folder,
        checkpoint=_checkpoint_of(room, command) if command.grading_only else None,
        sandbox_hooks=sandbox_hooks(resolved, task),
        images=room.images,
        price=room.price,
        keep=room.keep,
    )
    return job, folder.save


def _checkpoint_of(room: Room, command: StartTry) -> Checkpoint:
    """Return the newest checkpoint of an attempt; whether its files are as they were is found out when it is read."""
    found = room.writer.saved_work(command.attempt)
    earlier = room.saved.get((room.tasks[command.slot.task], command.slot.ordinal))
    if found is None and earlier is not None:
        return checkpoint_in(earlier)
    if found is None:
        raise InternalError(f"attempt @{command.attempt} is only to be graded, and nothing of it was saved")
    directory = room.writer.folder(command.slot, found.try_number).directory
    return Checkpoint(directory, found.answer_sha256, found.files, found.issues)


def hooks_of(room: Room) -> Hooks:
    """Return the hooks of an experiment. Raises `UsageError` for a path that names no function."""
    experiment = room.resolved.experiment
    return Hooks(
        setup=room.resolved.hooks.setup,
        teardown=room.resolved.hooks.teardown,
        run=room.writer.run_id,
        dispose_seconds=experiment.limits.dispose_seconds,
    )


def secrets_of(resolved: Sequence[Resolved]) -> Iterator[str | None]:
    """Yield every value that must not be written: keys of models, and what stands under the name of a secret."""
    yield from secrets_in(os.environ)
    yield from proxy_credentials(os.environ)
    for one in resolved:
        yield from one.secrets
        experiment = one.experiment
        for tree in (
            experiment.environment.env,
            experiment.harness.params,
            experiment.benchmark.params,
            experiment.flags,
        ):
            yield from secrets_in(tree)
        for model in endpoints_of(experiment):
            yield model.api_key
            yield from secrets_in(model.params)
