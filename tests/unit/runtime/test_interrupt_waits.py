"""Interrupts while attempts wait, while nothing runs yet, and while the loop gives up (spec 10 I1, 05 Time).

What hangs inside a phase is in `test_faults_interrupts`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from test_loop import House, Sink
from virtual_loop import VirtualLoop, run_virtually

from proctor.core.commands import StartGrading, StartTry
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.core.schedule import RetryPolicy
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import GradingMode, Phase, Verdict
from proctor.model.events import (
    AttemptSealed,
    BackoffStarted,
    Completion,
    DispatchStopped,
    GradingQueued,
    Interrupted,
    IssueRaised,
    PhaseStarted,
    RunEnded,
    SandboxOpened,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.runtime import hurry
from proctor.runtime.loop import GRACE_SECONDS
from proctor.testing.actions import for_ever
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeHarness

CUT = Interrupted(15, "SIGTERM")
AGAIN = Interrupted(2, "SIGINT again")
END = 1_000_000.0


async def stubborn() -> Any:
    """Never end, whatever anybody asks."""
    loop = asyncio.get_running_loop()
    while loop.time() < END:
        try:
            await asyncio.sleep(END)
        except asyncio.CancelledError:
            continue


def written(house: House, kind: type) -> list[Any]:
    return [event for event in house.sink.written if isinstance(event, kind)]


def drive(house: House, *steps: tuple[Callable[[], bool], Callable[[], None]]) -> float:
    """Run the house; each step waits for its condition and then acts. Returns the seconds from the first action."""

    async def work(loop: VirtualLoop) -> float:
        running = asyncio.create_task(house.loop.run())
        acted_at = None
        for condition, act in steps:
            while not condition():
                assert not running.done()
                await asyncio.sleep(0)
            act()
            acted_at = acted_at or loop.time()
        await asyncio.wait({running})
        assert acted_at is not None
        took = loop.time() - acted_at
        loop.now = END * 2  # whatever was abandoned ends
        for _ in range(20):
            await asyncio.sleep(0)
        running.result()
        return took

    return run_virtually(work)


def check_interrupted(house: House, tasks: int) -> None:
    sealed = written(house, AttemptSealed)
    stopped = sum(event.slots for event in written(house, DispatchStopped) if event.reason is StopReason.INTERRUPT)
    assert len(sealed) + stopped == tasks
    assert written(house, RunEnded) == [RunEnded("e", Completion.INTERRUPTED)]
    assert house.sink.written[-1] == RunEnded("e", Completion.INTERRUPTED)
    assert written(house, Interrupted)[0] == CUT
    assert all(gate.held == 0 for gate in house.scheduler.snapshot().gates)
    assert len(written(house, TryStarted)) == len(written(house, TryEnded))


def cut(house: House, event: Interrupted = CUT) -> Callable[[], None]:
    return lambda: house.loop.interrupt(event)


def test_10_I1_while_an_attempt_backs_off() -> None:
    harness = FakeHarness()

    async def refused() -> None:
        await harness.contexts[-1].backoff(1000.0, "model.rate_limited")

    harness.on_send = refused
    house = House(tasks=3, harness=harness)
    took = drive(house, (lambda: len(written(house, BackoffStarted)) == 2, cut(house)))
    check_interrupted(house, 3)
    assert took == 0.0, "waits end at once"
    assert not house.provider.live


def test_10_I1_between_tries() -> None:
    async def broken() -> None:
        raise RuntimeError("no luck")

    house = House(tasks=1, harness=FakeHarness(on_send=broken))
    plan = ExperimentPlan("e", ("t0",), 1, "fake", (True,), GradingMode.NONE, retry=RetryPolicy(max_retries=3))
    ids = itertools.count()
    house.scheduler = house.loop._scheduler = Scheduler([plan], GateLimits(1), lambda: f"id{next(ids)}")
    took = drive(house, (lambda: len(written(house, TryEnded)) == 1, cut(house)))
    check_interrupted(house, 1)
    assert took == 0.0
    assert len(written(house, TryStarted)) == 1, "no other try began"


class NoGrants:
    """A scheduler whose grants of grading permits never come."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def start(self, *, now: float) -> list[Any]:
        return self._scheduler.start(now=now)

    def handle(self, event: Any, *, now: float) -> list[Any]:
        return [one for one in self._scheduler.handle(event, now=now) if not isinstance(one, StartGrading)]


