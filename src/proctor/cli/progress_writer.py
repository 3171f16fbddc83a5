"""Keeps `progress.json` of every run of an invocation up to date, whatever the terminal shows (spec 07).

The event loop only copies what is in flight; a thread of its own writes it down, syncs and renames it. How often
depends on what it costs: at most once a second, and seldom enough that neither the processor nor the disk notices.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from proctor import __version__
from proctor.cli.estimating import Estimator
from proctor.cli.progress_rows import flight_row
from proctor.cli.rooms import Room
from proctor.core.task_limits import limits_of
from proctor.errors import StoreError, describe
from proctor.model.ids import AttemptId
from proctor.model.spec import TimeLimits
from proctor.report.in_flight import InFlight
from proctor.report.summary import total_cost
from proctor.report.view import RunView
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Sight
from proctor.store.owner import Owner, owner_if_known
from proctor.store.plain import escape_surrogates
from proctor.store.progress_file import FORMAT, Left, Progress, ProgressFile, encode_progress

EVERY_SECONDS = 1.0
AT_MOST_SECONDS = 15.0
"""However much it costs: who looks wants to know whether it goes on."""

COMPUTING_SHARE = 0.005
"""So much of one processor the writing may take."""
WAITING_SHARE = 0.1
"""So much of its time the thread may wait for the disk."""

LAST_SECONDS = 5.0
"""How long the end waits for the last one to be written."""

log = logging.getLogger(__name__)


def _limits_of(room: Room, task: str) -> TimeLimits:
    return limits_of(room.plan.tasks[room.tasks[task]], room.resolved.experiment.limits)


@dataclass(frozen=True, slots=True)
class _Moment:
    """How a run stands, copied on the event loop; what is in flight is worked out in the thread."""

    room: Room
    in_flight: Sequence[tuple[AttemptId, InFlight]]
    waiting_for_grading: frozenset[AttemptId]
    progress: Progress


@dataclass(slots=True)
class _Order:
    moments: Sequence[_Moment]
    seconds: float
    """What copying them took."""
    done: Callable[[float], None]


@dataclass(slots=True)
class ProgressWriter:
    """Writes the progress of all runs of an invocation. Nothing that goes wrong here fails or holds a run."""

    invocation: str
    rooms: Mapping[str, Room]
    views: Mapping[str, RunView]
    clock: Clock
    estimator: Estimator
    """Of what is left for the whole invocation."""
    waiting: Callable[[], Mapping[str, Mapping[str, int]] | None] = lambda: None
    """How many queued attempts of each experiment wait for what."""
    time_limit_at: float | None = None
    sight: Callable[[AttemptId], Sight | None] = lambda _: None
    """What can be seen of a try; there once the loop runs."""
    retry_in: Callable[[AttemptId], float | None] = lambda _: None
    """How long an attempt still waits between two tries."""
    _owner: Owner | None = field(default_factory=owner_if_known)
    """None where nobody can tell who writes it; everything else can be told."""
    _orders: queue.SimpleQueue[_Order | None] = field(default_factory=queue.SimpleQueue["_Order | None"])
    _thread: threading.Thread | None = None
    _files: dict[str, ProgressFile] = field(default_factory=dict[str, ProgressFile])
    _failed: set[Path] = field(default_factory=set[Path])
    _every: float = EVERY_SECONDS

    async def write_forever(self) -> None:
        """Write until it is cancelled."""
        while True:
            await self._write(ended=False)
            await asyncio.sleep(self._every)

    async def end(self, patience_seconds: float = LAST_SECONDS) -> None:
        """Write the last one, and wait for it at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(LAST_SECONDS, patience_seconds)):
                await self._write(ended=True)
        self._orders.put(None)
        self._thread = None

    async def _write(self, *, ended: bool) -> None:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[float] = loop.create_future()

        def done(pause: float) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: None if written.done() else written.set_result(pause))

        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="proctor-progress", daemon=True)
            self._thread.start()
        began = self.clock.monotonic()
        try:
            waiting = self.waiting()
            left = None if ended else Left(**asdict(self.estimator.estimate()))  # once: it goes over all the views
            moments = [self._moment(name, view, waiting, left) for name, view in self.views.items()]
        except Exception:
            log.exception("a bug of proctor: the progress of the runs cannot be told")
            return
        self._orders.put(_Order(moments, self.clock.monotonic() - began, done))
        self._every = await written

    def _moment(
        self, name: str, view: RunView, waiting: Mapping[str, Mapping[str, int]] | None, left: Left | None
    ) -> _Moment:
        """Copy how a run stands; nothing is `left` at the end."""
        now = self.clock.wall()
        room = self.rooms[name]
        progress = Progress(
            format=FORMAT,
            proctor=__version__,
            invocation=self.invocation,
            run=room.writer.run_id,
            experiment=escape_surrogates(name),
            owner=self._owner,
            started_at=round(view.started_at or now, 3),
            written_at=round(now, 3),
            every_seconds=round(self._every, 3),
            ended=left is None,
            completion=view.completion.value if view.completion else None,
            counts=asdict(view.counts),
            backing_off=view.backing_off,
            waiting_for_grading=len(view.waiting_for_grading),
            between_tries=view.between_tries,
            cost_usd=total_cost(view),
            cost_at_least_usd=view.all_usage.cost_at_least_usd,
            unpriced_calls=view.all_usage.unpriced_calls,
            estimate=left,
            waiting=dict(waiting.get(name, {})) if waiting is not None else None,
            time_limit_at=self.time_limit_at,
        )
        return _Moment(room, list(view.in_flight.items()), frozenset(view.waiting_for_grading), progress)

    # ---------------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            computed, waited = order.seconds, 0.0
            for moment in order.moments:
                path = moment.room.writer.layout.progress
                began = self.clock.monotonic()
                made = began
                try:
                    data = self._encoded(moment)
                    made = self.clock.monotonic()
                    self._files.setdefault(str(path), ProgressFile(path)).write(data)
                except Exception as error:
                    self._said(path, error)
                computed += made - began
                waited += self.clock.monotonic() - made
            pause = max(EVERY_SECONDS, computed / COMPUTING_SHARE, waited / WAITING_SHARE)
            order.done(min(pause, AT_MOST_SECONDS))

    def _said(self, path: Path, error: Exception) -> None:
        """Say once of each file that it cannot be written; what fails a run is said where results are written."""
        if path not in self._failed:
            self._failed.add(path)
            what = error.message if isinstance(error, StoreError) else describe(error)
            log.warning("progress is not told to others: %s", what)

    def _encoded(self, moment: _Moment) -> bytes:
        limits = partial(_limits_of, moment.room)
        now, wall = self.clock.monotonic(), self.clock.wall
        shift = wall() - now
        rows = moment.progress.in_flight
        for attempt, flight in moment.in_flight:
            graded = attempt in moment.waiting_for_grading
            again = self.retry_in(attempt) if flight.ended else None
            sight = self.sight(attempt)
            rows.append(flight_row(attempt, flight, sight, limits, now + shift, waits=graded, retry_in=again))
        return encode_progress(moment.progress)
