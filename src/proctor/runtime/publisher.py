"""From events to what is durable and shown: journal first, then commit, then display (spec 08 D1).

Events that end something are shown only after a commit has made them durable, and what came after them waits behind
them. Commits run in a thread, one at a time, at most one in `COMMIT_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from proctor.errors import StoreError
from proctor.model.events import FINAL_EVENTS, Event
from proctor.runtime.clock import Clock

COMMIT_SECONDS = 0.025
"""Commits are at least this far apart; a display lags by at most this and one commit."""

log = logging.getLogger(__name__)

Shown = tuple[str, Event, float]
"""(experiment, event, wall time): what a display gets."""


class RunSink(Protocol):
    """Where the events of one run go. Raises `StoreError` when it cannot write."""

    def append(self, event: Event, at: float) -> None:
        """Take an event into the journal's buffer."""
        ...

    def flush(self) -> None:
        """Write what is buffered to the file."""
        ...

    def commit(self) -> None:
        """Make what was flushed durable and write what is derived from it; called in a thread."""
        ...


class Publisher:
    """Takes events in order; `on_failure` is called once, when results cannot be written any more."""

    def __init__(
        self,
        runs: Mapping[str, RunSink],
        show: Callable[[Sequence[Shown]], None],
        clock: Clock,
        *,
        on_failure: Callable[[], None],
    ) -> None:
        self._runs = dict(runs)
        self._show = show
        self._clock = clock
        self._on_failure = on_failure
        self._unshown: list[Shown] = []
        self._final_unshown = False
        self._commit_needed = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="proctor-commit")
        self._committer: asyncio.Task[None] | None = None
        self.error: StoreError | None = None

    def start(self) -> asyncio.Task[None]:
        """Begin to commit; the task ends with `close`, or by itself when there is a bug."""
        self._committer = asyncio.get_running_loop().create_task(self._commit_forever())
        return self._committer

    async def close(self) -> None:
        """Commit and show what is left."""
        self._closing = True
        self._commit_needed.set()
        if self._committer is not None:
            await asyncio.wait({self._committer})
        self._thread.shutdown(wait=False)

    def record(self, experiment: str, event: Event) -> None:
        """Journal one event of a run."""
        if self.error is not None:
            return  # nothing is shown that is not kept
        at = self._clock.wall()
        try:
            self._runs[experiment].append(event, at)
        except StoreError as error:
            self._fail(error)
            return
        self._unshown.append((experiment, event, at))
        self._final_unshown = self._final_unshown or isinstance(event, FINAL_EVENTS)

    def end_step(self) -> None:
        """Write what a step journaled, before any of the tries that it started takes its first step."""
        if self.error is None:
            try:
                for run in self._runs.values():
                    run.flush()
            except StoreError as error:
                self._fail(error)
        if self.error is not None:
            return
        if self._final_unshown:
            self._commit_needed.set()
        elif self._unshown:
            shown, self._unshown = self._unshown, []
            self._show(shown)

    async def _commit_forever(self) -> None:
        """Commit when there is need, until it is closed and everything is shown."""
        while not self._closing:
            await self._commit_needed.wait()
            await self._commit()
            if not self._closing:
                await asyncio.sleep(COMMIT_SECONDS)
        while self._unshown and self.error is None:
            await self._commit()

    async def _commit(self) -> None:
        self._commit_needed.clear()
        ready = len(self._unshown)
        if ready == 0 or self.error is not None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._commit_runs)
        except StoreError as error:
            self._fail(error)
            return
        shown, self._unshown = self._unshown[:ready], self._unshown[ready:]
        self._final_unshown = any(isinstance(event, FINAL_EVENTS) for _, event, _ in self._unshown)
        self._show(shown)
        if self._final_unshown:
            self._commit_needed.set()

    def _commit_runs(self) -> None:
        for run in self._runs.values():
            run.commit()

    def _fail(self, error: StoreError) -> None:
        """Results cannot be written any more: dispatch stops, what runs is cancelled, what is kept stays (08 D5)."""
        if self.error is None:
            self.error = error
            self._unshown = []
            log.error("%s", error.message)
            self._on_failure()
