"""The sandboxes of one try: opened with patience, disposed of whatever happens (spec 05, 06)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from proctor.errors import Fault, SkipTask, boundary, describe
from proctor.model.attempt import Phase
from proctor.model.events import Purpose, SandboxDisposed, SandboxOpened, TryEvent
from proctor.plugins.api import Sandbox, Session
from proctor.runtime.agent_box import AgentBox, SandboxHooks
from proctor.runtime.backoff import Backoff
from proctor.runtime.contexts import Patience
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.job import TryJob
from proctor.runtime.made import sandbox_of
from proctor.runtime.notes import Notes
from proctor.runtime.phases import Phases
from proctor.runtime.shield import end_task, shielded

CANCEL_GRACE_SECONDS = 5.0
"""How long an opening of a sandbox may take to end when it is cancelled."""
HURRIED_OPENING_SECONDS = COURTESY_SECONDS / 2
"""The same in a hurry: less than the phase around it may take, so that what became of it is still recorded."""

LATE = "the opening of a sandbox ignores its cancellation; what comes of it is removed only while this process lives"


class TrySandboxes:
    """Opens sandboxes for one try and disposes of them; that of a lane is the lane's to dispose of."""

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
        self._sandboxes: list[AgentBox] = []
        self._over = False

    @property
    def last(self) -> Sandbox | None:
        """The sandbox that was opened last and is not disposed of."""
        return self._sandboxes[-1].sandbox if self._sandboxes else None

    async def for_agent(self) -> AgentBox:
        """Open the sandbox of the try, or take that of its lane, which the first try in it opens."""
        lane = self._job.lane
        if lane is not None and lane.box is not None:
            return lane.box
        box = await self.open(Purpose.AGENT)
        if lane is not None:
            lane.box = box
            self._sandboxes.remove(box)  # the lane disposes of it
        return box

    async def open(self, purpose: Purpose) -> AgentBox:
        """Open a sandbox, as a phase; raises `Fault`. Only an agent's has hooks."""
        job = self._job
        labels = {**job.labels, "attempt": job.attempt, "try": str(job.try_number), "purpose": purpose.value}
        before = len(self._sandboxes)
        hooks = job.sandbox_hooks if purpose is Purpose.AGENT else ()
        try:
            asking = lambda: self._patience.repeat(lambda: self._open_sandbox(labels, hooks))  # noqa: E731
            return await self._phases.run(Phase.OPEN, job.limits.open_seconds, asking)
        finally:
            if len(self._sandboxes) > before:  # also when it was made in the moment the try was cancelled
                self._emit(SandboxOpened(job.attempt, job.try_number, self._sandboxes[-1].name, purpose))

    async def _open_sandbox(self, labels: Mapping[str, str], hooks: Sequence[SandboxHooks]) -> AgentBox:
        """Ask the provider; a cancelled opening is waited for, so that what it made after all becomes known."""

        async def opened() -> AgentBox:
            with boundary(Phase.OPEN):
                made: Any = await self._job.provider.open(self._job.environment, labels)
                try:
                    sandbox, name = sandbox_of(made)
                except BaseException:
                    await self._discard(made)
                    raise
            box = AgentBox(sandbox, name, hooks)
            self._sandboxes.append(box)
            if self._over:  # it came after everybody had stopped waiting for it
                self._take_time()
                await self._release_all(None)
            return box

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

    async def in_time(self, session: Session) -> Session | None:
        """Return a session that was started, unless nobody waits for it any more: it is closed then."""
        if not self._over:
            return session
        self._take_time()
        await self._close(session)
        return None

    def _take_time(self) -> None:
        """Let no hurry cut short what comes when everybody has stopped waiting: nothing presses any more."""
        self._hurry = Hurry()

    async def _release_all(self, session: Session | None) -> None:
        await self._backoff.close()
        if session is not None:
            await self._close(session)
        while self._sandboxes:
            await self._dispose(self._sandboxes.pop())

    async def _close(self, session: Session) -> None:
        await self._let_go(session, "close", "the harness session", COURTESY_SECONDS)

    async def _dispose(self, box: AgentBox) -> None:
        started, limit = self._phases.started(Phase.DISPOSE), self._job.limits.dispose_seconds
        hold = lambda: self._phases.hold(Phase.DISPOSE, limit)  # noqa: E731
        await box.tear_down(limit, self._hurry, self._notes.raise_issue, hold)
        gone = await self._let_go(box.sandbox, "dispose", f"sandbox {box.name}")
        self._phases.ended(Phase.DISPOSE, started)
        if gone:
            self._emit(SandboxDisposed(self._job.attempt, box.name))

    async def _discard(self, made: Any) -> None:
        """Dispose of what is no whole sandbox, where that can be asked of it."""
        if callable(getattr(made, "dispose", None)):
            await self._let_go(made, "dispose", "what the provider opened")

    async def reset(self, box: AgentBox) -> bool:
        """Make the sandbox of a lane ready for another try; say whether it is.

        A cancellation ends it, and a hurry soon: the lane is going to dispose of the sandbox, which needs the time.
        """
        return await self._let_go(
            box.sandbox, "reset", f"resetting sandbox {box.name}", COURTESY_SECONDS, CANCEL_GRACE_SECONDS
        )

    async def _let_go(
        self,
        owner: Any,
        method: Literal["close", "dispose", "reset"],
        what: str,
        hurried_seconds: float | None = None,
        cancelled_seconds: float | None = None,
    ) -> bool:
        """Release something within the limit of dispose; trouble is a warning beside the outcome, never instead.

        In a hurry it may take `hurried_seconds`, or all that is left; what it may take once it is cancelled is for
        what nobody needs then. The method is looked up where it is called: that is code of the plugin, too.
        """
        limit = self._job.limits.dispose_seconds

        async def guarded() -> None:
            self._phases.hold(Phase.DISPOSE, limit)
            with boundary(Phase.DISPOSE):
                await getattr(owner, method)()

        try:
            await shielded(guarded(), limit, self._hurry, hurried_seconds, cancelled_seconds)
        except (TimeoutError, asyncio.CancelledError, Fault, SkipTask) as error:
            if isinstance(error, asyncio.CancelledError) and cancelled_seconds is not None:
                return False
            timed_out = limit and isinstance(error, TimeoutError) and not self._hurry.begun
            why = f"not gone within {limit:g} s" if timed_out else describe(error)
            self._notes.raise_issue("dispose.failed", f"{what}: {why}")
            return False
        return True
