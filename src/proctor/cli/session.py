"""One invocation from resolved experiments to an exit code: plan, open the runs, run the loop, sum up."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from proctor.cli.displays import Displays
from proctor.cli.exits import Exit
from proctor.cli.experiment_hooks import ExperimentHooks
from proctor.cli.interrupts import Interrupts
from proctor.cli.leftovers import missing_lines, sandbox_lines
from proctor.cli.outcome import Outcome, exit_code
from proctor.cli.plan_gates import limits_of
from proctor.cli.planning import plan_all
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options, Room, hooks_of, job_of, labels_of, run_started, secrets_of
from proctor.cli.run_logs import OfInvocation, logging_of
from proctor.cli.run_writer import RunWriter
from proctor.cli.saved_work import Filled, Sources, fill, slots_filled
from proctor.core.plan import RunPlan
from proctor.core.scheduler import Scheduler
from proctor.errors import InternalError, StoreError, boundary, describe
from proctor.model.attempt import GradingMode, Phase
from proctor.model.ids import new_id, run_id_of
from proctor.runtime.clock import SystemClock, utc
from proctor.runtime.hurry import COURTESY_SECONDS
from proctor.runtime.loop import Loop
from proctor.runtime.redact import Redactor
from proctor.runtime.sandbox_ledger import SandboxLedger
from proctor.runtime.shield import shielded
from proctor.runtime.watchdog import watching
from proctor.store.coordination import coordination_path, project_directory
from proctor.store.lease_info import LeaseWait
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner
from proctor.store.record_publisher import RecordPublisher

ATTEMPT_FILES_AT_MOST = 10_000
"""Above this many attempts result.json files are left out by themselves (spec 08 D8)."""

CLOSE_SECONDS = 60.0
"""How long a model or a provider may take to close what it shares between attempts."""

log = logging.getLogger(__name__)


class _Invocation:
    """What all runs of one invocation share."""

    def __init__(self, resolved: Sequence[Resolved], options: Options, interrupts: Interrupts) -> None:
        self.resolved = resolved
        self.options = options
        self.interrupts = interrupts
        self.clock = SystemClock()
        self.redactor = Redactor(secrets_of(resolved))
        self.rng = random.Random(int.from_bytes(os.urandom(16)))  # noqa: S311 - ids have to differ, not to be secret
        self.id = new_id(self.rng)
        self.record = RecordPublisher(Path(options.controls.results_dir), options.controls.record_url, tell=log.warning)
        self.sandboxes = SandboxLedger()
        self.rooms: dict[str, Room] = {}
        interrupts.lines = lambda: sandbox_lines(self.sandboxes.left, self.rooms)

    def open_rooms(self, plans: Sequence[Filled], open_runs: ExitStack, *, attempt_files: bool) -> None:
        """Make the run directories of all experiments, or of none; from then on the record follows them."""
        open_runs.callback(self.record.close)  # after the writers are closed
        for one, (run_plan, saved) in zip(self.resolved, plans, strict=True):
            try:
                room = self._open_room(one, run_plan, saved, attempt_files=attempt_files)
            except BaseException:
                for opened in self.rooms.values():
                    opened.writer.discard()
                raise
            open_runs.callback(room.writer.close)
            self.rooms[run_plan.experiment.name] = room
            log.info("run %s of %s: %d slots", room.writer.run_id, run_plan.experiment.name, len(run_plan))
        self.record.start()

    def _open_room(self, one: Resolved, run_plan: RunPlan, saved: Sources, *, attempt_files: bool) -> Room:
        """Make the run directory of an experiment."""
        at = self.clock.wall()
        started = run_started(self.id, run_plan, run_id_of(utc(at)))
        filled = slots_filled(run_plan, saved, Path(self.options.controls.results_dir))
        writer = RunWriter.create(
            run_plan,
            self.options,
            started,
            at,
            attempt_files=attempt_files,
            redactor=self.redactor,
            filled=filled,
        )
        writer.published = self.record.publish
        writer.handler.addFilter(OfInvocation(self.id))
        tasks = {task.id: index for index, task in enumerate(run_plan.tasks)}
        labels = labels_of(self.id, writer.run_id, run_plan.experiment.name)
        return Room(one, run_plan, tasks, writer, labels, saved)

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

    async def run(self, notes: Sequence[str]) -> Outcome:
        """Run everything to its end, show it, sum it up and close what is shared.

        A bug of ours ends it as well: then what is known is summed up all the same, and `Outcome.bug` says so.
        """
        rooms, writers = self.rooms, {name: room.writer for name, room in self.rooms.items()}
        schedules = [room.plan.schedule for room in rooms.values()]
        displays = Displays(self.options, writers, self.clock, own_streams=self.interrupts.owns_process)
        displays.plan(schedules, notes)
        displays.show([(name, *event) for name, writer in writers.items() for event in writer.opening])
        outcome = Outcome(displays.views, writers, Exit.OK)
        loop = asyncio.get_running_loop()
        beats = loop.create_task(displays.beat_forever())
        limit = self.options.controls.timeout_seconds
        timer = None if limit is None else loop.call_later(limit, self.interrupts.time_is_over, limit)
        try:
            try:
                outcome.store_error = await self._run_loop(displays)
            except Exception as error:
                log.exception("a bug of proctor")
                outcome.bug = error
            finally:
                if timer is not None:
                    timer.cancel()
                self.interrupts.detach()
                beats.cancel()
                await asyncio.wait({beats})
            displays.settle(outcome)
            outcome.exit = exit_code(outcome, self.options.fail_under)
            displays.end(outcome, self.id, self._last_lines(outcome))
        finally:
            await self._close_shared(displays)
        await displays.close(outcome, self.interrupts.unread_seconds)
        return outcome

    async def _run_loop(self, displays: Displays) -> StoreError | None:
        """Run the loop to its end; return the error that kept results from being written, if there was one."""
        rooms = self.rooms
        hooks = self.hooks(rooms, displays.note)
        loop = Loop(
            scheduler=Scheduler(
                [room.plan.schedule for room in rooms.values()],
                limits_of(self.options.controls),
                lambda: new_id(self.rng),
                jitter=self.rng.random,
            ),
            prepare=lambda command: job_of(rooms[command.slot.experiment], command, hooks.lanes),
            runs={name: room.writer for name, room in rooms.items()},
            show=displays.show,
            clock=self.clock,
            redactor=self.redactor,
            hooks=hooks,
            grace_seconds=self.options.controls.cleanup_grace_seconds,
        )
        self.sandboxes = loop.sandboxes
        self.interrupts.attach(loop)
        await loop.run()
        return loop.store_error

    def _last_lines(self, outcome: Outcome) -> list[str]:
        """Return what has to be done by hand: what is missing, what may be left behind."""
        lines = sandbox_lines(self.sandboxes.left, self.rooms)
        if self.interrupts.asked and outcome.bug is None and outcome.store_error is None:
            lines += missing_lines(outcome.views, self.rooms, self.redactor)
        return lines

    async def _close_shared(self, displays: Displays) -> None:
        """Close models and providers; whatever they do, they hold the end no longer than their limit."""
        limit = CLOSE_SECONDS
        if self.interrupts.asked:
            limit = min(limit, self.options.controls.cleanup_grace_seconds)
        for one in self.resolved:
            closing: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
            if one.model is not None:
                closing.append((f"model {one.model.spec.id}", one.model.close))
            closing.append((f"provider {one.provider.name}", one.provider.finalize))
            for what, close in closing:
                try:
                    await shielded(_guarded(close), limit, self.interrupts.hurry, COURTESY_SECONDS)
                except Exception as error:
                    displays.note(f"{what} could not be closed: {describe(error)}")


async def _guarded(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with boundary(Phase.DISPOSE):
        await close()


async def execute(resolved: Sequence[Resolved], options: Options, interrupts: Interrupts | None = None) -> Outcome:
    """Run experiments to their end and return how they ended.

    Without `interrupts` the process is proctor's own, and its signals are taken. Raises `UsageError` or `NothingToRun`
    before anything is started, `StoreError` when a run cannot be made, `InternalError` for a bug of ours.
    """
    plans = await plan_all(resolved, options)
    if interrupts is None:
        on_main_thread = threading.current_thread() is threading.main_thread()
        interrupts = Interrupts(signals=on_main_thread, owns_process=True)
    invocation = _Invocation(resolved, options, interrupts)
    few = sum(len(one) for one in plans) <= ATTEMPT_FILES_AT_MOST
    filled = fill(plans, options)
    plans = [run_plan for run_plan, _ in filled]
    with watching(asyncio.get_running_loop()), interrupts.taken(), logging_of(invocation.id), ExitStack() as open_runs:
        try:
            invocation.open_rooms(filled, open_runs, attempt_files=options.attempt_files and few)
            outcome = await invocation.run(_notes(resolved, plans, options, few=few))
        finally:
            interrupts.end()
        log.info("ended: exit code %d (%s)", outcome.exit, outcome.exit.meaning)
        if outcome.bug is not None:
            where = ", ".join(str(room.writer.directory) for room in invocation.rooms.values())
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
