"""From lease to release: the steps of an experiment around its attempts (spec 03 G8, G9, S1 to S6)."""

from __future__ import annotations

from collections import deque

from proctor.core.books import Books
from proctor.core.commands import AcquireLease, Command, FinishRun, ReleaseLease, RunSetup, RunTeardown
from proctor.core.decided import closed_tasks
from proctor.core.run import Run, Stage
from proctor.core.stops import Stops
from proctor.errors import InternalError
from proctor.model.attempt import issue_of
from proctor.model.events import (
    Completion,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    RunEvent,
    SetupEnded,
    StopReason,
    TeardownEnded,
)


class Stages:
    """Takes experiments through their stages; those that share a key of this invocation go one after another."""

    def __init__(self, books: Books, stops: Stops) -> None:
        self._books = books
        self._stops = stops
        self._by_name = {run.plan.name: run for run in books.runs}
        self._waiting: dict[str, deque[Run]] = {}
        self._holder: dict[str, Run] = {}
        self._lost: set[str] = set()
        """Keys that stay held after a failed teardown: nobody here gets them any more (S3)."""
        self.unfinished = len(books.runs)

    def run_of(self, event: RunEvent) -> Run:
        """Return the experiment of an event; raises `InternalError` where there is none."""
        run = self._by_name.get(event.experiment)
        if run is None:
            raise InternalError(f"{event} came in, and there is no such experiment")
        return run

    def leave_out(self, commands: list[Command]) -> None:
        """Give up what will not start: sandboxes larger than the host (G10), tasks that a saved pass closes (E2)."""
        closed: list[Command] = []
        for run in self._books.runs:
            self._stops.stop_tasks(run, closed_tasks(run.plan), StopReason.EARLY_EXIT, closed)
            for part, row, why in self._books.built.too_large(run):
                self._stops.give_up(run, [(part, row)], issue_of("environment.too_large", why), commands)
        commands += closed

    def begin(self, commands: list[Command]) -> None:
        """Ask for leases, run setups, open what needs neither."""
        for run in self._books.runs:
            key = run.plan.shared_state_key
            if run.completion is not None or not run.queued:
                continue
            if key is None:
                self._set_up(run, commands)
            else:
                self._waiting.setdefault(key, deque()).append(run)
        for key in self._waiting:
            self._next_holder(key, commands)

    def _set_up(self, run: Run, commands: list[Command]) -> None:
        if run.plan.has_setup:
            run.stage = Stage.SETTING_UP
            commands.append(RunSetup(run.plan.name))
        else:
            self._open(run)

    def _open(self, run: Run) -> None:
        run.stage = Stage.OPEN
        self._books.offer(run)

    def _next_holder(self, key: str, commands: list[Command]) -> None:
        self._holder.pop(key, None)
        waiting = self._waiting[key]
        while waiting:
            run = waiting.popleft()
            if run.stage is not Stage.WAITING or not run.queued:
                continue
            if key in self._lost:
                self._stops.stop(run.parts, StopReason.LEASE, commands)
                continue
            self._holder[key] = run
            run.stage = Stage.LEASING
            commands.append(AcquireLease(run.plan.name, key))
            return

    def handle(self, event: RunEvent, commands: list[Command]) -> None:
        """Take an event of an experiment into account; raises `InternalError` where it cannot happen."""
        run = self.run_of(event)
        self._stops.touched[run.index] = run
        stage = run.stage
        match event:
            case LeaseGranted() if stage is Stage.LEASING:
                run.lease_held = True
                self._set_up(run, commands)
            case LeaseRefused() if stage is Stage.LEASING:
                run.stage = Stage.DONE
                self._stops.stop(run.parts, StopReason.LEASE, commands)
                self._next_holder(run.plan.shared_state_key or "", commands)
            case LeaseGranted() | LeaseRefused() if stage is Stage.RELEASING:
                pass  # it crossed with the word to wait no longer
            case LeaseReleased() if stage is Stage.RELEASING:
                run.stage = Stage.DONE
                run.lease_held = False
                self._next_holder(run.plan.shared_state_key or "", commands)
            case SetupEnded() if stage is Stage.SETTING_UP:
                if event.issue is not None:
                    rows = run.rows_of(range(len(run.plan.task_ids)))
                    self._stops.give_up(run, rows, event.issue, commands)
                self._open(run)
            case TeardownEnded() if stage is Stage.TEARING_DOWN:
                self._torn_down(run, event, commands)
            case _:
                raise InternalError(f"{event} came in, and the experiment is `{stage}`")

    def _torn_down(self, run: Run, event: TeardownEnded, commands: list[Command]) -> None:
        key = run.plan.shared_state_key
        if key is not None and event.issue is not None:
            run.stage = Stage.DONE  # the lease stays held, until somebody has looked (S3)
            self._lost.add(key)
            self._next_holder(key, commands)
        else:
            self._release(run, commands)

    def _release(self, run: Run, commands: list[Command]) -> None:
        if run.lease_held or run.stage is Stage.LEASING:
            run.stage = Stage.RELEASING
            commands.append(ReleaseLease(run.plan.name))
        else:
            run.stage = Stage.DONE

    def settle(self, run: Run, commands: list[Command], *, interrupted: bool) -> None:
        """Take an experiment on that has nothing left to start and nothing in flight, up to its end."""
        if run.completion is not None or run.queued or run.in_flight:
            return
        if any(part.lanes is not None and part.lanes.lanes for part in run.parts):
            return
        if run.stage in (Stage.WAITING, Stage.LEASING):
            self._release(run, commands)
        elif run.stage is Stage.OPEN:
            if run.plan.has_setup:
                run.stage = Stage.TEARING_DOWN
                commands.append(RunTeardown(run.plan.name))
            else:
                self._release(run, commands)
        if run.stage is Stage.DONE:
            run.completion = _completion(run, interrupted=interrupted)
            self.unfinished -= 1
            commands.append(FinishRun(run.plan.name, run.completion))


def _completion(run: Run, *, interrupted: bool) -> Completion:
    if interrupted:
        return Completion.INTERRUPTED
    cut = any(reason is not StopReason.EARLY_EXIT for reason in run.stopped)
    return Completion.STOPPED if cut else Completion.COMPLETE
