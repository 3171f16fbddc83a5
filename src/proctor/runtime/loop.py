"""The loop: take an event, journal it, ask the scheduler, carry out its commands. It decides nothing.

All events come through one inbox, in one order. What the scheduler decides does not wait for the disk; what a display
shows does: events that end something are shown only after a commit has made them durable, and what came after them
waits behind them. Commits run in a thread, one at a time, at most one in `COMMIT_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from proctor.core.commands import (
    CancelTry,
    Command,
    Finish,
    FinishRun,
    Seal,
    StartGrading,
    StartTry,
    StopDispatch,
)
from proctor.errors import StoreError
from proctor.model.events import (
    FINAL_EVENTS,
    AttemptSealed,
    DispatchStopped,
    Event,
    GradingStarted,
    Interrupted,
    RunEnded,
    TryEvent,
    TryStarted,
)
from proctor.runtime.clock import Clock
from proctor.runtime.engine_local import LocalEngine
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import Save, TryJob

COMMIT_SECONDS = 0.025
"""Commits are at least this far apart; a display lags by at most this and one commit."""

log = logging.getLogger(__name__)

Shown = tuple[str, Event, float]
"""(experiment, event, wall time): what a display gets."""


class RunSink(Protocol):
    """Where the events of one run go. Raises `StoreError` when it cannot write."""

    def append(self, event: Event, at: float) -> None:
        """Take an event into the journal's buffer."""
        ...

    def flush(self) -> None:
        """Write what is buffered to the file."""
        ...

    def commit(self) -> None:
        """Make what was flushed durable and write what is derived from it; called in a thread."""
        ...


class DecidesNext(Protocol):
    """The scheduler, as the loop sees it."""

    def start(self, *, now: float) -> list[Command]:
        """Return the first commands."""
        ...

    def handle(self, event: Event, *, now: float) -> list[Command]:
        """Return what is to be done because of `event`."""
        ...


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
    ) -> None:
        self._scheduler = scheduler
        self._prepare = prepare
        self._runs = dict(runs)
        self._show = show
        self._clock = clock
        self._engine = LocalEngine(emit=self.emit, clock=clock, redactor=redactor)
        self._experiment_of: dict[str, str] = {}
        self._inbox: list[Event] = []
        self._wakeup = asyncio.Event()
        self._unshown: list[Shown] = []
        self._final_unshown = False
        self._commit_needed = asyncio.Event()
        self._finished = self._closing = False
        self.store_error: StoreError | None = None
        """The first failure to write results: dispatch stopped at it, and nothing was shown after it."""

    def emit(self, event: TryEvent | Interrupted) -> None:
        """Put an event into the inbox; called on the thread of the event loop."""
        self._inbox.append(event)
        self._wakeup.set()

    async def run(self) -> None:
        """Run until nothing is left to do and everything is durable and shown."""
        with ThreadPoolExecutor(1, thread_name_prefix="proctor-commit") as thread:
            committer = asyncio.get_running_loop().create_task(self._commit_forever(thread))
            committer.add_done_callback(lambda _: self._wakeup.set())
            try:
                await self._drive(committer)
            except BaseException:
                self._engine.cancel_all()
                await self._engine.wait()
                raise
            finally:
                self._closing = True
                self._commit_needed.set()
                await asyncio.wait({committer})
            committer.result()

    async def _drive(self, committer: asyncio.Task[None]) -> None:
        self._carry_out(self._scheduler.start(now=self._clock.monotonic()))
        self._end_step()
        while not self._finished:
            await self._wakeup.wait()
            self._wakeup.clear()
            if committer.done():
                committer.result()  # raises: it does not end by itself
            batch, self._inbox = self._inbox, []
            for event in batch:
                self._take(event)
            self._end_step()

    def _take(self, event: Event) -> None:
        """Journal one event, then decide and act."""
        if isinstance(event, Interrupted):
            for experiment in self._runs:
                self._record(experiment, event)
        else:
            self._record(self._experiment_of[event.attempt], event)  # type: ignore[union-attr]
        self._carry_out(self._scheduler.handle(event, now=self._clock.monotonic()))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._act(command)

    def _act(self, command: Command) -> None:
        match command:
            case StartTry(attempt, slot, try_number):
                self._experiment_of[attempt] = slot.experiment
                self._record(slot.experiment, TryStarted(attempt, slot.task, slot.ordinal, try_number))
                self._engine.start(*self._prepare(command))
            case StartGrading(attempt):
                self._record(self._experiment_of[attempt], GradingStarted(attempt))
                self._engine.grant(attempt)
            case CancelTry(attempt):
                self._engine.cancel(attempt)
            case Seal(attempt, slot, verdict, score, tries):
                del self._experiment_of[attempt]
                sealed = AttemptSealed(attempt, slot.task, slot.ordinal, verdict, score, tries)
                self._record(slot.experiment, sealed)
            case StopDispatch(experiment, reason, slots):
                self._record(experiment, DispatchStopped(experiment, reason, slots))
            case FinishRun(experiment, completion):
                self._record(experiment, RunEnded(experiment, completion))
            case Finish():
                self._finished = True

    # ------------------------------------------------------------------------------------------------ durability

    def _record(self, experiment: str, event: Event) -> None:
        if self.store_error is not None:
            return  # nothing is shown that is not kept
        at = self._clock.wall()
        try:
            self._runs[experiment].append(event, at)
        except StoreError as error:
            self._store_failed(error)
            return
        self._unshown.append((experiment, event, at))
        self._final_unshown = self._final_unshown or isinstance(event, FINAL_EVENTS)

    def _end_step(self) -> None:
        """Write what the step journaled, before any of the tries it started takes its first step."""
        if self.store_error is None:
            try:
                for run in self._runs.values():
                    run.flush()
            except StoreError as error:
                self._store_failed(error)
        if self.store_error is not None:
            return
        if self._final_unshown:
            self._commit_needed.set()
        elif self._unshown:
            self._show_now()

    async def _commit_forever(self, thread: ThreadPoolExecutor) -> None:
        """Commit when there is need, until the loop is over and everything is shown."""
        while not self._closing:
            await self._commit_needed.wait()
            await self._commit(thread)
            if not self._closing:
                await asyncio.sleep(COMMIT_SECONDS)
        while self._unshown and self.store_error is None:
            await self._commit(thread)

    async def _commit(self, thread: ThreadPoolExecutor) -> None:
        self._commit_needed.clear()
        ready = len(self._unshown)
        if ready == 0 or self.store_error is not None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._commit_runs)
        except StoreError as error:
            self._store_failed(error)
            return
        shown, self._unshown = self._unshown[:ready], self._unshown[ready:]
        self._final_unshown = any(isinstance(event, FINAL_EVENTS) for _, event, _ in self._unshown)
        self._show(shown)
        if self._final_unshown:
            self._commit_needed.set()

    def _commit_runs(self) -> None:
        for run in self._runs.values():
            run.commit()

    def _show_now(self) -> None:
        shown, self._unshown = self._unshown, []
        self._show(shown)

    def _store_failed(self, error: StoreError) -> None:
        """Results cannot be written any more: dispatch stops, what runs is cancelled, what is kept stays (08 D5)."""
        if self.store_error is None:
            self.store_error = error
            self._unshown = []
            log.error("%s", error.message)
            self.emit(Interrupted(0))