def test_10_I1_while_it_waits_for_the_permits_of_grading() -> None:
    house = House(tasks=2, concurrency=1, grading=GradingMode.FRESH)
    house.loop._scheduler = NoGrants(house.scheduler)
    took = drive(house, (lambda: bool(written(house, GradingQueued)), cut(house)))
    assert next(event.verdict for event in written(house, AttemptSealed)) is Verdict.CANCELLED
    assert took == 0.0
    assert not house.provider.live
    assert house.provider.opened <= 2, "nothing was opened for grading"


def test_10_I1_before_anything_began() -> None:
    house = House(tasks=5)
    house.loop.interrupt(CUT)
    drive(house, (lambda: True, lambda: None))
    check_interrupted(house, 5)
    assert {event.verdict for event in written(house, AttemptSealed)} <= {Verdict.CANCELLED}
    assert house.provider.opened == 0


@pytest.mark.parametrize("times", [2, 3])
def test_10_I1_twice_before_anything_began(times: int) -> None:
    house = House(tasks=5, harness=FakeHarness(on_send=stubborn))

    def interrupt() -> None:
        for _ in range(times):
            house.loop.interrupt(CUT)

    took = drive(house, (lambda: True, interrupt))
    check_interrupted(house, 5)
    assert took <= hurry.FORCED_SECONDS


@pytest.mark.parametrize("grading", list(GradingMode))
def test_10_I1_again_after_the_second_it_changes_nothing(grading: GradingMode) -> None:
    house = House(tasks=3, grading=grading, harness=FakeHarness(on_send=stubborn))
    running = lambda: sum(event.phase is Phase.AGENT for event in written(house, PhaseStarted)) == 2  # noqa: E731
    took = drive(house, (running, cut(house)), (lambda: True, cut(house, AGAIN)), (lambda: True, cut(house, AGAIN)))
    check_interrupted(house, 3)
    assert written(house, Interrupted) == [CUT, AGAIN, AGAIN]
    assert took == pytest.approx(hurry.COURTESY_SECONDS), "a harness that does not listen is not waited for"
    assert not house.provider.live


def test_10_I1_a_first_signal_alone_forces_the_end_when_the_grace_is_over() -> None:
    provider = FakeProvider(on_dispose=stubborn)
    house = House(tasks=2, limits=None, harness=FakeHarness(on_send=for_ever))
    house.provider = provider
    took = drive(house, (lambda: len(provider.live) == 2, cut(house)))
    check_interrupted(house, 2)
    assert took == pytest.approx(GRACE_SECONDS + hurry.FORCED_SECONDS)
    assert written(house, Interrupted) == [CUT, Interrupted(15, "clean-up took longer than 30 s")]
    codes = [event.issue.code for event in written(house, IssueRaised)]
    assert codes == ["dispose.failed", "dispose.failed"]
    assert sorted(house.loop.sandboxes.left) == [("fake-1", "e"), ("fake-2", "e")]


def test_10_I1_a_grace_that_nobody_needs_holds_nobody() -> None:
    house = House(tasks=2, harness=FakeHarness(on_send=for_ever))
    took = drive(house, (lambda: len(house.provider.live) == 2, cut(house)))
    assert took == 0.0
    assert written(house, Interrupted) == [CUT]
    assert house.loop.sandboxes.left == []


def test_10_I1_a_sandbox_that_comes_after_a_forced_end_is_removed_while_the_process_lives() -> None:
    async def late() -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + 20.0
        while loop.time() < end:
            try:
                await asyncio.sleep(end - loop.time())
            except asyncio.CancelledError:
                continue

    house = House(tasks=1, limits=None)
    house.provider = FakeProvider(on_open=late)
    took = drive(house, (lambda: bool(written(house, TryStarted)), cut(house)), (lambda: True, cut(house, AGAIN)))
    check_interrupted(house, 1)
    assert took <= 1.0
    [issue] = [event.issue for event in written(house, IssueRaised)]
    assert issue.code == "dispose.failed"
    assert "opening" in issue.message
    assert house.provider.opened == 1
    assert not house.provider.live


