"""Runs tries as asyncio tasks of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proctor.errors import InternalError, describe
from proctor.model.attempt import Outcome, TryResult, issue_of
from proctor.model.events import TryEnded, TryEvent
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Sight
from proctor.runtime.job import Save, TryJob
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner


class LocalEngine:
    """Where tries run: in this process. Every try that was started reports exactly one `TryEnded`."""

    def __init__(self, *, emit: Callable[[TryEvent], None], clock: Clock, redactor: Redactor) -> None:
        self._emit = emit
        self._clock = clock
        self._redactor = redactor
        self._running: dict[str, tuple[asyncio.Task[None], TryRunner]] = {}
        self._forced = False

    def start(self, job: TryJob, save: Save) -> None:
        """Start a try; returns at once."""
        before = self._running.get(job.attempt)
        if before is not None and not before[1].ended:
            raise InternalError(f"attempt @{job.attempt} was started twice")
        runner = TryRunner(job, emit=self._emit, save=save, clock=self._clock, redactor=self._redactor)
        if self._forced:
            runner.force()
        task = asyncio.get_running_loop().create_task(runner.run())
        self._running[job.attempt] = task, runner
        task.add_done_callback(lambda task: self._ended(job, task))

    def grant(self, attempt: str) -> None:
        """Let a try that waits for its permits go on to grading."""
        self._running[attempt][1].grant()

    def resume(self, attempt: str) -> None:
        """Let a try go on whose backoff is over."""
        self._running[attempt][1].resume()

    def cancel(self, attempt: str) -> None:
        """Cancel a try; it answers with `TryEnded` when its sandboxes are gone."""
        if attempt in self._running:
            task, runner = self._running[attempt]
            runner.cancel()
            task.cancel()

    def cancel_all(self) -> None:
        """Cancel every try."""
        for attempt in list(self._running):
            self.cancel(attempt)

    def force(self) -> None:
        """Let every try end in a hurry, whatever it waits for; they were cancelled before."""
        self._forced = True
        for _, runner in self._running.values():
            runner.force()

    def sight(self, attempt: str) -> Sight | None:
        """Return what can be seen of the try of an attempt; None where none runs."""
        running = self._running.get(attempt)
        return None if running is None else running[1].sight()

    @property
    def running(self) -> int:
        """How many tries have not ended."""
        return len(self._running)

    async def wait(self) -> None:
        """Wait until no try is left."""
        while self._running:
            await asyncio.wait({task for task, _ in self._running.values()})

    def _ended(self, job: TryJob, task: asyncio.Task[None]) -> None:
        running = self._running.get(job.attempt)
        if running is not None and running[0] is task:  # not where a retry began in the moment this try ended
            del self._running[job.attempt]
        if task.cancelled():  # cancelled before its first step: nothing had begun
            self._emit(TryEnded(job.attempt, job.try_number, TryResult(Outcome.CANCELLED)))
        elif (error := task.exception()) is not None:
            issue = self._redactor.issue(issue_of("internal", f"the try runner failed: {describe(error)}"))
            self._emit(TryEnded(job.attempt, job.try_number, TryResult(Outcome.BROKEN, issues=(issue,))))
