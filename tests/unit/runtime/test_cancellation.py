"""Cancelled between any two steps: one end, nothing left, nothing lost (spec 05, 10 I1).

A step is one callback of the event loop, whichever task it belongs to: finer than the awaits of the try runner itself,
because what it waits for goes on between them. Each test runs a try again and again and cancels it one step later each
time, until it ends before that.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fault_plugins import HEALTHY, REWARD, Case, Hangs, Misuses, Plugin, Provider, Site, Until, World
from fault_rig import Folder, House
from fault_table import ALL, CRASHES, FRESH, NONE, REUSE
from test_faults import check_run
from virtual_loop import LoopClock, Steps, VirtualLoop, run_virtually, settled

from proctor.core.schedule import RetryPolicy
from proctor.model.attempt import GradingMode, Outcome
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    GradingQueued,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    WorkCheckpointed,
)
from proctor.model.spec import Artifact, Component, Task, TimeLimits
from proctor.runtime.job import Checkpoint, TryJob
from proctor.runtime.lanes import Lane
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner

BREAKING = (Site.OPEN, Site.SETUP, Site.START, Site.COLLECT, Site.GRADE)
"""What hangs here until its limit leaves no result."""

STEPS_AT_MOST = 2000
"""No try has so many."""

COLLECTED_EVERY = 20
"""So often it is looked for what was lost in a circle."""


@contextmanager
def nothing_lost() -> Iterator[None]:
    """Fail where a coroutine was never awaited, or an exception went to nobody."""
    lost: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: lost.append(repr(unraisable.exc_value))
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
            gc.collect()
    finally:
        sys.unraisablehook = before
    lost += [str(warning.message) for warning in warned]
    assert not lost, "\n".join(lost)


@pytest.fixture(autouse=True, scope="module")
def quick_collection() -> Iterator[None]:
    """Let a collection look only at what these tests made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@dataclass
