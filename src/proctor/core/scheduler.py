"""The scheduler: events in, commands out (spec 03). No I/O, no clock, no tasks; only `start` and `handle` change it.

The protocol of a try, as the runtime has to keep it:

- `StartTry` is answered by what the try reports: sandboxes, phases, issues, and at last `TryEnded`, once.
- Grading `none`: `PhaseEnded(dispose)` of the agent's part returns what its sandbox took, `TryEnded` the rest.
- Grading `reuse`: `TryEnded` returns everything.
- Grading `fresh`, or `none` with a judge: when the agent's sandbox is gone (`PhaseEnded(dispose)`) the try sends
  `GradingQueued`; now it holds nothing that others share. It goes on when `StartGrading` comes.
- A wait inside a try begins with `BackoffStarted` and ends with `BackoffEnded`; the try goes on with `ResumeTry`.
- In a lane the sandbox stays after the try. `OpenLane` comes right before the try that opens it. `CloseLane` is
  answered by `LaneClosed`.
- `CancelTry` comes at most once for a try, also for one that waits. It is answered by `TryEnded`.
- After `TryEnded` another try of the same attempt may be started, with the next number.
- A try with `grading_only` holds what grading needs from its start: it opens no sandbox but one to grade in, also where
  it is the first in its lane, and sends no `GradingQueued`.

`WakeAt` asks for `TimerFired` at a moment; the last one counts, and a timer too many does no harm. Leases, setup and
teardown are in `core.stages`. Events that only echo commands are accepted and change nothing. Of the commands of one
answer `Seal` comes first, then what stops and is cancelled, then what starts and closes, then `WakeAt`, then
`FinishRun`, and `Finish` last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proctor.core.admit import Admission
from proctor.core.audit import audit
from proctor.core.books import Books, Snapshot
from proctor.core.choose import OVERTAKEN_AT_MOST
from proctor.core.commands import Command, Finish, WakeAt
from proctor.core.event_kinds import CUTS, ECHOES, QUIET, REPORTS
from proctor.core.flight import Attempt
from proctor.core.gates import GateLimits
from proctor.core.lifecycle import Step, step_of
from proctor.core.run import Run
from proctor.core.schedule import ExperimentPlan
from proctor.core.stages import Stages
from proctor.core.stops import Stops
from proctor.core.tries import Tries
from proctor.core.waiting import waiting
from proctor.errors import InternalError
from proctor.model.events import (
    EVENT_TYPES,
    Event,
    Interrupted,
    LaneClosed,
    Notice,
    RunEvent,
    SandboxDisposed,
    SandboxOpened,
    StopReason,
    StoreFailed,
    TimerFired,
    TryEnded,
    TryEvent,
)
from proctor.model.ids import AttemptId
from proctor.model.waiting import Waiting

_TRY_ENDED = Step.TRY_ENDED


class Scheduler:
    """Decides what happens next.

    Experiments come in plan order and their names must differ. `mint` gives the id of each attempt; ids must differ.
    `jitter` gives numbers from 0 to below 1 that spread the waits before retries; `patience` is the number of O4.
    Whatever cannot happen raises `InternalError` with the story of the attempt; the scheduler is of no use afterwards.
    """

    def __init__(
        self,
        plans: Sequence[ExperimentPlan],
        limits: GateLimits,
        mint: Callable[[], AttemptId],
        *,
        jitter: Callable[[], float] = lambda: 0.5,
        patience: int = OVERTAKEN_AT_MOST,
    ) -> None:
        self._books = Books(plans, limits, mint)
        self._stops = Stops(self._books)
        self._stages = Stages(self._books, self._stops)
        self._tries = Tries(self._books, self._stops, jitter)
        self._admission = Admission(self._books, self._stops, patience)
        self.retry_at = self._books.dues.at  # of an attempt: when its wait between two tries is over
        self._started = self._finished = False
        self._cut: StopReason | None = None
        """Why everything stops: an interrupt, or results that cannot be written."""
        self._announced: float | None = None
        self._handlers: dict[type, Callable[[Any, float], list[Command]]] = {
            **dict.fromkeys((*EVENT_TYPES, TimerFired), self._handle_other),
            TryEnded: self._handle_end,
            **dict.fromkeys(REPORTS, self._handle_report),
            **dict.fromkeys(ECHOES, self._handle_echo),
            **dict.fromkeys(CUTS, self._handle_cut),
        }
        self._budgeted = any(plan.budget_usd is not None for plan in plans)

    def snapshot(self) -> Snapshot:
        """Return the state of all gates and experiments now; it never changes afterwards."""
        return self._books.snapshot()

    def waiting(self, *, now: float) -> list[Waiting]:
        """Return what the queued slots wait for now: for each the first gate without room for it."""
        return waiting(self._books, self._admission.chooser, now)

    def validate(self) -> None:
        """Check everything that must hold between two events; raises `InternalError` where it does not."""
        audit(self._books)
        if self._started and self._cut is None and (could := self._admission.could_start()) is not None:
            raise InternalError(f"{could} could start and does not")
        left = sum(run.completion is None for run in self._books.runs)
        if left != self._stages.unfinished or (self._finished and left):
            raise InternalError(f"{left} experiments are unfinished, counted {self._stages.unfinished}")

    # ------------------------------------------------------------------------------------------ what comes in

    def start(self, *, now: float) -> list[Command]:
        """Begin: return the first commands. To be called once; `Interrupted` may have come in before."""
        if self._started:
            raise InternalError("the scheduler was started twice")
        self._started = True
        commands: list[Command] = []
        runs = self._books.runs
        self._stages.leave_out(commands)
        if self._cut is not None:
            self._stop_everything(self._cut, commands)
        self._stops.touched.update((run.index, run) for run in runs)
        self._stop_spent(commands)
        self._stages.begin(commands)
        return self._go_on(now, commands)

    def handle(self, event: Event | Notice, *, now: float) -> list[Command]:
        """Take one event into account and return what follows, in the order in which it is to be done."""
        return self._handlers[type(event)](event, now)

    def _handle_report(self, event: TryEvent, now: float) -> list[Command]:
        """Take into account what a try tells before its end."""
        attempt = self._books.in_flight.get(event.attempt)
        if attempt is None:
            return self._handle_late(event)
        attempt.tells(now, event)
        step = step_of(event)
        after = attempt.part.transitions.get((attempt.state, step))
        if after is None:
            self._advance(attempt, step)
        else:
            attempt.state = after
        if type(event) is SandboxOpened:
            self._tries.check_opened(attempt, event, step)
        if step in QUIET or not self._tries.reported(attempt, event, step, now):
            return []
        return self._go_on(now, [])

    def _handle_end(self, event: TryEnded, now: float) -> list[Command]:
        """Take the end of a try into account."""
        attempt = self._books.in_flight.get(event.attempt)
        if attempt is None:
            return self._handle_late(event)
        attempt.tells(now, event)
        after = attempt.part.transitions.get((attempt.state, _TRY_ENDED))
        if after is None:
            self._advance(attempt, _TRY_ENDED)
        else:
            attempt.state = after
        commands: list[Command] = []
        self._tries.ended(attempt, event, now, commands, cut=self._cut is not None)
        return self._go_on(now, commands)

    def _handle_late(self, event: TryEvent) -> list[Command]:
        """Take an event of a try that is not in flight; raises `InternalError` unless it is known to come late."""
        if isinstance(event, SandboxDisposed):
            return []  # a disposal that had run out of time came to its end after all
        raise InternalError(f"{event} came in, but {self._books.story_of(event.attempt)}")

    def _handle_echo(self, event: Event, now: float) -> list[Command]:
        """Take an event that only echoes a command: it changes nothing."""
        return []

    def _handle_other(self, event: TimerFired | RunEvent, now: float) -> list[Command]:
        """Take an event that is of no try into account."""
        commands: list[Command] = []
        if isinstance(event, TimerFired):
            self._announced = None
            if not self._started or self._finished:
                return commands
        elif isinstance(event, LaneClosed):
            self._tries.lane_closed(event)
        else:
            self._stages.handle(event, commands)
        return self._go_on(now, commands)

    def _advance(self, attempt: Attempt, step: Step) -> None:
        try:
            attempt.advance(step)
        except InternalError as error:
            raise self._books.impossible(error.message, attempt) from None

    # ----------------------------------------------------------------------------------------------- stopping

    def _handle_cut(self, event: Interrupted | StoreFailed, now: float) -> list[Command]:
        """Stop everything, once; a second interrupt is the runtime's affair. Before `start`, wait for that."""
        if self._cut is not None or self._finished:
            return []
        self._cut = reason = StopReason.INTERRUPT if isinstance(event, Interrupted) else StopReason.DISK
        if not self._started:
            return []
        commands: list[Command] = []
        self._stop_everything(reason, commands)
        for attempt in list(self._books.in_flight.values()):
            self._stops.cancel(attempt, reason, now, commands)
        return self._go_on(now, commands)

    def _stop_everything(self, reason: StopReason, commands: list[Command]) -> None:
        runs = self._books.runs
        self._stops.stop((part for run in runs for part in run.parts), reason, commands)

    def _stop_spent(self, commands: list[Command]) -> None:
        """Give up the rest of experiments whose budget allows nothing more, once nothing is in flight (E4)."""
        for run in self._touched():
            if not run.in_flight and run.budget.limit is not None and run.queued and not run.budget.allows():
                self._stops.stop(run.parts, StopReason.BUDGET, commands)

    # --------------------------------------------------------------------------------------------- what goes out

    def _go_on(self, now: float, commands: list[Command]) -> list[Command]:
        """Start what can start; then take those that have nothing left, and all, towards their end."""
        books, stops = self._books, self._stops
        touched = stops.touched
        going = self._cut is None
        if going and books.dues.due:
            self._tries.wake(now, commands)
        if stops.passed:
            stops.exit_early(now, commands)
        if going:
            if self._budgeted:
                self._stop_spent(commands)
            for run in touched.values():
                books.offer(run)
            if self._started:
                self._start_all(now, commands)
        elif books.lanes:
            self._admission.close_lanes(commands)
        if going and (books.dues.due or self._admission.chooser.wake is not None):
            self._announce(commands)
        while touched:
            runs = self._touched() if len(touched) > 1 else [*touched.values()]
            touched.clear()
            for run in runs:
                if not run.in_flight:
                    self._stages.settle(run, commands, interrupted=not going)
        if not self._stages.unfinished and not self._finished:
            self._finished = True
            commands.append(Finish())
        return commands

    def _start_all(self, now: float, commands: list[Command]) -> None:
        """Start what can start; close lanes that are in the way, and start what then can."""
        admission = self._admission
        while True:
            while admission.admit(now, commands):
                self._stops.exit_early(now, commands)
            if self._budgeted:
                self._stop_spent(commands)
            if not (self._books.lanes and admission.close_lanes(commands)):
                return

    def _touched(self) -> list[Run]:
        """Return what was touched, in plan order; a list of its own, as more may be touched meanwhile."""
        return sorted(self._stops.touched.values(), key=lambda run: run.index)

    def _announce(self, commands: list[Command]) -> None:
        """Ask to be woken at the next moment at which something may start, unless that was asked for already."""
        at, wake = self._books.dues.earliest(), self._admission.chooser.wake
        if at is None or (wake is not None and wake < at):
            at = wake
        if at is not None and at != self._announced:
            self._announced = at
            commands.append(WakeAt(at))