class Broken:
    """A scheduler with a bug: it fails at one event of a kind."""

    def __init__(self, scheduler: Scheduler, kind: type) -> None:
        self._scheduler = scheduler
        self._kind = kind

    def start(self, *, now: float) -> list[Any]:
        return self._scheduler.start(now=now)

    def handle(self, event: Any, *, now: float) -> list[Any]:
        if isinstance(event, self._kind):
            raise ZeroDivisionError("impossible")
        return self._scheduler.handle(event, now=now)


def give_up(house: House, *steps: tuple[Callable[[], bool], Callable[[], None]]) -> float:
    with pytest.raises(ZeroDivisionError):
        drive(house, *steps)
    return 0.0


@pytest.mark.parametrize("kind", [SandboxOpened, TryEnded])
def test_10_a_bug_of_ours_is_on_record_with_what_happened_after_it(kind: type) -> None:
    calls = itertools.count()

    async def only_the_first_ends() -> str:
        if next(calls):
            await for_ever()
        return "ok"

    house = House(tasks=3, concurrency=3, harness=FakeHarness(on_send=only_the_first_ends))
    house.loop._scheduler = Broken(house.scheduler, kind)
    give_up(house, (lambda: True, lambda: None))
    [cause] = written(house, Interrupted)
    assert cause == Interrupted(0, "a bug of proctor: ZeroDivisionError: impossible")
    assert not house.provider.live
    assert house.loop.sandboxes.left == []
    assert len(written(house, TryStarted)) == len(written(house, TryEnded)), "what it cost is not lost"


def test_10_I1_a_signal_also_ends_the_clean_up_after_a_bug() -> None:
    house = House(tasks=1, limits=None, harness=FakeHarness(on_send=for_ever))
    house.provider = FakeProvider(on_dispose=stubborn)
    house.loop._scheduler = Broken(house.scheduler, SandboxOpened)
    times: list[float] = []

    def interrupt(event: Interrupted) -> Callable[[], None]:
        def act() -> None:
            times.append(asyncio.get_running_loop().time())
            house.loop.interrupt(event)

        return act

    def bug_is_known() -> bool:
        return bool(written(house, Interrupted))

    async def ends_at(coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        finally:
            times.append(asyncio.get_running_loop().time())

    honest = house.loop.run
    house.loop.run = lambda: ends_at(honest())  # type: ignore[method-assign]
    give_up(house, (bug_is_known, interrupt(CUT)), (lambda: True, interrupt(AGAIN)))
    assert times[-1] - times[0] <= hurry.FORCED_SECONDS
    assert written(house, Interrupted) == [
        Interrupted(0, "a bug of proctor: ZeroDivisionError: impossible"),
        CUT,
        AGAIN,
    ]
    assert house.loop.sandboxes.left == [("fake-1", "e")]


def test_10_an_experiment_that_has_ended_is_not_interrupted() -> None:
    house = House(tasks=1)
    other = Sink()
    plans = [ExperimentPlan(name, (f"t-{name}",), 1, "fake", (True,), GradingMode.NONE) for name in ("e", "f")]
    ids = itertools.count()
    house.scheduler = Scheduler(plans, GateLimits(2), lambda: f"id{next(ids)}")
    hangs = FakeHarness(on_send=for_ever)
    honest = house.prepare

    def prepare(command: StartTry) -> Any:
        job, save = honest(command)
        return (job if command.slot.experiment == "e" else replace(job, harness=hangs)), save

    from proctor.report.view import RunView
    from proctor.runtime.loop import Loop
    from proctor.runtime.redact import Redactor
    from proctor.testing.fakes import FakeClock

    view = RunView("e")
    house.loop = Loop(
        scheduler=house.scheduler, prepare=prepare, runs={"e": house.sink, "f": other}, show=lambda batch: None,
        clock=FakeClock(), redactor=Redactor(),
    )  # fmt: skip
    drive(house, (lambda: bool(written(house, RunEnded)), cut(house)))
    assert view.signal is None
    assert written(house, Interrupted) == []
    assert written(house, RunEnded) == [RunEnded("e", Completion.COMPLETE)]
    assert [event for event in other.written if isinstance(event, Interrupted)] == [CUT]
    assert other.written[-1] == RunEnded("f", Completion.INTERRUPTED)