class Try:
    """One try with everything in it: files, artifacts, a reward file, a wait, a trajectory."""

    folder: Path
    grading: GradingMode
    in_lane: bool = False
    used_lane: bool = False
    checkpoint: Checkpoint | None = None
    waits: bool = False
    case: Case = HEALTHY
    limits: TimeLimits = field(default_factory=TimeLimits)
    events: list[Any] = field(default_factory=list)

    def prepare(self) -> None:
        self.world = World({"t": self.case}, asyncio.Event())
        self.world.users["a"] = "t", 1
        self.lane = Lane("l", "e", 60.0) if self.in_lane else None
        plugin = (Waiting if self.waits else Plugin)(self.world, "a", (REWARD,))
        artifacts = (Artifact("out.txt", required=True),)
        self.job = TryJob(
            attempt="a",
            try_number=1,
            task=Task("t", Component("rigged"), "do it", needs_sandbox=True, artifacts=artifacts),
            benchmark=plugin,
            harness=plugin,
            grader=plugin,
            grading=self.grading,
            provider=Provider(self.world),
            environment=EnvironmentSpec("fake"),
            agent_sandbox=True,
            limits=self.limits,
            artifacts=artifacts,
            folder=Folder(self.folder),
            lane=self.lane,
            checkpoint=self.checkpoint,
        )

    def emit(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, TryEnded):
            self.world.over.add(("a", 1))
        elif isinstance(event, GradingQueued):
            asyncio.get_running_loop().call_soon(self.runner.grant)
        elif isinstance(event, BackoffEnded):
            asyncio.get_running_loop().call_soon(self.runner.resume)

    async def use_lane(self) -> None:
        """Let another try open the sandbox of the lane."""
        self.runner = self.new_runner()
        await self.runner.run()
        assert self.events[-1].sandbox_reusable
        self.events.clear()
        self.world.over.clear()

    def new_runner(self) -> TryRunner:
        return TryRunner(
            self.job, emit=self.emit, save=self.job.folder.save, clock=LoopClock(), redactor=Redactor(),  # type: ignore[union-attr, attr-defined]
        )  # fmt: skip

    async def cancelled_after(self, virtual: VirtualLoop, number: int, force_after: int | None = None) -> bool:
        """Run it, cancel it after so many steps, and end it by force so many later; say whether it came to that."""
        self.prepare()
        if self.used_lane:
            await self.use_lane()
        self.runner = self.new_runner()
        task = virtual.create_task(self.runner.run())
        await asyncio.sleep(0)  # its first step: before it there is nothing to cancel

        def cancel() -> None:
            virtual.on_step = None
            if not task.done():
                self.runner.cancel()
                task.cancel()
                if force_after is not None:
                    Steps(virtual, force_after, self.runner.force)

        steps = Steps(virtual, number, cancel)
        await asyncio.wait({task})
        virtual.on_step = None
        assert not task.cancelled(), "it ends by itself"
        task.result()
        if self.lane is not None:
            told: list[str] = []
            await self.lane.close(lambda _: None, told.append)
            assert told == []
        self.left = set(self.world.live)
        self.world.let_go.set()
        await settled()
        return steps.acted

    def check(self) -> Outcome:
        """Check that it ended once, and left nothing; return how it ended."""
        ends = [event for event in self.events if isinstance(event, TryEnded)]
        assert len(ends) == 1
        assert self.events[-1] is ends[0], "nothing comes after the end"
        result = ends[0].result
        if self.left or self.world.live:
            assert self.case.site is Site.DISPOSE
            assert all(any(name in issue.message for issue in result.issues) for name in self.left)
        assert not any(self.world.sessions.values()), self.world.sessions
        assert self.world.late == []
        opened = {event.sandbox for event in self.events if isinstance(event, SandboxOpened)}
        gone = {event.sandbox for event in self.events if isinstance(event, SandboxDisposed)}
        assert gone <= opened
        assert opened - gone <= ({"box-1"} if self.in_lane or self.case.site is Site.DISPOSE else set())
        phases = [event for event in self.events if isinstance(event, PhaseStarted | PhaseEnded)]
        assert [type(event) for event in phases] == [PhaseStarted, PhaseEnded] * (len(phases) // 2)
        assert all(start.phase is end.phase for start, end in zip(phases[::2], phases[1::2], strict=True))
        assert self.case.site or not result.fatal, result
        return result.outcome


class Waiting(Plugin):
    """Waits because of a model in its turn."""

    def send(self, message: Any) -> Any:
        async def wait_and_answer() -> Any:
            await self.context.backoff(5.0, "model.rate_limited")
            return await Plugin.send(self, message)

        return wait_and_answer()


def saved(folder: Path, grading: GradingMode) -> Checkpoint:
    """Return what a whole try saves."""
    whole = Try(folder, grading)

    async def run(virtual: VirtualLoop) -> None:
        await whole.cancelled_after(virtual, STEPS_AT_MOST)

    run_virtually(run)
    assert whole.check() is Outcome.GRADED
    [made] = [event for event in whole.events if isinstance(event, WorkCheckpointed)]
    return Checkpoint(whole.job.folder.write(), made.answer_sha256, made.files)  # type: ignore[union-attr, attr-defined]


def tries(tmp_path: Path) -> dict[str, Callable[[Path], Try]]:
    """Return every kind of try."""
    kinds: dict[str, Callable[[Path], Try]] = {}
    for grading in ALL:
        kinds[f"{grading.value}"] = lambda folder, grading=grading: Try(folder, grading)
        kinds[f"{grading.value}, first in a lane"] = lambda folder, grading=grading: Try(folder, grading, True)
        kinds[f"{grading.value}, later in a lane"] = lambda folder, grading=grading: Try(folder, grading, True, True)
    for grading in (NONE, FRESH):
        kinds[f"{grading.value}, grading only"] = lambda folder, grading=grading: Try(
            folder / "again", grading, checkpoint=saved(folder / "first", grading)
        )
    return kinds


KINDS = list(tries(Path()))


def cancel_after_every_step(template: Try, folder: Path, force_after: int | None = None) -> None:
    outcomes: list[Outcome] = []
    acted = True
    with nothing_lost():
        while acted:
            number = len(outcomes) + 1
            assert number < STEPS_AT_MOST
            one = replace(template, folder=folder / str(number), events=[])
            acted = run_virtually(partial(one.cancelled_after, number=number, force_after=force_after))
            outcomes.append(one.check())
            if number % COLLECTED_EVERY == 0:
                gc.collect()
    whole = Outcome.BROKEN if template.case.site in BREAKING else Outcome.GRADED
    assert set(outcomes) == {Outcome.CANCELLED, whole}
    assert outcomes[-1] is whole, "the last one was not cancelled"
    assert len(outcomes) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_05_cancelled_after_any_step_a_try_ends_once_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    cancel_after_every_step(tries(tmp_path)[kind](tmp_path), tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "only" not in kind])
