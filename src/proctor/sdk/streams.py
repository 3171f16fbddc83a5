"""What happens in a call, event by event, while it goes on."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from proctor.cli.rooms import Follower
from proctor.model.events import Event
from proctor.store.codec import encode

HELD_AT_MOST = 200_000
"""So many events are held for a reader that is slower than the run; what comes then is left out, which is said."""

LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One line of what `--json` writes."""

    type: str
    """`plan` (the first), the name of an event such as `TryStarted`, or `receipt` (the last); `left_out` stands where
    the reader was too slow, and `data["count"]` events are missing."""
    experiment: str | None = None
    """The experiment that an event is about; None for what is about all."""
    event: Event | None = None
    """The event itself; None for what is none."""
    at: float | None = None
    """When it happened: seconds since 1970 UTC."""
    _data: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def data(self) -> Mapping[str, Any]:
        """The content as `--json` has it, `type` and `experiment` among it."""
        if self.event is None:
            return {"type": self.type, **self._data}
        return {"experiment": self.experiment, **json.loads(encode(self.event, self.at or 0.0))}


class _Queue:
    """Holds events for a reader without ever holding up the run."""

    def __init__(self) -> None:
        self._held: deque[StreamEvent] = deque()
        self._wake = asyncio.Event()
        self._left_out = 0

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Take an event, or count it among those that are left out."""
        if len(self._held) >= HELD_AT_MOST:
            self._left_out += 1
            return
        self._say_left_out()
        self._held.append(StreamEvent(type(event).__name__, experiment, event, at))

    def write(self, kind: str, data: dict[str, Any]) -> None:
        """Take what is no event; it is never left out."""
        self._say_left_out()
        self._held.append(StreamEvent(kind, _data=data))

    def flush(self) -> None:
        """Let the reader know."""
        self._wake.set()

    def _say_left_out(self) -> None:
        if self._left_out:
            self._held.append(StreamEvent(LEFT_OUT, _data={"count": self._left_out}))
            self._left_out = 0

    async def follow(self, work: asyncio.Task[Any]) -> AsyncGenerator[StreamEvent]:
        """Yield what comes until the work is done and everything of it was read."""
        work.add_done_callback(lambda _: self._wake.set())
        while True:
            while self._held:
                yield self._held.popleft()
            if work.done():
                return
            self._wake.clear()
            await self._wake.wait()


async def stream_of(run: Callable[[Follower], Coroutine[Any, Any, Any]]) -> AsyncGenerator[StreamEvent]:
    """Yield what happens in `run`, which is given what shows it. Raises what `run` raises.

    To close the generator is a first interrupt, and is done when the clean-up is over; a cancellation of whoever waits
    for that is a second one.
    """
    queue = _Queue()
    work = asyncio.get_running_loop().create_task(run(queue))
    try:
        async with aclosing(queue.follow(work)) as events:
            async for event in events:
                yield event
        await work
    finally:
        await _ended(work)


async def _ended(work: asyncio.Task[Any]) -> None:
    """Interrupt work that still goes on, and wait for its end."""
    cancelled: asyncio.CancelledError | None = None
    if not work.done():
        work.cancel()
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
            work.cancel()
    if not work.cancelled():
        work.exception()  # it was raised to whoever read on; one who closed the stream asked for no more
    if cancelled is not None:
        raise cancelled
