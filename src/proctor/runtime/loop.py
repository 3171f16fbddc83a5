"""The loop: take an event, journal it, ask the scheduler, carry out its commands. It decides nothing.

All events come through one inbox, in one order. What the scheduler decides does not wait for the disk; what a display
shows does (`runtime.publisher`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from proctor.core.commands import (
    CancelTry,
    Command,
    Finish,
    FinishRun,
    ResumeTry,
    Seal,
    StartGrading,
    StartTry,
    StopDispatch,
    WakeAt,
)
from proctor.errors import StoreError, describe
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    GradingStarted,
    Interrupted,
    IssueRaised,
    Notice,
    RunEvent,
    StoreFailed,
    TimerFired,
    TryEvent,
    TryResumed,
    TryStarted,
)
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Sight
from proctor.runtime.engine_local import LocalEngine
from proctor.runtime.hooks import CarriesOut, DecidesNext, NoHooks
from proctor.runtime.job import Save, TryJob
from proctor.runtime.log_scope import SHOWN
from proctor.runtime.publisher import Publisher, RunSink, Shown
from proctor.runtime.recorder import Recorder
from proctor.runtime.redact import Redactor
from proctor.runtime.sandbox_ledger import SandboxLedger
from proctor.runtime.wait_meter import WaitMeter

GRACE_SECONDS = 30.0
"""How long attempts in flight may take to clean up when the invocation is interrupted, unless it is told."""

log = logging.getLogger(__name__)


class Loop:
    """Runs one invocation to its end. `grace_seconds` is what attempts in flight may take when it is interrupted."""

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
        grace_seconds: float = GRACE_SECONDS,
        waits: WaitMeter | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._hooks = hooks or NoHooks()
        self._timer: asyncio.TimerHandle | None = None
        self._prepare = prepare
        self._clock = clock
        self._engine = LocalEngine(emit=self.emit, clock=clock, redactor=redactor)
        self._inbox: deque[Event | Notice] = deque()
        self._wakeup = asyncio.Event()
        self._publisher = Publisher(runs, show, clock, on_failure=lambda: self.emit(StoreFailed()))
        self._recorder = Recorder(self._publisher, runs)
        self._deciding, self._finished = True, False
        self._waits = waits
        self._grace_seconds = grace_seconds
        self._grace: asyncio.TimerHandle | None = None
        self._told_to_stop: Interrupted | None = None

    @property
    def sandboxes(self) -> SandboxLedger:
        """Which sandboxes are not known to be gone."""
        return self._recorder.sandboxes

    @property
    def store_error(self) -> StoreError | None:
        """The first failure to write results: dispatch stopped at it, and nothing was shown after it."""
        return self._publisher.error

    def sight(self, attempt: str) -> Sight | None:
        """Return what can be seen of the try of an attempt that runs."""
        return self._engine.sight(attempt)

    def emit(self, event: TryEvent | RunEvent | Interrupted | Notice) -> None:
        """Put an event into the inbox; called on the thread of the event loop."""
        self._inbox.append(event)
        self._wakeup.set()

    def interrupt(self, event: Interrupted) -> None:
        """End the invocation: no more dispatch, what is in flight is cancelled; called again, by force (spec 10 I1)."""
        again = self._told_to_stop is not None
        self._told_to_stop = self._told_to_stop or event
        if self._deciding:
            self.emit(event)
        else:
            self._recorder.note([event])
        if again:
            self._engine.force()
            self._hooks.force(teardowns=True)

    async def run(self) -> None:
        """Run until nothing is left to do and everything is durable and shown."""
        committer = self._publisher.start()
        committer.add_done_callback(lambda _: self._wakeup.set())
        try:
            await self._drive(committer)
        except BaseException as error:
            await self._give_up(error)
            raise
        finally:
            for timer in (self._timer, self._grace):
                if timer is not None:
                    timer.cancel()
            await self._hooks.close()
            await self._publisher.close()
        committer.result()

    async def _give_up(self, error: BaseException) -> None:
        """Clean up without the scheduler, after a bug or where the task of the loop is cancelled; it is noted."""
        self._deciding = False
        bug = not isinstance(error, asyncio.CancelledError)
        cause = f"a bug of proctor: {describe(error)}" if bug else "the end of its event loop"
        self._recorder.note([Interrupted(0, cause)])
        self._engine.cancel_all()
        self._stop()
        await self._engine.wait()
        await self._hooks.abandon()
        self._recorder.note(self._inbox)

    async def _drive(self, committer: asyncio.Task[None]) -> None:
        self._carry_out(self._scheduler.start(now=self._clock.monotonic()))
        if self._waits is not None:
            self._waits.look(self._clock.monotonic())
        self._publisher.end_step()
        while not self._finished:
            await self._wakeup.wait()
            self._wakeup.clear()
            if committer.done():
                committer.result()  # raises: it does not end by itself
            for _ in range(len(self._inbox)):
                self._take(self._inbox.popleft())
            self._publisher.end_step()

    def _take(self, event: Event | Notice) -> None:
        """Journal one event, then decide and act."""
        match event:
            case TimerFired():
                pass
            case StoreFailed():
                self._stop()
            case Interrupted():
                self._stop()
                self._recorder.interruption(event)
            case _:
                experiment = self._recorder.experiment(event)
                if experiment is None:
                    log.warning("%s of an attempt that is over was left out of account", type(event).__name__)
                    return
                self._recorder.record(experiment, event)
        self._carry_out(self._scheduler.handle(event, now=self._clock.monotonic()))

    # ---------------------------------------------------------------------------------------------------- stopping

    def _stop(self) -> None:
        """Cut short what waits, and give what is in flight a grace, once."""
        self._hooks.interrupt()
        if self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(self._grace_seconds, self._grace_is_over)

    def _grace_is_over(self) -> None:
        """End by force what still cleans up; a teardown, which begins when that is done, has a limit of its own."""
        if self._engine.running or self._hooks.pending:
            signal = self._told_to_stop.signal if self._told_to_stop else 0
            cause = f"clean-up took longer than {self._grace_seconds:g} s"
            self._recorder.note([Interrupted(signal, cause)])
            self._engine.force()
            self._hooks.force(teardowns=False)

    # ---------------------------------------------------------------------------------------------------- commands

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._act(command)

    def _act(self, command: Command) -> None:
        match command:
            case StartTry(attempt, slot, number, grading_only=only):
                self._recorder.record(slot.experiment, TryStarted(attempt, slot.task, slot.ordinal, number, only))
                self._engine.start(*self._prepare(command))
            case StartGrading(attempt):
                self._recorder.record(self._recorder.of_attempt(attempt), GradingStarted(attempt))
                self._engine.grant(attempt)
            case ResumeTry(attempt):
                self._recorder.record(self._recorder.of_attempt(attempt), TryResumed(attempt))
                self._engine.resume(attempt)
            case CancelTry(attempt):
                self._engine.cancel(attempt)
            case Seal():
                self._seal(command)
            case WakeAt(at):
                self._wake_at(at)
            case StopDispatch(experiment, reason, slots):
                log.info("%s: %d slots are not dispatched: %s", experiment, slots, reason, extra=SHOWN)
                self._recorder.record(experiment, DispatchStopped(experiment, reason, slots))
            case FinishRun(experiment, completion):
                waited = self._waits.waited(experiment, self._clock.monotonic()) if self._waits is not None else {}
                self._recorder.run_ended(experiment, completion, waited)
            case Finish():
                self._finished = True
            case _:
                self._hooks.carry_out(command, self.emit)

    def _seal(self, seal: Seal) -> None:
        experiment = seal.slot.experiment
        if seal.issue is not None:
            self._recorder.record(experiment, IssueRaised(seal.attempt, seal.issue))
        slot = seal.slot
        sealed = AttemptSealed(seal.attempt, slot.task, slot.ordinal, seal.verdict, seal.score, seal.tries)
        self._recorder.record(experiment, sealed)

    def _wake_at(self, at: float) -> None:
        """Set the one timer; an earlier one is replaced."""
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0.0, at - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self.emit, TimerFired())
