"""How a try lets go of what plugins made for it: closes, disposes, resets, keeps, each within the limit of dispose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from proctor.errors import Fault, SkipTask, boundary, describe
from proctor.model.attempt import Phase
from proctor.model.events import SandboxDisposed, TryEvent
from proctor.plugins.api import Session
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.job import TryJob
from proctor.runtime.notes import Notes
from proctor.runtime.phases import Phases
from proctor.runtime.shield import shielded

CANCEL_GRACE_SECONDS = 5.0
"""How long what nobody needs any more may take to end when it is cancelled."""


class LettingGo:
    """Lets go of the sessions and sandboxes of one try; trouble is a warning beside its outcome, never instead."""

    def __init__(
        self, job: TryJob, *, emit: Callable[[TryEvent], None], notes: Notes, phases: Phases, hurry: Hurry
    ) -> None:
        self._job = job
        self._emit = emit
        self._notes = notes
        self._phases = phases
        self.hurry = hurry

    def take_time(self) -> None:
        """Let no hurry cut short what comes when everybody has stopped waiting: nothing presses any more."""
        self.hurry = Hurry()

    async def close(self, session: Session) -> None:
        """Close a session."""
        await self._let_go(session, "close", "the harness session", COURTESY_SECONDS)

    async def dispose(self, box: AgentBox) -> None:
        """Undo what hooks did to a sandbox and dispose of it, as a phase."""
        started = await self._torn_down(box)
        gone = await self._let_go(box.sandbox, "dispose", f"sandbox {box.name}")
        self._phases.ended(Phase.DISPOSE, started)
        if gone:
            self._emit(SandboxDisposed(self._job.attempt, box.name))

    async def set_aside(self, box: AgentBox) -> None:
        """Undo what hooks did to a sandbox, as a phase: nothing uses it from then on, and it holds no gate."""
        self._phases.ended(Phase.DISPOSE, await self._torn_down(box))

    async def keep(self, box: AgentBox) -> bool:
        """Let a sandbox live on for a person, as a phase; say whether it does."""
        started = await self._torn_down(box)
        kept = await self._let_go(box.sandbox, "keep", f"keeping sandbox {box.name}", None, CANCEL_GRACE_SECONDS)
        self._phases.ended(Phase.DISPOSE, started)
        return kept

    async def reset(self, box: AgentBox) -> bool:
        """Make the sandbox of a lane ready for another try; say whether it is.

        A cancellation ends it, and a hurry soon: the lane is going to dispose of the sandbox, which needs the time.
        """
        return await self._let_go(
            box.sandbox, "reset", f"resetting sandbox {box.name}", COURTESY_SECONDS, CANCEL_GRACE_SECONDS
        )

    async def discard(self, made: Any) -> None:
        """Dispose of what is no whole sandbox, where that can be asked of it."""
        if callable(getattr(made, "dispose", None)):
            await self._let_go(made, "dispose", "what the provider opened")

    async def _torn_down(self, box: AgentBox) -> float:
        """Begin the phase, and undo what hooks did; what is returned is for its end."""
        started, limit = self._phases.started(Phase.DISPOSE), self._job.limits.dispose_seconds
        hold = lambda: self._phases.hold(Phase.DISPOSE, limit)  # noqa: E731
        await box.tear_down(limit, self.hurry, self._notes.raise_issue, hold)
        return started

    async def _let_go(
        self,
        owner: Any,
        method: Literal["close", "dispose", "keep", "reset"],
        what: str,
        hurried_seconds: float | None = None,
        cancelled_seconds: float | None = None,
    ) -> bool:
        """Release something within the limit of dispose; say whether that went well.

        In a hurry it may take `hurried_seconds`, or all that is left; what it may take once it is cancelled is for
        what nobody needs then. The method is looked up where it is called: that is code of the plugin, too.
        """
        limit = self._job.limits.dispose_seconds

        async def guarded() -> None:
            self._phases.hold(Phase.DISPOSE, limit)
            with boundary(Phase.DISPOSE):
                await getattr(owner, method)()

        try:
            await shielded(guarded(), limit, self.hurry, hurried_seconds, cancelled_seconds)
        except (TimeoutError, asyncio.CancelledError, Fault, SkipTask) as error:
            if isinstance(error, asyncio.CancelledError) and cancelled_seconds is not None:
                return False
            timed_out = limit and isinstance(error, TimeoutError) and not self.hurry.begun
            why = f"not {'done' if method == 'keep' else 'gone'} within {limit:g} s" if timed_out else describe(error)
            self._notes.raise_issue("dispose.failed", f"{what}: {why}")
            return False
        return True
