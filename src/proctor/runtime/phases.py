"""The phases of one try: each with its limit, its events, and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from proctor.errors import Fault, boundary
from proctor.model.attempt import Phase
from proctor.model.events import PhaseEnded, PhaseStarted, TryEvent
from proctor.runtime.backoff import Backoff
from proctor.runtime.clock import Clock
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.shield import end_task

T = TypeVar("T")

PHASE_GRACE_SECONDS = 6.0
"""How long a cancelled phase may take to end, an opening inside it included."""

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
    """Runs phases and reports them."""

    def __init__(
        self,
        attempt: str,
        *,
        emit: Callable[[TryEvent], None],
        clock: Clock,
        notes: Notes,
        log: TryLog,
        backoff: Backoff,
    ) -> None:
        self._attempt = attempt
        self._emit = emit
        self._clock = clock
        self._notes = notes
        self._log = log
        self._backoff = backoff

    async def run(self, phase: Phase, limit: float | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one phase within its limit. Raises `Fault`, `SkipTask` or `CancelledError`, nothing else.

        The work is a task of its own: what ignores its cancellation is abandoned after a grace, and holds nobody.
        """

        async def guarded() -> T:
            with boundary(phase):
                return await work()

        await self._backoff.settle()
        started = self.started(phase)
        task = asyncio.get_running_loop().create_task(guarded())
        try:
            async with self._backoff.limit(limit):
                await asyncio.wait({task})
        except TimeoutError as error:
            ended = await end_task(task, PHASE_GRACE_SECONDS)
            message = f"{phase} reached its limit of {limit:g} s" + ("" if ended else IGNORES_CANCELLATION)
            raise Fault(_TIME_CODES[phase], message, phase=phase) from error
        except asyncio.CancelledError:
            if not await end_task(task, PHASE_GRACE_SECONDS):
                self._log.logger.warning("%s%s", phase, IGNORES_CANCELLATION)
            raise
        finally:
            self.ended(phase, started)
        return task.result()

    def started(self, phase: Phase) -> float:
        """Announce a phase; what is returned is for `ended`."""
        self._notes.phase = phase
        self._emit(PhaseStarted(self._attempt, phase))
        return self._clock.monotonic() - self._backoff.waited_seconds

    def ended(self, phase: Phase, started: float) -> None:
        """Announce the end of a phase, with what it executed: waits are not counted."""
        executed = self._clock.monotonic() - self._backoff.waited_seconds - started
        self._emit(PhaseEnded(self._attempt, phase, round(max(0.0, executed), 6)))
