"""Leases, setup and teardown: what the scheduler asks for about an experiment as a whole (spec 03 S1-S6)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.cli.teardown import run_teardown
from proctor.core.commands import AcquireLease, CloseLane, OpenLane, ReleaseLease, RunSetup, RunTeardown
from proctor.errors import StoreError, describe
from proctor.model.attempt import Issue, issue_of
from proctor.model.events import (
    LaneClosed,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    RunEvent,
    SetupEnded,
    TeardownEnded,
)
from proctor.runtime.clock import Clock
from proctor.runtime.lanes import Lane
from proctor.runtime.loop import HookCommand
from proctor.store.lease_info import Granted, Held, LeaseWait, Teardown, advice
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns

HEARTBEAT_SECONDS = 10.0
INTERRUPTED = "it was interrupted"

log = logging.getLogger(__name__)

Emit = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one experiment, as functions by dotted path, each with its limit."""

    setup: Teardown | None = None
    teardown: Teardown | None = None
    run: str | None = None
    """The run that has them, for people."""
    dispose_seconds: float | None = 60.0
    """Limit of the disposal of a lane's sandbox."""


class ExperimentHooks:
    """Carries out leases and hooks. Hooks run in processes of their own, so that each ends within its limit."""

    def __init__(
        self,
        hooks: Mapping[str, Hooks],
        *,
        leases: Leases,
        teardowns: OwedTeardowns,
        project: Path,
        wait: LeaseWait,
        clock: Clock,
        tell: Callable[[str], None],
    ) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._owed: set[str] = set()
        """Experiments whose setup began and whose teardown has not run."""
        self._hooks = hooks
        self._leases = leases
        self._teardowns = teardowns
        self._notes: dict[str, str] = {}
        self._project = project
        self._wait = wait
        self._clock = clock
        self.lanes: dict[str, Lane] = {}
        """The lanes that are open, by name."""
        self._keys: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._acquiring: dict[str, asyncio.Task[None]] = {}
        self._setups: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._heart: asyncio.Task[None] | None = None

    def carry_out(self, command: HookCommand, emit: Emit) -> None:
        """Begin what a command asks for; the answer comes by `emit`."""
        match command:
            case AcquireLease(experiment, key):
                self._keys[experiment] = key
                work = self._acquire(experiment, key, emit)
                self._acquiring[experiment] = self._start(work, lambda why: emit(LeaseRefused(experiment, why)))
            case ReleaseLease(experiment):
                self._start(self._release(experiment, emit), lambda _: emit(LeaseReleased(experiment)))
            case RunSetup(experiment):
                self._owed.add(experiment)
                task = self._start(
                    self._set_up(experiment, emit), lambda why: emit(SetupEnded(experiment, _setup_failed(why)))
                )
                task.add_done_callback(
                    # Cancelled before its first step: nobody has answered.
                    lambda done: emit(SetupEnded(experiment, _setup_failed(INTERRUPTED))) if done.cancelled() else None
                )
                self._setups[experiment] = task
            case RunTeardown(experiment):
                self._start(
                    self._tear_down(experiment, emit),
                    lambda why: emit(TeardownEnded(experiment, issue_of("experiment.teardown_failed", why))),
                )
            case OpenLane(lane, experiment):
                self.lanes[lane] = Lane(lane, experiment, self._hooks[experiment].dispose_seconds)
            case CloseLane(lane):
                closing = self.lanes.pop(lane)
                self._start(
                    closing.close(emit, lambda text: log.warning("%s", text)),
                    lambda _: emit(LaneClosed(closing.name, closing.experiment)),
                )

    def interrupt(self) -> None:
        """Cut short setups; a wait for a lease is ended by the `ReleaseLease` that follows, a teardown never."""
        for task in self._setups.values():
            task.cancel()

    async def abandon(self) -> None:
        """After a bug: nobody asks for anything any more, so everything that is owed is done here."""
        for task in (*self._acquiring.values(), *self._setups.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        while self.lanes:
            _, lane = self.lanes.popitem()
            await lane.close(lambda _: None, lambda text: log.warning("%s", text))
        for experiment in list(self._owed):
            await self._tear_down(experiment, lambda _: None)
        for experiment in list(self._tokens):
            await self._release(experiment, lambda _: None)

    async def close(self) -> None:
        """Wait for what still runs."""
        if self._heart is not None:
            self._heart.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, None], broken: Callable[[str], None]) -> asyncio.Task[None]:
        """Start work that answers by itself; `broken` answers in its place when it raises what it should not."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s", describe(error))
                broken(describe(error))

        task.add_done_callback(ended)
        return task

    # ---------------------------------------------------------------------------------------------------- leases

    async def _acquire(self, experiment: str, key: str, emit: Emit) -> None:
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
        hooks = self._hooks[experiment]
        call = asyncio.ensure_future(
            asyncio.to_thread(self._leases.try_acquire, key, experiment, run=hooks.run, teardown=hooks.teardown)
        )
        try:
            await asyncio.wait({call})
        finally:
            await asyncio.wait({call})
            if not call.exception() and isinstance(answer := call.result(), Granted):
                self._tokens[experiment] = answer.token
        return call.result()

    async def _release(self, experiment: str, emit: Emit) -> None:
        waiting = self._acquiring.pop(experiment, None)
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
        token = self._tokens.pop(experiment, None)
        if token is not None:
            try:
                await asyncio.to_thread(self._leases.release, self._keys[experiment], token)
            except StoreError as error:
                log.error("%s", error.message)
        emit(LeaseReleased(experiment))

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

    # ----------------------------------------------------------------------------------------------------- hooks

    async def _set_up(self, experiment: str, emit: Emit) -> None:
        issue: Issue | None = None
        try:
            issue = await self._note_teardown(experiment)
            if issue is None:
                issue = await self._call(self._hooks[experiment].setup, experiment, "experiment.setup_failed")
        except asyncio.CancelledError:
            issue = _setup_failed(INTERRUPTED)
        finally:
            emit(SetupEnded(experiment, issue))

    async def _note_teardown(self, experiment: str) -> Issue | None:
        """Run first what a killed run has missed, then note what this one owes; a lease remembers both by itself."""
        teardown = self._hooks[experiment].teardown
        if teardown is None or experiment in self._keys:
            return None
        try:
            for owed in await asyncio.to_thread(self._teardowns.take_missed, experiment):
                self._tell(f"running teardown `{owed.teardown.path}` first, which {owed.owner} was killed before")
                issue = await self._call(owed.teardown, experiment, "experiment.setup_failed")
                if issue is not None:
                    return issue
                await asyncio.to_thread(self._teardowns.cross_out, owed.token)
            self._notes[experiment] = await asyncio.to_thread(self._teardowns.note, experiment, teardown)
        except StoreError as error:
            return _setup_failed(error.message)
        return None

    async def _tear_down(self, experiment: str, emit: Emit) -> None:
        self._owed.discard(experiment)
        issue = await self._call(self._hooks[experiment].teardown, experiment, "experiment.teardown_failed")
        note = self._notes.pop(experiment, None)
        if note is not None:
            try:
                await asyncio.to_thread(self._teardowns.cross_out, note)  # also a failed one: it was run, and is said
            except StoreError as error:
                log.error("%s", error.message)
        token = self._tokens.get(experiment)
        if issue is not None and token is not None:
            try:
                await asyncio.to_thread(self._leases.mark_failed_teardown, self._keys[experiment], token, issue.message)
            except StoreError as error:
                log.error("%s", error.message)
            del self._tokens[experiment]  # it stays held (S3)
        emit(TeardownEnded(experiment, issue))

    async def _call(self, hook: Teardown | None, experiment: str, code: str) -> Issue | None:
        """Run a hook; return the issue of its failure."""
        if hook is None:
            return None
        try:
            variables = {"PROCTOR_EXPERIMENT": experiment}
            if experiment in self._keys:
                variables["PROCTOR_LEASE_KEY"] = self._keys[experiment]
            end = await run_teardown(hook, self._project, variables)
        except Exception as error:
            return issue_of(code, f"hook `{hook.path}`: {describe(error)}")
        log.info("hook %s of %s took %.1f s\n%s", hook.path, experiment, end.seconds, end.output)
        if end.problem is None:
            return None
        said = end.output.strip().rpartition("\n")[2].strip()
        return issue_of(code, f"hook `{hook.path}`: {end.problem}" + (f"; it said last: {said[:200]}" if said else ""))


def _setup_failed(why: str) -> Issue:
    return issue_of("experiment.setup_failed", why)
