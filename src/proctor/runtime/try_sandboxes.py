"""The sandboxes of one try: opened with patience, disposed of whatever happens, or kept for a person (spec 05, 06)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from proctor.core.environments import for_grading
from proctor.errors import boundary
from proctor.model.attempt import Outcome, Phase
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import (
    ImageWaitEnded,
    ImageWaitStarted,
    Purpose,
    SandboxKept,
    SandboxOpened,
    TryEvent,
)
from proctor.plugins.api import Session
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.backoff import Backoff
from proctor.runtime.clock import utc
from proctor.runtime.contexts import Patience
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.images import image_name
from proctor.runtime.job import TryJob
from proctor.runtime.lanes import retires
from proctor.runtime.letting_go import CANCEL_GRACE_SECONDS, LettingGo
from proctor.runtime.made import sandbox_of
from proctor.runtime.notes import Notes
from proctor.runtime.phases import Phases
from proctor.runtime.shield import end_task, shielded

HURRIED_OPENING_SECONDS = COURTESY_SECONDS / 2
"""How long an opening may take to end when it is cancelled in a hurry.

It is less than the phase around it may take, so that what became of it is still recorded.
"""

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
        self._letting_go = LettingGo(job, emit=emit, notes=notes, phases=phases, hurry=hurry or Hurry())
        self._sandboxes: list[AgentBox] = []
        self._aside: list[AgentBox] = []
        """Those that nothing uses any more and that wait for the verdict."""
        self._over = self._cancelled = self._any_kept = False

    @property
    def of_agent(self) -> AgentBox | None:
        """The sandbox that the agent works in or worked in, that of a lane as well; None where it is gone."""
        if self._sandboxes:
            return self._sandboxes[-1]
        return None if self._job.lane is None else self._job.lane.box

    def cancel(self) -> None:
        """The try is being cancelled: nothing of it is kept."""
        self._cancelled = True

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
        """Open a sandbox, as a phase, once its image is there; raises `Fault`. Only an agent's has hooks."""
        job = self._job
        environment = job.environment
        if purpose is not Purpose.AGENT:
            environment = for_grading(job.grade_environment or environment)
        await self._wait_for_image(environment)
        opened = utc(self._patience.clock.wall()).strftime("%Y-%m-%dT%H:%M:%SZ")
        of_try = {"attempt": job.attempt, "try": str(job.try_number), "purpose": purpose.value}
        labels = {**job.labels, **of_try, "opened": opened}
        before = len(self._sandboxes)
        try:
            asking = lambda: self._patience.repeat(lambda: self._open_sandbox(environment, labels, purpose))  # noqa: E731
            return await self._phases.run(Phase.OPEN, job.limits.open_seconds, asking)
        finally:
            if len(self._sandboxes) > before:  # also when it was made in the moment the try was cancelled
                self._emit(SandboxOpened(job.attempt, job.try_number, self._sandboxes[-1].name, purpose))

    async def _wait_for_image(self, environment: EnvironmentSpec) -> None:
        """Wait until the image is ready; raises the `Fault` with which it ended. No limit of the try counts that."""
        job, clock = self._job, self._patience.clock
        if job.images is None or job.images.settled(job.provider, environment):
            return
        started = clock.monotonic()
        self._emit(ImageWaitStarted(job.attempt, image_name(environment)))
        try:
            await job.images.ready(job.provider, environment)
        finally:
            self._emit(ImageWaitEnded(job.attempt, round(max(0.0, clock.monotonic() - started), 6)))

    async def _open_sandbox(
        self, environment: EnvironmentSpec, labels: Mapping[str, str], purpose: Purpose
    ) -> AgentBox:
        """Ask the provider; a cancelled opening is waited for, so that what it made after all becomes known."""

        async def opened() -> AgentBox:
            with boundary(Phase.OPEN):
                made: Any = await self._job.provider.open(environment, labels)
                try:
                    sandbox, name = sandbox_of(made)
                except BaseException:
                    await self._letting_go.discard(made)
                    raise
            hooks = self._job.sandbox_hooks if purpose is Purpose.AGENT else ()
            box = AgentBox(sandbox, name, hooks, purpose=purpose, network=environment.network_of(Phase.SETUP))
            self._sandboxes.append(box)
            if self._over:  # it came after everybody had stopped waiting for it
                self._letting_go.take_time()
                await self._release_all(None)
            return box

        opening = asyncio.get_running_loop().create_task(opened())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not await end_task(opening, CANCEL_GRACE_SECONDS, self._letting_go.hurry, HURRIED_OPENING_SECONDS):
                self._notes.raise_issue("dispose.failed", LATE)
            raise

    async def release(self, session: Session | None) -> None:
        """Close the session and dispose of every sandbox, whatever happens to the try meanwhile.

        Where sandboxes may be kept they are set aside: what becomes of them is decided at the end of the try.
        """
        if session is not None or self._sandboxes:
            await shielded(self._release_all(session, aside=self._job.keep is not None), None)

    async def end(self, session: Session | None, *, keep: bool = False) -> None:
        """Release everything, or keep every sandbox of it; one that comes later is disposed of at once.

        A cancellation that arrives when they are kept comes too late: how the try ended stands.
        """
        self._over = True
        if session is None and not self._sandboxes and not self._aside:
            return
        try:
            await shielded(self._end_all(session, keep=keep), None)
        except asyncio.CancelledError:
            if not self._any_kept:
                raise

    async def in_time(self, session: Session) -> Session | None:
        """Return a session that was started, unless nobody waits for it any more: it is closed then."""
        if not self._over:
            return session
        self._letting_go.take_time()
        await self._letting_go.close(session)
        return None

    async def reset_lane(self, outcome: Outcome) -> bool:
        """Make the sandbox of the lane ready for the next try; say whether it is."""
        lane = self._job.lane
        if lane is None or self._job.checkpoint is not None:  # a try that only grades does not touch it
            return True
        if lane.box is None or not lane.marked or retires(outcome, self._notes.issues):
            return False
        return await self._letting_go.reset(lane.box)

    async def _release_all(self, session: Session | None, *, aside: bool = False) -> None:
        await self._backoff.close()
        if session is not None:
            await self._letting_go.close(session)
        while self._sandboxes:
            box = self._sandboxes.pop()
            if aside:
                self._aside.append(box)
                await self._letting_go.set_aside(box)
            else:
                await self._letting_go.dispose(box)

    async def _end_all(self, session: Session | None, *, keep: bool) -> None:
        waiting, self._aside = self._aside, []
        if keep:
            waiting, self._sandboxes = waiting + self._sandboxes, []
        await self._release_all(session)
        kept: list[AgentBox] = []
        for box in waiting:
            if keep and not self._cancelled and await self._letting_go.keep(box):
                kept.append(box)
            else:
                await self._letting_go.dispose(box)
        for box in kept:
            if self._cancelled:  # meanwhile
                await self._letting_go.dispose(box)
            else:
                self._any_kept = True
                job = self._job
                provider = job.environment.provider  # by which commands find it, whatever it calls itself
                self._emit(SandboxKept(job.attempt, job.try_number, box.name, box.purpose, provider))
