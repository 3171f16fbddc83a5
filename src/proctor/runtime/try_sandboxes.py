"""The sandboxes of one try: opened with patience, disposed of whatever happens (spec 05, 06)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from proctor.errors import Fault, boundary, describe
from proctor.model.attempt import Phase
from proctor.model.events import Purpose, SandboxDisposed, SandboxOpened, TryEvent
from proctor.plugins.api import Sandbox, Session
from proctor.runtime.backoff import Backoff
from proctor.runtime.contexts import Patience
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.job import TryJob
from proctor.runtime.notes import Notes
from proctor.runtime.phases import Phases
from proctor.runtime.shield import end_task, shielded

CANCEL_GRACE_SECONDS = 5.0
"""How long an opening of a sandbox may take to end when it is cancelled."""
HURRIED_OPENING_SECONDS = COURTESY_SECONDS / 2
"""The same in a hurry: less than the phase around it may take, so that what became of it is still recorded."""

LATE = "the opening of a sandbox ignores its cancellation; what comes of it is removed only while this process lives"


class TrySandboxes:
    """Opens sandboxes for one try and disposes of them; that of a lane is handed over to the lane."""

    def __init__(
        self,
        job: TryJob,
        *,
        emit: Callable[[TryEvent], None],
        notes: Notes,
        phases: Phases,
        backoff: Backoff,
        patience: Patience,
        hurry: Hurry | None = None,
    ) -> None:
        self._job = job
        self._emit = emit
        self._notes = notes
        self._phases = phases
        self._backoff = backoff
        self._patience = patience
        self._hurry = hurry or Hurry()
        self._sandboxes: list[Sandbox] = []
        self._over = False

    @property
    def last(self) -> Sandbox | None:
        """The sandbox that was opened last and is not disposed of."""
        return self._sandboxes[-1] if self._sandboxes else None

    def hand_over(self, sandbox: Sandbox) -> None:
        """Leave the disposal of a sandbox to somebody else."""
        self._sandboxes.remove(sandbox)

    async def open(self, purpose: Purpose) -> Sandbox:
        """Open a sandbox, as a phase; raises `Fault`."""
        job = self._job
        labels = {**job.labels, "attempt": job.attempt, "try": str(job.try_number), "purpose": purpose.value}
        before = len(self._sandboxes)
        try:
            asking = lambda: self._patience.repeat(lambda: self._open_sandbox(labels))  # noqa: E731
            return await self._phases.run(Phase.OPEN, job.limits.open_seconds, asking)
        finally:
            if len(self._sandboxes) > before:  # also when it was made in the moment the try was cancelled
                self._emit(SandboxOpened(job.attempt, job.try_number, str(self._sandboxes[-1].id), purpose))

    async def _open_sandbox(self, labels: Mapping[str, str]) -> Sandbox:
        """Ask the provider; a cancelled opening is waited for, so that what it made after all becomes known."""

        async def opened() -> Sandbox:
            with boundary(Phase.OPEN):
                sandbox = await self._job.provider.open(self._job.environment, labels)
            self._sandboxes.append(sandbox)
            if self._over:  # it came after everybody had stopped waiting for it, so nothing presses any more
                self._hurry = Hurry()
                await self._release_all(None)
            return sandbox

        opening = asyncio.get_running_loop().create_task(opened())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not await end_task(opening, CANCEL_GRACE_SECONDS, self._hurry, HURRIED_OPENING_SECONDS):
                self._notes.raise_issue("dispose.failed", LATE)
            raise

    async def release(self, session: Session | None) -> None:
        """Close the session and dispose of every sandbox, whatever happens to the try meanwhile."""
        if session is not None or self._sandboxes:
            await shielded(self._release_all(session), None)

    async def end(self, session: Session | None) -> None:
        """Release everything; a sandbox that comes later is disposed of at once."""
        self._over = True
        await self.release(session)

    async def _release_all(self, session: Session | None) -> None:
        await self._backoff.close()
        if session is not None:
            await self.let_go(session.close, "the harness session", COURTESY_SECONDS)
        while self._sandboxes:
            sandbox = self._sandboxes.pop()
            started = self._phases.started(Phase.DISPOSE)
            gone = await self.let_go(sandbox.dispose, f"sandbox {sandbox.id}")
            self._phases.ended(Phase.DISPOSE, started)
            if gone:
                self._emit(SandboxDisposed(self._job.attempt, str(sandbox.id)))

    async def let_go(
        self, release: Callable[[], Awaitable[None]], what: str, hurried_seconds: float | None = None
    ) -> bool:
        """Release something within the limit of dispose; trouble is a warning beside the outcome, never instead.

        In a hurry it may take `hurried_seconds`, or all that is left.
        """
        limit = self._job.limits.dispose_seconds

        async def guarded() -> None:
            self._phases.hold(Phase.DISPOSE, limit)
            with boundary(Phase.DISPOSE):
                await release()

        try:
            await shielded(guarded(), limit, self._hurry, hurried_seconds)
        except (TimeoutError, asyncio.CancelledError, Fault) as error:
            timed_out = limit and isinstance(error, TimeoutError) and not self._hurry.begun
            why = f"not gone within {limit:g} s" if timed_out else describe(error)
            self._notes.raise_issue("dispose.failed", f"{what}: {why}")
            return False
        return True
