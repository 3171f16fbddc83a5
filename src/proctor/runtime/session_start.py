"""The session of a try: that of the harness, or that of a benchmark whose tasks are programs, which starts its own."""

from __future__ import annotations

from typing import Any

from proctor.errors import Fault, boundary
from proctor.model.attempt import Phase
from proctor.plugins.api import Collected, Message, Session, StartSession, Turn
from proctor.runtime.contexts import TryContext
from proctor.runtime.job import TryJob
from proctor.runtime.made import session_of
from proctor.runtime.notes import Notes
from proctor.runtime.recorded_tools import RecordedTools, RecordingSession


async def started_session(job: TryJob, context: TryContext, notes: Notes) -> Session:
    """Return the session that a try sends its task to, started in phase setup. Raises `Fault`."""

    async def start() -> Session:
        """Start one session of the harness, in whatever phase."""
        with boundary(notes.phase or Phase.SETUP, "harness.crashed"):
            session = session_of(await job.harness.start(context))
        turns: Any = getattr(job.harness, "turns", None)
        return session if turns is None else CountedTurns(session, turns, job.harness.name)

    tools: Any = getattr(job.benchmark, "tools", None)
    if tools is None:
        return await _begun(job, context, start)
    with boundary(Phase.SETUP):
        context.tools = recorded = RecordedTools(await tools(context), context, notes)
    return RecordingSession(await _begun(job, context, start), recorded)


async def _begun(job: TryJob, context: TryContext, start: StartSession) -> Session:
    """Return the session of the harness, or that of a benchmark whose tasks are programs."""
    drive: Any = getattr(job.benchmark, "drive", None)
    if drive is None:
        return await start()
    with boundary(Phase.SETUP):
        return session_of(await drive(context, start))


class CountedTurns:
    """A session of a harness that takes so many turns; one more is refused at that call."""

    def __init__(self, session: Session, turns: int, harness: str) -> None:
        self._session = session
        self._turns = turns
        self._harness = harness
        self._made = 0

    async def send(self, message: Message) -> Turn:
        """Make one turn. Raises `Fault` (task.crashed) where that is one too many."""
        if self._made >= self._turns:
            takes = "one turn" if self._turns == 1 else f"{self._turns} turns"
            why = f"harness `{self._harness}` takes {takes} in a session, and turn {self._made + 1} was asked for"
            raise Fault("task.crashed", f"{why}: use another harness, or start a new session for it")
        self._made += 1
        return await self._session.send(message)

    async def collect(self) -> Collected:
        """Return what is to be kept."""
        return await self._session.collect()

    async def close(self) -> None:
        """Free what the session holds."""
        await self._session.close()


__all__ = ["CountedTurns", "started_session"]
