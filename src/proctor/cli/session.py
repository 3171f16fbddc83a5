"""One invocation from resolved experiments to an exit code: plan, open the runs, run the loop, sum up."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from proctor.cli.closing import ClosingOnce
from proctor.cli.displays import Displays
from proctor.cli.estimating import Estimator
from proctor.cli.exits import Exit
from proctor.cli.expected_durations import Histories
from proctor.cli.experiment_hooks import ExperimentHooks
from proctor.cli.image_making import ImageMaking
from proctor.cli.interrupts import Interrupts
from proctor.cli.leftovers import kept_lines, missing_lines, sandbox_lines
from proctor.cli.opening import Opening
from proctor.cli.orphans import before_a_run
from proctor.cli.outcome import Outcome, exit_code
from proctor.cli.plan_gates import limits_of
from proctor.cli.planning import plan_all
from proctor.cli.printed import printed_lines
from proctor.cli.progress_writer import ProgressWriter
from proctor.cli.proxy import proxy_note
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options, Room, hooks_of, job_of, secrets_of
from proctor.cli.run_logs import console_of, logging_of
from proctor.cli.saved_work import Filled, fill
from proctor.cli.starting import ready_to_start
from proctor.core.scheduler import Scheduler
from proctor.errors import InternalError, StoreError, describe
from proctor.model.ids import new_id
from proctor.model.project import project_directory
from proctor.runtime.clock import SystemClock
from proctor.runtime.log_scope import SHOWN
from proctor.runtime.loop import Loop
from proctor.runtime.publisher import Shown
from proctor.runtime.redact import Redactor
from proctor.runtime.running import together
from proctor.runtime.sandbox_ledger import SandboxLedger
from proctor.runtime.watchdog import watching
from proctor.store.coordination import coordination_path
from proctor.store.lease_info import LeaseWait
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner
from proctor.store.record_publisher import RecordPublisher

ATTEMPT_FILES_AT_MOST = 10_000
"""Above this many attempts result.json files are left out by themselves (spec 08 D8)."""

log = logging.getLogger(__name__)


class _Invocation:
    """What all runs of one invocation share."""

    def __init__(
        self, resolved: Sequence[Resolved], options: Options, interrupts: Interrupts, closing: ClosingOnce
    ) -> None:
        self.resolved = resolved
        self.options = options
        self.interrupts = interrupts
        self.closing = closing
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
        opening = Opening(self.id, self.clock.wall(), self.options, self.redactor, self.record.publish)
        planned = list(zip(self.resolved, plans, strict=True))
        self.rooms.update(opening.rooms(planned, attempt_files=attempt_files))
        for name, room in self.rooms.items():
            open_runs.callback(room.writer.close)
            # Into its own log alone: among many runs the logs of all would be mostly about the others.
            room.writer.log(f"run {room.writer.run_id} of {name}: {len(room.plan)} slots")
        self.record.start()

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
            redact=self.redactor.text,
        )

    async def run(self, notes: Sequence[str], histories: Histories) -> Outcome:
        """Run everything to its end, show it, sum it up and close what is shared.

        A bug of ours ends it as well: then what is known is summed up all the same, and `Outcome.bug` says so.
        """
        writers = {name: room.writer for name, room in self.rooms.items()}
        owns_process = self.interrupts.owns_process
        displays = Displays(self.options, writers, self.clock, own_streams=owns_process)
        displays.redact = self.redactor.text
        console = console_of(self.id, self.options.log_level, self.redactor, displays.log_line)
        with printed_lines() if owns_process else nullcontext(), console:
            outcome = await self._show(displays, notes, histories)
        await displays.close(outcome, self.interrupts.unread_seconds)
        return outcome

    async def _show(self, displays: Displays, notes: Sequence[str], histories: Histories) -> Outcome:
        """Run everything to its end, and show it."""
        rooms, writers = self.rooms, {name: room.writer for name, room in self.rooms.items()}
        estimator = Estimator.of(rooms, self.options, histories, displays.views, self.clock)
        displays.estimate = estimator.estimate
        displays.plan([room.plan.schedule for room in rooms.values()], notes)
        displays.show([(name, *event) for name, writer in writers.items() for event in writer.opening])
        outcome = Outcome(displays.views, writers, Exit.OK)
        loop = asyncio.get_running_loop()
        limit = self.options.controls.timeout_seconds
        progress = ProgressWriter(self.id, rooms, displays.views, self.clock, estimator)
        progress.time_limit_at = None if limit is None else self.clock.wall() + limit
        beats = loop.create_task(
            together(displays.beat_forever(), progress.write_forever(), estimator.estimate_forever())
        )
        timer = None if limit is None else loop.call_later(limit, self.interrupts.time_is_over, limit)
        try:
            try:
                outcome.store_error = await self._run_loop(displays, progress)
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
            await progress.end(self.interrupts.unread_seconds())
        finally:
            displays.leave()
            await self.closing.close(displays.note)
        return outcome

    async def _run_loop(self, displays: Displays, progress: ProgressWriter) -> StoreError | None:
        """Run the loop to its end; return the error that kept results from being written, if there was one."""
        rooms = self.rooms
        hooks = self.hooks(rooms, displays.note)

        def show(batch: Sequence[Shown]) -> None:
            displays.show(batch)
            progress.estimator.take(batch)

        scheduler = Scheduler(
            [room.plan.schedule for room in rooms.values()],
            limits_of(self.options.controls),
            lambda: new_id(self.rng),
            jitter=self.rng.random,
        )
        loop = Loop(
            scheduler=scheduler,
            waits=displays.watch.begin(lambda now: scheduler.waiting(now=now)),
            prepare=lambda command: job_of(rooms[command.slot.experiment], command, hooks.lanes),
            runs={name: room.writer for name, room in rooms.items()},
            show=show,
            clock=self.clock,
            redactor=self.redactor,
            hooks=hooks,
            grace_seconds=self.options.controls.cleanup_grace_seconds,
        )
        self.sandboxes = loop.sandboxes
        progress.sight = displays.watch.sight = loop.sight
        progress.waiting = displays.watch.waiting_by_experiment
        displays.watch.retry_at = scheduler.retry_at
        progress.retry_in = displays.watch.retry_in
        displays.watch.holders = hooks.lease_holders
        async with ImageMaking(rooms, self.options.controls, self.redactor.text, self.interrupts.hurry):
            with self.interrupts.attached(loop):
                await loop.run()
        return loop.store_error

    def _last_lines(self, outcome: Outcome) -> list[str]:
        """Return what has to be done by hand: what is kept, what may be left behind, what is missing."""
        lines = kept_lines(self.sandboxes.kept)
        lines += sandbox_lines(self.sandboxes.left, self.rooms, removed=self.sandboxes.removed)
        if self.interrupts.asked and outcome.bug is None and outcome.store_error is None:
            lines += missing_lines(outcome.views, self.rooms, self.redactor)
        return lines


async def execute(resolved: Sequence[Resolved], options: Options, interrupts: Interrupts | None = None) -> Outcome:
    """Run experiments to their end and return how they ended.

    Without `interrupts` the process is proctor's own, and its signals are taken. Raises `UsageError` or `NothingToRun`
    before anything is started, `StoreError` when a run cannot be made, `InternalError` for a bug of ours.
    """
    if interrupts is None:
        on_main_thread = threading.current_thread() is threading.main_thread()
        interrupts = Interrupts(signals=on_main_thread, owns_process=True)
    closing = ClosingOnce(resolved, interrupts, options.controls.cleanup_grace_seconds)
    try:
        return await _execute(resolved, options, interrupts, closing)
    finally:
        await closing.close(log.warning)


async def _execute(
    resolved: Sequence[Resolved], options: Options, interrupts: Interrupts, closing: ClosingOnce
) -> Outcome:
    resolved, plans, left_out = await plan_all(resolved, options)
    invocation = _Invocation(resolved, options, interrupts, closing)
    few = sum(len(one) for one in plans) <= ATTEMPT_FILES_AT_MOST
    amiss: list[str] = []
    filled = fill(plans, options, tell=amiss.append)
    filled, histories = await ready_to_start(resolved, filled, options)
    plans = [run_plan for run_plan, _ in filled]
    notes = [*await before_a_run(resolved, plans, options), *(f"note: {text}" for text in left_out)]
    if options.attempt_files and not few:
        notes.append("note: no result.json per attempt: there are too many; `proctor show` reads the journal")
    notes += [f"warning: {text}" for text in amiss]
    logs = logging_of(invocation.id, owns_process=interrupts.owns_process)
    with watching(asyncio.get_running_loop()), interrupts.taken(), logs, ExitStack() as open_runs:
        try:
            invocation.open_rooms(filled, open_runs, attempt_files=options.attempt_files and few)
            if (proxy := proxy_note(plans, os.environ)) is not None:
                log.info("%s", proxy, extra=SHOWN)
            outcome = await invocation.run(notes, histories)
        finally:
            interrupts.end()
        log.info("ended: exit code %d (%s)", outcome.exit, outcome.exit.meaning, extra=SHOWN)
        if outcome.bug is not None:
            where = ", ".join(str(room.writer.directory) for room in invocation.rooms.values())
            raise InternalError(describe(outcome.bug), hint=f"please report it, and keep {where}") from outcome.bug
        return outcome
