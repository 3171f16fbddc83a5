"""One invocation from resolved experiments to an exit code: plan, open the runs, run the loop, sum up."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from proctor.cli.displays import Displays
from proctor.cli.exits import Exit, exit_of_signal
from proctor.cli.experiment_hooks import ExperimentHooks
from proctor.cli.outcome import Outcome, exit_code
from proctor.cli.output import say
from proctor.cli.plan_gates import limits_of
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options, Room, hooks_of, job_of, labels_of, run_started, secrets_of
from proctor.cli.run_writer import RunWriter, experiment_dir_of
from proctor.core.plan import PlannedInput, PluginFacts, RunPlan, plan, select
from proctor.core.scheduler import Scheduler
from proctor.errors import InternalError, NothingToRun, PluginLoadError, StoreError, UsageError, describe
from proctor.model.attempt import GradingMode
from proctor.model.events import Interrupted
from proctor.model.ids import new_id, run_id_of
from proctor.model.spec import Experiment, Task
from proctor.runtime.clock import SystemClock, utc
from proctor.runtime.loop import Loop
from proctor.runtime.redact import Redactor
from proctor.runtime.signals import on_signals
from proctor.store.coordination import coordination_path, project_directory
from proctor.store.history import read_history
from proctor.store.lease_info import LeaseWait
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner

ATTEMPT_FILES_AT_MOST = 10_000
"""Above this many attempts result.json files are left out by themselves (spec 08 D8)."""

HISTORY_RUNS = 3
HISTORY_BYTES = 4 * 1024 * 1024
"""So much of earlier journals is read at the start of a run, to know which attempts are long: under 0.1 s."""

log = logging.getLogger(__name__)


async def plan_all(resolved: Sequence[Resolved], options: Options) -> list[RunPlan]:
    """Read the tasks, choose among them and plan every experiment. Raises `UsageError` or `NothingToRun`."""
    inputs: list[PlannedInput] = []
    for one in resolved:
        tasks = select(
            await _tasks_of(one),
            benchmark=one.experiment.benchmark.id,
            ids=options.task_ids or None,
            limit=options.limit,
        )
        one.make_graders(tasks)
        facts = PluginFacts(
            benchmark_version=one.benchmark.version,
            harness_version=one.harness.version,
            harness_name=one.harness.name,
            grader_versions={task.grader.id: one.grader(task).version for task in tasks},
            benchmark_isolated=one.benchmark.isolated_attempts,
            harness_isolated=one.harness.isolated_attempts,
            harness_needs_sandbox=one.harness.needs_sandbox,
        )
        inputs.append(PlannedInput(one.experiment, tasks, facts, _expected(one.experiment, tasks, options)))
    return plan(inputs)


def _expected(experiment: Experiment, tasks: Sequence[Task], options: Options) -> Sequence[float | None]:
    """Return how long attempts of each task took in the newest runs of this experiment, for the order of starts."""
    history = read_history(
        Path(options.controls.results_dir),
        experiment_dir_of(experiment),
        run_name=options.run_name,
        runs_at_most=HISTORY_RUNS,
        bytes_at_most=HISTORY_BYTES,
    )
    return history.expected_seconds([task.id for task in tasks])


async def _tasks_of(one: Resolved) -> list[Task]:
    """Return the tasks of a benchmark; whatever it raises is said as its trouble. Raises `UsageError`."""
    try:
        return list(await one.benchmark.tasks())
    except (UsageError, NothingToRun):
        raise
    except Exception as error:
        name = one.experiment.benchmark.id
        raise PluginLoadError(
            f"benchmark `{name}` cannot tell its tasks: {describe(error)}",
            hint="the benchmark, or its data, is at fault",
        ) from error


class _Invocation:
    """What all runs of one invocation share."""

    def __init__(self, resolved: Sequence[Resolved], options: Options) -> None:
        self.resolved = resolved
        self.options = options
        self.clock = SystemClock()
        self.redactor = Redactor(secrets_of(resolved))
        self.rng = random.Random(int.from_bytes(os.urandom(16)))  # noqa: S311 - ids have to differ, not to be secret
        self.id = new_id(self.rng)
        self._loop: Loop | None = None
        self._signal: int | None = None

    def interrupt(self, number: int) -> None:
        """Take the first signal; one that comes before the loop is there is handed to it when it starts."""
        self._signal = number
        if self._loop is not None:
            self._loop.emit(Interrupted(number))

    def open_room(self, one: Resolved, run_plan: RunPlan, *, attempt_files: bool) -> Room:
        """Make the run directory of an experiment."""
        at = self.clock.wall()
        started = run_started(self.id, run_plan, run_id_of(utc(at)))
        writer = RunWriter.create(
            run_plan, self.options, started, at, attempt_files=attempt_files, redactor=self.redactor
        )
        tasks = {task.id: index for index, task in enumerate(run_plan.tasks)}
        return Room(one, run_plan, tasks, writer, labels_of(self.id, writer.run_id, run_plan.experiment.name))

    def hooks(self, rooms: Mapping[str, Room], tell: Callable[[str], None]) -> ExperimentHooks:
        """Return what carries out setup, teardown and leases."""
        project = project_directory(Path.cwd())
        limit = self.options.controls.lease_wait_seconds
        return ExperimentHooks(
            {name: hooks_of(room) for name, room in rooms.items()},
            leases=Leases(coordination_path(project), this_owner(), self.clock),
            teardowns=OwedTeardowns(coordination_path(project), this_owner(), self.clock),
            project=project,
            wait=LeaseWait(limit) if limit else LeaseWait.default(on_terminal=sys.stderr.isatty()),
            clock=self.clock,
            tell=tell,
        )

    async def drive(self, rooms: Mapping[str, Room], notes: Sequence[str]) -> Outcome:
        """Run everything to its end, show it and sum it up.

        A bug of ours ends it as well: then what is known is summed up all the same, and `Outcome.bug` says so.
        """
        options, writers = self.options, {name: room.writer for name, room in rooms.items()}
        schedules = [room.plan.schedule for room in rooms.values()]
        displays = Displays(options, writers, self.clock)
        displays.plan(schedules, notes)
        displays.show([(name, *writer.started) for name, writer in writers.items()])
        outcome = Outcome(displays.views, writers, Exit.OK)
        beats = asyncio.get_running_loop().create_task(displays.beat_forever())
        try:
            outcome.store_error = await self._run_loop(rooms, displays)
        except Exception as error:
            log.exception("a bug of proctor")
            outcome.bug = error
        finally:
            beats.cancel()
            await asyncio.wait({beats})
        displays.settle(outcome)
        outcome.exit = exit_code(outcome, options.fail_under)
        displays.end(outcome, self.id)
        return outcome

    async def _run_loop(self, rooms: Mapping[str, Room], displays: Displays) -> StoreError | None:
        """Run the loop to its end; return the error that kept results from being written, if there was one."""
        limits = limits_of(self.options.controls)
        schedules = [room.plan.schedule for room in rooms.values()]
        hooks = self.hooks(rooms, displays.note)
        loop = self._loop = Loop(
            scheduler=Scheduler(schedules, limits, lambda: new_id(self.rng), jitter=self.rng.random),
            prepare=lambda command: job_of(rooms[command.slot.experiment], command, hooks.lanes),
            runs={name: room.writer for name, room in rooms.items()},
            show=displays.show,
            clock=self.clock,
            redactor=self.redactor,
            hooks=hooks,
        )
        if self._signal is not None:
            loop.emit(Interrupted(self._signal))
        await loop.run()
        return loop.store_error


async def execute(resolved: Sequence[Resolved], options: Options) -> Outcome:
    """Run experiments to their end and return how they ended.

    Raises `UsageError` or `NothingToRun` before anything is started, `StoreError` when a run cannot be made,
    `InternalError` for a bug of ours.
    """
    plans = await plan_all(resolved, options)
    invocation = _Invocation(resolved, options)
    few = sum(len(one) for one in plans) <= ATTEMPT_FILES_AT_MOST
    rooms: dict[str, Room] = {}
    with on_signals(invocation.interrupt, _leave_at_once), ExitStack() as open_runs:
        logging.getLogger("proctor").setLevel(logging.DEBUG)
        for one, run_plan in zip(resolved, plans, strict=True):
            try:
                room = invocation.open_room(one, run_plan, attempt_files=options.attempt_files and few)
            except BaseException:
                for opened in rooms.values():
                    opened.writer.discard()
                raise
            open_runs.callback(room.writer.close)
            rooms[run_plan.experiment.name] = room
            log.info("run %s of %s: %d slots", room.writer.run_id, run_plan.experiment.name, len(run_plan))
        try:
            outcome = await invocation.drive(rooms, _notes(resolved, plans, options, few=few))
        finally:
            for one in resolved:
                if one.model is not None:
                    await one.model.close()
                await one.provider.finalize()
        log.info("ended: exit code %d (%s)", outcome.exit, outcome.exit.meaning)
        if outcome.bug is not None:
            where = ", ".join(str(room.writer.directory) for room in rooms.values())
            raise InternalError(describe(outcome.bug), hint=f"please report it, and keep {where}") from outcome.bug
        return outcome


def _notes(resolved: Sequence[Resolved], plans: Sequence[RunPlan], options: Options, *, few: bool) -> list[str]:
    """Return what the user should know before it starts."""
    warnings = [
        one.provider.warning for one, run_plan in zip(resolved, plans, strict=True) if _opens_sandboxes(run_plan)
    ]
    notes = [f"warning: {text}" for text in dict.fromkeys(warnings) if text]
    notes += [f"note: {text}" for text in dict.fromkeys(text for one in resolved for text in one.notes)]
    if options.attempt_files and not few:
        notes.append("note: no result.json per attempt: there are too many; `proctor show` reads the journal")
    return notes


def _opens_sandboxes(run_plan: RunPlan) -> bool:
    return any(run_plan.schedule.agent_sandbox) or run_plan.experiment.grading is GradingMode.FRESH


def _leave_at_once(number: int) -> None:
    """A second signal: the journal is intact at every moment, and supervisors end what their runner leaves behind."""
    say("error: left at once, without cleaning up; what is finished is kept", err=True)
    os._exit(exit_of_signal(number))