def test_B4_cancelled_after_any_step_of_a_try_that_waits(tmp_path: Path, kind: str) -> None:
    cancel_after_every_step(replace(tries(tmp_path)[kind](tmp_path), waits=True), tmp_path)


@pytest.mark.parametrize("until", Until, ids=lambda until: until.value)
@pytest.mark.parametrize(
    "site",
    [Site.OPEN, Site.SETUP, Site.START, Site.SEND, Site.COLLECT, Site.GRADE, Site.DISPOSE, Site.CLOSE],
    ids=lambda site: site.value,
)
def test_05_cancelled_after_any_step_of_what_hangs_until_its_limit(tmp_path: Path, site: Site, until: Until) -> None:
    limits = TimeLimits(3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
    for grading in (FRESH, REUSE):
        one = Try(tmp_path, grading, case=Case(site, Hangs(until)), limits=limits)
        cancel_after_every_step(one, tmp_path / grading.value)


@pytest.mark.parametrize("force_after", [1, 4, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_10_I1_forced_so_many_steps_after_it_was_cancelled(tmp_path: Path, kind: str, force_after: int) -> None:
    cancel_after_every_step(tries(tmp_path)[kind](tmp_path), tmp_path, force_after)


def interrupt_after_every_step(folder: Path, cases: list[Case], again: tuple[int, ...], **options: Any) -> None:
    number, acted = 0, True
    with nothing_lost():
        while acted:
            number += 1
            assert number < STEPS_AT_MOST
            house = House(folder / str(number), cases, concurrency=1, interrupt_steps=(number, *again), **options)
            acted = house.run().interrupted > 0
            check_interrupted(house, acted=acted)
            if number % COLLECTED_EVERY == 0:
                gc.collect()
    assert number > 50


def check_interrupted(house: House, *, acted: bool) -> None:
    [ended] = [event for event in house.sink.events if isinstance(event, RunEnded)]
    check_run(house, ended.completion)
    assert house.left == {}
    verdicts = [event.verdict.value for event in house.sink.events if isinstance(event, AttemptSealed)]
    assert set(verdicts) <= {"passed", "cancelled", "errored"}
    assert acted or verdicts == ["passed"] * len(house.cases)
    assert len(verdicts) + sum(house.sink.view.not_dispatched.values()) == len(house.cases)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("mode", "lanes", "again"),
    [(mode, lanes, ()) for mode in ALL for lanes in (False, True)] + [(FRESH, False, (7,)), (REUSE, True, (7,))],
)
def test_10_I1_a_run_is_interrupted_after_any_step(
    tmp_path: Path, mode: GradingMode, lanes: bool, again: tuple[int, ...]
) -> None:
    # The first attempt is tried again, in the modes that allow it only its grading.
    cases = [Case(Site.GRADE, CRASHES[0], frozenset({1})), HEALTHY]
    retry = RetryPolicy(max_retries=1)
    interrupt_after_every_step(tmp_path, cases, again, grading=mode, lanes=lanes, retry=retry)


@pytest.mark.parametrize("again", [(), (7,)], ids=["once", "twice"])
def test_10_I1_a_run_that_waits_is_interrupted_after_any_step(tmp_path: Path, again: tuple[int, ...]) -> None:
    waits = Misuses("waits", lambda context: context.backoff(5.0, "model.rate_limited"))
    interrupt_after_every_step(tmp_path, [Case(Site.SEND, waits)], again)
