"""Sessions of the harness as the function of a task talks to them: turn by turn, each session with its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from proctor.authoring.awaiting import Awaiting
from proctor.authoring.left_running import of_others
from proctor.authoring.recorded_checks import RECORD_NAME
from proctor.errors import Fault, SkipTask, boundary, fault_of
from proctor.model.attempt import Phase, Usage
from proctor.model.spec import Json
from proctor.plugins.api import AttemptContext, Collected, Message, Session, StartSession, Turn

T = TypeVar("T")

Step = Callable[[], Awaitable[None]]
"""Something that is done before or after a turn."""


class Sessions:
    """All sessions of one try; the first is started before the function is called."""

    def __init__(self, ctx: AttemptContext, start: StartSession, awaiting: Awaiting) -> None:
        self._ctx = ctx
        self._start = start
        self._awaiting = awaiting
        self._opened: list[TaskSession] = []
        self._over = False
        self._main: asyncio.Task[Any] | None = None
        self._in_flight = 0
        self._overlaps = 0
        self.before_turn: Step | None = None
        self.after_turn: Step | None = None

    def begin(self) -> None:
        """Note the task of the event loop in which the function is executed."""
        self._main = asyncio.current_task()

    async def open(self) -> TaskSession:
        """Start one more session. Raises what the harness raises."""
        if self._over:
            raise RuntimeError("the task is over: no session can be started any more")
        with of_others():
            session = await self._start()
        if self._over:
            await session.close()
            raise RuntimeError("the task was over before the session had started")
        opened = TaskSession(session, self, self._awaiting)
        self._opened.append(opened)
        return opened

    async def turn(self, session: Session, text: str) -> Turn:
        """Make one turn of a session. What the harness raises is its own, whoever asked for the turn."""
        if self._over:
            raise RuntimeError("the task is over: no turn can be made any more")
        if self.before_turn is not None:
            await self.before_turn()
        before, overlaps = self._used(), self._overlaps
        self._overlaps += self._in_flight > 0
        alone = self._in_flight == 0
        self._in_flight += 1
        try:
            answered = await self._of_harness(lambda: session.send(Message(text)))
        except Exception:
            if self.after_turn is not None:
                with suppress(Fault):  # what the turn met counts, whoever catches it
                    await self.after_turn()
            raise
        finally:
            self._in_flight -= 1
        if self.after_turn is not None:
            await self.after_turn()
        alone = alone and overlaps == self._overlaps
        return _turn(answered, _used_between(before, self._used()) if alone else None)

    def _used(self) -> Usage | None:
        return getattr(self._ctx, "used", None)

    async def _of_harness(self, call: Callable[[], Awaitable[T]]) -> T:
        if asyncio.current_task() is self._main:
            with boundary(Phase.AGENT), of_others():
                return await call()
        try:  # in a task of the function's own, whose cancellation is that function's affair
            with of_others():
                return await call()
        except (Fault, SkipTask, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise fault_of(error, Phase.AGENT) from error

    async def collect(self) -> Collected:
        """Return the trajectory of the first session, and the files of all: those of later ones in folders."""
        trajectory: Json | None = None
        files: dict[str, bytes] = {}
        for number, opened in enumerate(self._opened, 1):
            found: Any = await opened.session.collect()
            if not isinstance(found, Collected):
                raise Fault("harness.crashed", f"the harness collected {type(found).__name__}, not a Collected")
            folder = "" if number == 1 else f"session-{number}/"
            if number == 1:
                trajectory = found.trajectory
            elif found.trajectory is not None:
                files[f"{folder}trajectory.json"] = json.dumps(found.trajectory, indent=1).encode("utf-8", "replace")
            for name, content in found.files.items():
                files[f"session-1/{name}" if folder + name == RECORD_NAME else folder + name] = content
        return Collected(trajectory, files)

    async def close(self) -> None:
        """Close every session, also where one cannot be closed; raises the first trouble."""
        self._over = True
        trouble: Exception | None = None
        while self._opened:
            try:
                await self._opened.pop().session.close()
            except Exception as error:
                trouble = trouble or error
        if trouble is not None:
            raise trouble


class TaskSession:
    """One session of the harness: a conversation with the agent, of as many turns as the harness can make."""

    def __init__(self, session: Session, sessions: Sessions, awaiting: Awaiting) -> None:
        self.session = session
        self.answer: str | None = None
        """The answer of the last turn."""
        self.turns = 0
        """How many turns were begun."""
        self._sessions = sessions
        self._awaiting = awaiting
        self._busy = False

    def send(self, text: str) -> Coroutine[Any, Any, Turn]:
        """Send a text to the agent and wait for its turn: `turn = await session.send("...")`.

        The turn has `answer`, and `usage` and `steps` where they are known. Raises what the harness raises.
        """
        return self._awaiting.watch(self._send(text), "session.send(...)")

    async def _send(self, text: str) -> Turn:
        if type(text) is not str:
            raise TypeError(f"what is sent to the agent must be a text, not {type(text).__name__}")
        if self._busy:
            raise RuntimeError(
                "a turn of this session is still going on: await it first, or make another session with "
                "`await t.new_session()`"
            )
        self._busy = True
        self.turns += 1
        try:
            turn = await self._sessions.turn(self.session, text)
        finally:
            self._busy = False
        self.answer = turn.answer
        return turn


def _turn(answered: Any, used: Usage | None) -> Turn:
    """Return a turn with what is known of it; raises `Fault` for what is no turn."""
    answer: Any = getattr(answered, "answer", None)
    if answer is not None and not isinstance(answer, str):
        raise Fault("harness.crashed", f"the harness returned an answer of type {type(answer).__name__}, not text")
    turn = answered if isinstance(answered, Turn) else Turn(answer)
    usage = turn.usage if turn.usage is not None else used
    calls = usage.calls if usage is not None and usage.calls else None
    return replace(turn, usage=usage, steps=turn.steps if turn.steps is not None else calls)


def _used_between(before: Usage | None, after: Usage | None) -> Usage | None:
    """Return what was used from one moment to another; a cost is known only where it was known all the time."""
    if before is None or after is None:
        return None
    known = after.cost_usd is not None and (before.cost_usd is not None or before == Usage())
    cost = max(0.0, after.cost_at_least_usd - before.cost_at_least_usd)
    calls, unpriced = after.calls - before.calls, after.unpriced_calls - before.unpriced_calls
    return Usage(
        calls=calls,
        input_tokens=after.input_tokens - before.input_tokens,
        output_tokens=after.output_tokens - before.output_tokens,
        cache_read_tokens=after.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=after.cache_write_tokens - before.cache_write_tokens,
        reasoning_tokens=after.reasoning_tokens - before.reasoning_tokens,
        cost_usd=cost if known else None,
        known_cost_usd=None if known else cost or None,
        priced_calls=0 if known else max(0, calls - unpriced),
        price_sources=after.price_sources if known or cost else (),
    )


__all__ = ["Sessions", "TaskSession"]
