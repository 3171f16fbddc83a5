"""The loop: take an event, journal it, ask the scheduler, carry out its commands. It decides nothing.

All events come through one inbox, in one order. What the scheduler decides does not wait for the disk; what a display
shows does (`runtime.publisher`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from proctor.core.commands import (
    AcquireLease,
    CancelTry,
    CloseLane,
    Command,
    Finish,
    FinishRun,
    OpenLane,
    ReleaseLease,
    ResumeTry,
    RunSetup,
    RunTeardown,
    Seal,
    StartGrading,
    StartTry,
    StopDispatch,
    WakeAt,
)
from proctor.errors import InternalError, StoreError
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    GradingStarted,
    Interrupted,
    IssueRaised,
    Notice,
    RunEnded,
    RunEvent,
    StoreFailed,
    TimerFired,
    TryEvent,
    TryStarted,
)
from proctor.runtime.clock import Clock
from proctor.runtime.engine_local import LocalEngine
from proctor.runtime.job import Save, TryJob
from proctor.runtime.publisher import Publisher, RunSink, Shown
from proctor.runtime.redact import Redactor

log = logging.getLogger(__name__)


class DecidesNext(Protocol):
    """The scheduler, as the loop sees it."""

    def start(self, *, now: float) -> list[Command]:
        """Return the first commands."""
        ...

    def handle(self, event: Event | Notice, *, now: float) -> list[Command]:
        """Return what is to be done because of `event`."""
        ...


HookCommand = AcquireLease | ReleaseLease | RunSetup | RunTeardown | OpenLane | CloseLane
"""Commands about an experiment as a whole; each but `OpenLane` is answered by one event."""


class CarriesOut(Protocol):
    """Carries out what concerns an experiment as a whole, and answers by events."""

    def carry_out(self, command: HookCommand, emit: Callable[[RunEvent], None]) -> None:
        """Begin; returns at once."""
        ...

    def interrupt(self) -> None:
        """Cut short what waits or runs, but no teardown."""
        ...

    async def abandon(self) -> None:
        """After a bug: give up waiting, close lanes, run the teardowns that are owed, release leases."""
        ...

    async def close(self) -> None:
        """Wait for what still runs."""
        ...


class NoHooks:
    """For invocations without setup, teardown, leases and lanes: a command for one is a bug."""

    def carry_out(self, command: HookCommand, emit: Callable[[RunEvent], None]) -> None:
        """Refuse."""
        raise InternalError(f"nothing here can carry out {command}")

    def interrupt(self) -> None:
        """Do nothing."""

    async def abandon(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class Loop:
    """Runs one invocation to its end."""

    def __init__(
        self,
        *,
        scheduler: DecidesNext,
        prepare: Callable[[StartTry], tuple[TryJob, Save]],
        runs: Mapping[str, RunSink],
        show: Callable[[Sequence[Shown]], None],
        clock: Clock,
        redactor: Redactor,
        hooks: CarriesOut | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._hooks = hooks or NoHooks()
        self._timer: asyncio.TimerHandle | None = None
        self._prepare = prepare
        self._runs = dict(runs)
        self._clock = clock
        self._engine = LocalEngine(emit=self.emit, clock=clock, redactor=redactor)
        self._experiment_of: dict[str, str] = {}
        self._inbox: list[Event | Notice] = []
        self._wakeup = asyncio.Event()
        self._publisher = Publisher(runs, show, clock, on_failure=lambda: self.emit(StoreFailed()))
        self._finished = False

    @property
    def store_error(self) -> StoreError | None:
        """The first failure to write results: dispatch stopped at it, and nothing was shown after it."""
        return self._publisher.error

    def emit(self, event: TryEvent | RunEvent | Interrupted | Notice) -> None:
        """Put an event into the inbox; called on the thread of the event loop."""
        self._inbox.append(event)
        self._wakeup.set()

    async def run(self) -> None:
        """Run until nothing is left to do and everything is durable and shown."""
        committer = self._publisher.start()
        committer.add_done_callback(lambda _: self._wakeup.set())
        try:
            await self._drive(committer)
        except BaseException:
            self._engine.cancel_all()
            self._hooks.interrupt()
            await self._engine.wait()
            await self._hooks.abandon()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._hooks.close()
            await self._publisher.close()
        committer.result()

    async def _drive(self, committer: asyncio.Task[None]) -> None:
        self._carry_out(self._scheduler.start(now=self._clock.monotonic()))
        self._publisher.end_step()
        while not self._finished:
            await self._wakeup.wait()
            self._wakeup.clear()
            if committer.done():
                committer.result()  # raises: it does not end by itself
            batch, self._inbox = self._inbox, []
            for event in batch:
                self._take(event)
            self._publisher.end_step()

    def _take(self, event: Event | Notice) -> None:
        """Journal one event, then decide and act."""
        match event:
            case TimerFired():
                pass
            case StoreFailed():
                self._hooks.interrupt()
            case Interrupted():
                self._hooks.interrupt()
                for experiment in self._runs:
                    self._publisher.record(experiment, event)
            case _:
                experiment = self._experiment(event)
                if experiment is None:
                    log.warning("%s of an attempt that is over was left out of account", type(event).__name__)
                    return
                self._publisher.record(experiment, event)
        self._carry_out(self._scheduler.handle(event, now=self._clock.monotonic()))

    def _experiment(self, event: TryEvent | RunEvent | Event) -> str | None:
        """Return the experiment that an event is of, or None for that of an attempt that is over."""
        named: str | None = getattr(event, "experiment", None)
        return named or self._experiment_of.get(getattr(event, "attempt", ""))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._act(command)

    def _act(self, command: Command) -> None:
        match command:
            case StartTry(attempt, slot, try_number):
                self._experiment_of[attempt] = slot.experiment
                self._publisher.record(slot.experiment, TryStarted(attempt, slot.task, slot.ordinal, try_number))
                self._engine.start(*self._prepare(command))
            case StartGrading(attempt):
                self._publisher.record(self._experiment_of[attempt], GradingStarted(attempt))
                self._engine.grant(attempt)
            case ResumeTry(attempt):
                self._engine.resume(attempt)
            case CancelTry(attempt):
                self._engine.cancel(attempt)
            case Seal():
                self._seal(command)
            case WakeAt(at):
                self._wake_at(at)
            case StopDispatch(experiment, reason, slots):
                self._publisher.record(experiment, DispatchStopped(experiment, reason, slots))
            case FinishRun(experiment, completion):
                self._publisher.record(experiment, RunEnded(experiment, completion))
            case Finish():
                self._finished = True
            case _:
                self._hooks.carry_out(command, self.emit)

    def _seal(self, seal: Seal) -> None:
        experiment = seal.slot.experiment
        self._experiment_of.pop(seal.attempt, None)  # one that had no try was never here
        if seal.issue is not None:
            self._publisher.record(experiment, IssueRaised(seal.attempt, seal.issue))
        slot = seal.slot
        sealed = AttemptSealed(seal.attempt, slot.task, slot.ordinal, seal.verdict, seal.score, seal.tries)
        self._publisher.record(experiment, sealed)

    def _wake_at(self, at: float) -> None:
        """Set the one timer; an earlier one is replaced."""
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self.emit, TimerFired())
