"""Leases, setup and teardown: what the scheduler asks for about an experiment as a whole (spec 03 S1-S6)."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.cli.lease_keeping import LeaseKeeping
from proctor.cli.teardown import run_teardown
from proctor.core.commands import AcquireLease, CloseLane, OpenLane, ReleaseLease, RunSetup, RunTeardown
from proctor.errors import StoreError, describe
from proctor.model.attempt import Issue, issue_of
from proctor.model.events import LaneClosed, LeaseRefused, LeaseReleased, RunEvent, SetupEnded, TeardownEnded
from proctor.runtime.clock import Clock
from proctor.runtime.hooks import HookCommand
from proctor.runtime.hurry import FORCED_SECONDS, Hurry
from proctor.runtime.lanes import Lane
from proctor.runtime.shield import shielded
from proctor.store.lease_info import LeaseWait, Teardown
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns

HURRIED_TEARDOWN_SECONDS = FORCED_SECONDS - 0.5
"""How long a teardown may take in a hurry: what became of it is still to be noted."""

INTERRUPTED = "it was interrupted"
CUT_SHORT = "it was cut short, as the end of the run was forced"

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
    """Carries out leases and hooks. Hooks run in processes of their own, so that each ends within its limit.

    Every command is answered once, also where what it began is cut short or breaks.
    """

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
        redact: Callable[[str], str] = str,
    ) -> None:
        self._tell = tell
        self._redact = redact
        self._owed: set[str] = set()
        """Experiments whose setup began and whose teardown has not run."""
        self._hooks = hooks
        self._leases = LeaseKeeping(hooks, leases, wait, clock, tell)
        self.lease_holders = self._leases.holders
        self._teardowns = teardowns
        self._notes: dict[str, str] = {}
        self._project = project
        self.lanes: dict[str, Lane] = {}
        """The lanes that are open, by name."""
        self._acquiring: dict[str, asyncio.Task[None]] = {}
        self._setups: dict[str, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], Hurry] = {}
        self._hurry = Hurry()
        self._last_hurry = Hurry()
        """That of teardowns, and of what comes after them."""

    def carry_out(self, command: HookCommand, emit: Emit) -> None:
        """Begin what a command asks for; the answer comes by `emit`."""
        emit = _Once(emit)
        match command:
            case AcquireLease(experiment, key):
                work = self._leases.acquire(experiment, key, emit)
                self._acquiring[experiment] = self._start(
                    work, self._hurry, lambda why: emit(LeaseRefused(experiment, why))
                )
            case ReleaseLease(experiment):
                work = self._release(experiment, emit)
                self._start(work, self._last_hurry, lambda _: emit(LeaseReleased(experiment)))
            case RunSetup(experiment):
                work = self._set_up(experiment, emit)
                broken: Callable[[str], None] = lambda why: emit(SetupEnded(experiment, _setup_failed(why)))  # noqa: E731
                self._setups[experiment] = self._start(work, self._hurry, broken)
                self._setups[experiment].add_done_callback(
                    # Cancelled before its first step: nobody has answered.
                    lambda done: broken(INTERRUPTED) if done.cancelled() else None
                )
            case RunTeardown(experiment):
                self._start(
                    self._tear_down(experiment, emit),
                    self._last_hurry,
                    lambda why: emit(TeardownEnded(experiment, self._not_torn_down(experiment, why))),
                )
            case OpenLane(lane, experiment):
                self.lanes[lane] = Lane(lane, experiment, self._hooks[experiment].dispose_seconds, self._hurry)
            case CloseLane(lane):
                closing = self.lanes.pop(lane)
                self._start(
                    closing.close(emit, lambda text: log.warning("%s", text)),
                    self._hurry,
                    lambda _: emit(LaneClosed(closing.name, closing.experiment)),
                )

    @property
    def pending(self) -> int:
        """How much of what it began has not ended, teardowns and what comes after them left out."""
        return sum(hurry is self._hurry for hurry in self._tasks.values())

    def interrupt(self) -> None:
        """Cut short setups; a wait for a lease is ended by the `ReleaseLease` that follows, a teardown never."""
        for task in self._setups.values():
            task.cancel()

    def force(self, *, teardowns: bool) -> None:
        """Let nothing take longer than a hurry allows, with `teardowns` these neither: what is cut off is owed."""
        self._hurry.begin()
        if teardowns:
            self._last_hurry.begin()

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
        for experiment in self._leases.held:
            await shielded(self._leases.release(experiment), None, self._last_hurry)

    async def close(self) -> None:
        """Wait for what still runs."""
        self._leases.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(
        self, work: Coroutine[Any, Any, None], hurry: Hurry, broken: Callable[[str], None]
    ) -> asyncio.Task[None]:
        """Start work that answers by itself; `broken` answers in its place when it breaks, or a hurry cuts it short."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)

        async def answered() -> None:
            if not await hurry.wait(task, None):
                task.cancel()
                broken(CUT_SHORT)
            elif not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s", describe(error))
                broken(describe(error))

        watch = loop.create_task(answered())
        self._tasks[watch] = hurry
        watch.add_done_callback(self._tasks.pop)
        return task

    async def _release(self, experiment: str, emit: Emit) -> None:
        waiting = self._acquiring.pop(experiment, None)
        if waiting is not None and not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
        await self._leases.release(experiment)
        emit(LeaseReleased(experiment))

    # ----------------------------------------------------------------------------------------------------- hooks

    async def _set_up(self, experiment: str, emit: Emit) -> None:
        issue: Issue | None = None
        try:
            issue = await self._note_teardown(experiment)
            if issue is None:
                self._owed.add(experiment)
                issue = await self._call(self._hooks[experiment].setup, experiment, "experiment.setup_failed")
        except asyncio.CancelledError:
            issue = _setup_failed(INTERRUPTED)
        finally:
            emit(SetupEnded(experiment, issue))

    async def _note_teardown(self, experiment: str) -> Issue | None:
        """Run first what a killed run has missed, then note what this one owes; a lease remembers both by itself."""
        teardown = self._hooks[experiment].teardown
        if teardown is None or self._leases.key(experiment) is not None:
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
        hook = self._hooks[experiment].teardown
        if hook is None or experiment not in self._owed:
            emit(TeardownEnded(experiment))
            return
        self._owed.discard(experiment)
        work = self._call(hook, experiment, "experiment.teardown_failed")
        try:
            issue = await shielded(work, None, self._last_hurry, HURRIED_TEARDOWN_SECONDS)
            note = self._notes.pop(experiment, None)
        except TimeoutError:
            issue, note = self._not_torn_down(experiment, CUT_SHORT), None
        if note is not None:
            try:
                await asyncio.to_thread(self._teardowns.cross_out, note)  # also a failed one: it was run, and is said
            except StoreError as error:
                log.error("%s", error.message)
        if issue is not None:
            await self._leases.mark(experiment, issue.message)
        emit(TeardownEnded(experiment, issue))

    def _not_torn_down(self, experiment: str, why: str) -> Issue:
        """Return the issue of a teardown that did not come to its end: it is owed."""
        hook, key = self._hooks[experiment].teardown, self._leases.hold_for_ever(experiment)
        then = "the next run of this experiment runs it first"
        if key is not None:
            then = f"the lease stays held: `proctor lease inspect {shlex.quote(key)}` says how to recover it"
        return issue_of("experiment.teardown_failed", f"hook `{hook.path if hook else ''}`: {why}; {then}")

    async def _call(self, hook: Teardown | None, experiment: str, code: str) -> Issue | None:
        """Run a hook; return the issue of its failure."""
        if hook is None:
            return None
        try:
            key = self._leases.key(experiment)
            variables = {"PROCTOR_EXPERIMENT": experiment} | ({} if key is None else {"PROCTOR_LEASE_KEY": key})
            end = await run_teardown(hook, self._project, variables)
        except Exception as error:
            return issue_of(code, self._redact(f"hook `{hook.path}`: {describe(error)}"))
        log.info("hook %s of %s took %.1f s\n%s", hook.path, experiment, end.seconds, end.shown)
        if end.shown != end.output:
            log.debug("all of it:\n%s", end.output)
        if end.problem is None:
            return None
        said = self._redact(end.output).strip().rpartition("\n")[2].strip()
        return issue_of(code, f"hook `{hook.path}`: {end.problem}" + (f"; it said last: {said[:200]}" if said else ""))


def _setup_failed(why: str) -> Issue:
    return issue_of("experiment.setup_failed", why)


class _Once:
    """Hands on the first event only: what was answered for does not answer again."""

    def __init__(self, emit: Emit) -> None:
        self._emit: Emit | None = emit

    def __call__(self, event: RunEvent) -> None:
        emit, self._emit = self._emit, None
        if emit is not None:
            emit(event)
