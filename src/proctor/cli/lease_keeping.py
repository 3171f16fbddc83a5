"""The leases of an invocation: asked for until they are granted, kept alive, given back (spec 03 S1-S3)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from proctor.errors import StoreError
from proctor.model.events import LeaseGranted, LeaseRefused, RunEvent
from proctor.runtime.clock import Clock, utc
from proctor.store.lease_info import Granted, Held, LeaseInfo, LeaseWait, Teardown, advice
from proctor.store.leases import Leases

HEARTBEAT_SECONDS = 10.0

log = logging.getLogger(__name__)


class HasLease(Protocol):
    """What a lease has to know of its experiment."""

    @property
    def run(self) -> str | None:
        """The run that asks, for people."""
        ...

    @property
    def teardown(self) -> Teardown | None:
        """What a recovery of the lease has to run."""
        ...


class LeaseKeeping:
    """The leases of the experiments of one invocation. `tell` says something that the user has to know."""

    def __init__(
        self, about: Mapping[str, HasLease], leases: Leases, wait: LeaseWait, clock: Clock, tell: Callable[[str], None]
    ) -> None:
        self._about = about
        self._leases = leases
        self._wait = wait
        self._clock = clock
        self._tell = tell
        self._told: set[str] = set()
        self.holders: dict[str, str] = {}
        """Who holds what was asked for last, by key, in words."""
        self._keys: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._kept: dict[str, str] = {}
        self._heart: asyncio.Task[None] | None = None

    def key(self, experiment: str) -> str | None:
        """Return the key that an experiment has asked for, or None."""
        return self._keys.get(experiment)

    @property
    def held(self) -> list[str]:
        """The experiments that hold their lease."""
        return list(self._tokens)

    async def acquire(self, experiment: str, key: str, emit: Callable[[RunEvent], None]) -> None:
        """Ask until the lease is granted or the wait that is allowed is over, and say which by `emit`."""
        self._keys[experiment] = key
        started = self._clock.monotonic()
        said = False
        while True:
            try:
                answer = await self._ask(experiment, key)
            except StoreError as error:
                emit(LeaseRefused(experiment, error.message))
                return
            for notice in dict.fromkeys(self._leases.notices):
                if notice not in self._told:
                    self._told.add(notice)
                    self._tell(notice)
            if isinstance(answer, Granted):
                self._keep_alive()
                emit(LeaseGranted(experiment))
                return
            self.holders[key] = _held_by(answer.info)
            if not said:
                said = True
                why = advice(answer.info, answer.life)
                self._tell(f"waiting for shared state `{key}`, held by {answer.info.holder}: {why}")
            delay = self._wait.next_poll(self._clock.monotonic() - started, random.random())  # noqa: S311
            if delay is None:
                why = advice(answer.info, answer.life)
                emit(LeaseRefused(experiment, f"lease `{key}` is held by {answer.info.holder}: {why}"))
                return
            await asyncio.sleep(delay)

    async def _ask(self, experiment: str, key: str) -> Granted | Held:
        """Ask once. A cancellation meanwhile is delivered afterwards, so that a lease that was taken is known of."""
        about = self._about[experiment]
        call = asyncio.ensure_future(
            asyncio.to_thread(self._leases.try_acquire, key, experiment, run=about.run, teardown=about.teardown)
        )
        try:
            await asyncio.wait({call})
        finally:
            await asyncio.wait({call})
            if not call.exception() and isinstance(answer := call.result(), Granted):
                self._tokens[experiment] = answer.token
        return call.result()

    async def release(self, experiment: str) -> None:
        """Give the lease back, if it is held."""
        token = self._tokens.pop(experiment, None)
        if token is not None:
            try:
                await asyncio.to_thread(self._leases.release, self._keys[experiment], token)
            except StoreError as error:
                log.error("%s", error.message)

    def hold_for_ever(self, experiment: str) -> str | None:
        """Never release the lease: what it protects is not what the next run expects (S3). Returns its key, if any."""
        if (token := self._tokens.pop(experiment, None)) is not None:
            self._kept[experiment] = token
        return self._keys[experiment] if experiment in self._kept else None

    async def mark(self, experiment: str, problem: str) -> None:
        """Hold the lease for ever, if there is one, and note why."""
        if (key := self.hold_for_ever(experiment)) is not None:
            try:
                await asyncio.to_thread(self._leases.mark_failed_teardown, key, self._kept[experiment], problem)
            except StoreError as error:
                log.error("%s", error.message)

    def close(self) -> None:
        """Stop saying that this process is at work."""
        if self._heart is not None:
            self._heart.cancel()

    def _keep_alive(self) -> None:
        if self._heart is None:
            self._heart = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            try:
                lost = await asyncio.to_thread(self._leases.heartbeat, list(self._tokens.values()))
            except StoreError as error:
                log.warning("the leases could not be renewed: %s", error.message)
                continue
            if lost:
                self._tell("a lease was recovered by somebody while this process was at work")


def _held_by(info: LeaseInfo) -> str:
    run = f"run {info.run}, " if info.run else ""
    return f"{run}{info.holder} since {utc(info.started_at):%H:%M} UTC"
