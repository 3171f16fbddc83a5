"""The phases of one try: each with its limit, its events, and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from proctor.core.task_limits import reached_its_limit, reached_that_of_the_try, shown
from proctor.errors import CODE_OF_PHASE, Fault, boundary
from proctor.model.attempt import Phase
from proctor.model.events import PhaseEnded, PhaseStarted, TryEvent
from proctor.model.spec import TimeLimits
from proctor.runtime.backoff import Backoff
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Countdown, Limit
from proctor.runtime.hurry import Hurry
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.shield import end_task
from proctor.runtime.whose_code import HOLDER

T = TypeVar("T")

PHASE_GRACE_SECONDS = 8.0
"""How long a cancelled phase may take to end, an opening inside it, or the grace of a command, included."""

IGNORES_CANCELLATION = "; it ignores its cancellation and was abandoned"

_TIME_CODES = {
    Phase.OPEN: "provider.open_timeout",
    Phase.SETUP: "time.setup",
    Phase.AGENT: "time.agent",
    Phase.COLLECT: "time.collect",
    Phase.GRADE: "time.grade",
    Phase.DISPOSE: "dispose.failed",
}


class Phases:
    """Runs phases and reports them.

    The limit of the whole try counts what all phases but dispose execute. Where it ends the agent it is spent: what the
    agent did is collected and graded within the limits of those phases.
    """

    def __init__(
        self,
        attempt: str,
        *,
        emit: Callable[[TryEvent], None],
        clock: Clock,
        notes: Notes,
        log: TryLog,
        backoff: Backoff,
        limits: TimeLimits | None = None,
        hurry: Hurry | None = None,
    ) -> None:
        self._attempt = attempt
        self._emit = emit
        self._clock = clock
        self._notes = notes
        self._log = log
        self._backoff = backoff
        self._limits = limits or TimeLimits()
        self._hurry = hurry
        self._try_left = self._limits.try_seconds

    async def run(self, phase: Phase, limit: float | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one phase within its limit. Raises `Fault`, `SkipTask` or `CancelledError`, nothing else.

        The work is a task of its own: what ignores its cancellation is abandoned after a grace, and holds nobody.
        """
        await self._backoff.settle()
        countdown = self._countdown(phase, limit)

        async def guarded() -> T:
            HOLDER.set(countdown)
            with boundary(phase):
                return await work()

        started = self.started(phase)
        task = asyncio.get_running_loop().create_task(guarded())
        self._backoff.countdown = countdown
        countdown.start()
        try:
            await asyncio.wait({task, countdown.over}, return_when=asyncio.FIRST_COMPLETED)
            self._charge(self._executed_since(started) - countdown.held_by_others)
            if countdown.over.done():
                countdown.end_by(PHASE_GRACE_SECONDS)
                ended = await self._end(task)
                raise self._time_is_over(countdown, limit, ended=ended)
        except asyncio.CancelledError:
            countdown.end_by(PHASE_GRACE_SECONDS)
            if not await end_task(task, PHASE_GRACE_SECONDS, self._hurry):
                self._log.logger.warning("%s%s", phase, IGNORES_CANCELLATION)
            raise
        finally:
            held = countdown.held_by_others
            countdown.close()
            self._backoff.countdown = None
            self.ended(phase, started + held)
        return self._result(task, countdown)

    async def _end(self, task: asyncio.Task[Any]) -> bool:
        """End a task whose time is over, and say whether it ended; raises a cancellation that came meanwhile."""
        this = asyncio.current_task()
        before = this.cancelling() if this else 0
        ended = await end_task(task, PHASE_GRACE_SECONDS, self._hurry)
        if this is not None and this.cancelling() > before:
            raise asyncio.CancelledError
        return ended

    def hold(self, phase: Phase, limit: float | None) -> None:
        """Say that the task from which this is called executes code of a plugin in a phase that is not run by `run`."""
        HOLDER.set(Countdown(self._attempt, phase, activity=self._backoff.activity, seconds=limit))

    def started(self, phase: Phase) -> float:
        """Announce a phase; what is returned is for `ended`."""
        self._notes.phase = phase
        self._emit(PhaseStarted(self._attempt, phase))
        return self._clock.monotonic() - self._backoff.waited_seconds

    def ended(self, phase: Phase, started: float) -> None:
        """Announce the end of a phase, with what it executed: waits are not counted."""
        self._emit(PhaseEnded(self._attempt, phase, round(max(0.0, self._executed_since(started)), 6)))

    def _executed_since(self, started: float) -> float:
        return self._clock.monotonic() - self._backoff.waited_seconds - started

    # ---------------------------------------------------------------------------------------------------- limits

    def _countdown(self, phase: Phase, limit: float | None) -> Countdown:
        """Return the countdown of a phase: of its own limit, or of what is left of that of the try if that is less.

        Where both end together it is the limit of the phase that is named; of the agent, that of the try, which is
        spent then and ends nothing else.
        """
        left = self._try_left
        seconds, which = limit, Limit.PHASE
        if left is not None and (limit is None or left < limit or (left == limit and phase is Phase.AGENT)):
            seconds, which = left, Limit.TRY
        return Countdown(
            self._attempt,
            phase,
            activity=self._backoff.activity,
            seconds=seconds,
            limit=which,
            idle_seconds=self._limits.agent_idle_seconds if phase is Phase.AGENT else None,
        )

    def _charge(self, seconds: float) -> None:
        """Take what a phase executed off what is left of the try."""
        if self._try_left is not None:
            self._try_left = max(0.0, self._try_left - max(0.0, seconds))

    def _time_is_over(self, countdown: Countdown, own: float | None, *, ended: bool) -> Fault:
        """Return what a limit that was reached becomes; `own` is that of the phase."""
        phase, code = countdown.phase, _TIME_CODES[countdown.phase]
        whole = reached_that_of_the_try(phase, self._limits.try_seconds)
        match countdown.over.result():
            case Limit.IDLE:
                code = "time.idle"
                words = (
                    f"{phase} gave no sign of life for {_seconds(countdown.idle_seconds)} (agent_idle_timeout_seconds)"
                )
                if own is not None:
                    words += f"; its limit was {_seconds(own)} ({phase}_timeout_seconds)"
            case Limit.TRY if phase is Phase.AGENT:
                code, words = "time.attempt", whole
                self._try_left = None
            case Limit.TRY:
                words = f"{whole}; {_seconds(countdown.seconds)} of it were left for this phase"
            case Limit.PHASE:
                words = reached_its_limit(phase, own)
        if countdown.struck is not None:
            words += f"; {countdown.struck}"
        return Fault(code, words + ("" if ended else IGNORES_CANCELLATION), phase=phase)

    def _result(self, task: asyncio.Task[T], countdown: Countdown) -> T:
        """Return the result of a phase that ended by itself, or raise what it raised."""
        if task.cancelled():
            words = "it cancelled the task that it ran in, and nobody had asked for that"
            raise Fault(CODE_OF_PHASE[countdown.phase], words, phase=countdown.phase)
        if countdown.struck is None:
            return task.result()
        self._log.logger.warning("%s: %s", countdown.phase, countdown.struck)
        try:
            return task.result()
        except Fault as fault:
            if countdown.struck in str(fault):
                raise
            raise Fault(fault.code, f"{fault}; {countdown.struck}", phase=countdown.phase) from fault.__cause__


def _seconds(seconds: float | None) -> str:
    return f"{shown(seconds)} s"
