"""The loop: journal first, then decide; on disk before any display (spec 08 D1, 03, 10)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proctor.core.commands import StartTry
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.errors import InternalError, StoreError
from proctor.model.attempt import GradingMode, Verdict
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import (
    FINAL_EVENTS,
    AttemptSealed,
    Completion,
    DispatchStopped,
    Interrupted,
    RunEnded,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.model.spec import TimeLimits
from proctor.report.view import RunView
from proctor.runtime import phases
from proctor.runtime.job import TryJob
from proctor.runtime.loop import Loop
from proctor.runtime.publisher import Shown
from proctor.runtime.redact import Redactor
from proctor.testing.actions import for_ever
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeClock, FakeGrader, FakeHarness, fake_task


class Sink:
    """A journal in memory that knows what is buffered, what is in the file, and what is durable."""

    def __init__(self, fail_on: Callable[[str, int], bool] = lambda action, call: False) -> None:
        self.buffered: list[Any] = []
        self.written: list[Any] = []
        self.durable: list[Any] = []
        self._fail_on = fail_on
        self._calls = itertools.count()

    def _maybe_fail(self, action: str) -> None:
        if self._fail_on(action, next(self._calls)):
            raise StoreError("could not write the journal: no space left on device")

    def append(self, event: Any, at: float) -> None:
        self._maybe_fail("append")
        self.buffered.append(event)

    def flush(self) -> None:
        self._maybe_fail("flush")
        self.written += self.buffered
        self.buffered = []

    def commit(self) -> None:
        self._maybe_fail("commit")
        self.durable = list(self.written)


class House:
    """A loop over one experiment in fakes."""

    def __init__(
        self,
        *,
        tasks: int = 4,
        concurrency: int = 2,
        grading: GradingMode = GradingMode.NONE,
        harness: FakeHarness | None = None,
        sink: Sink | None = None,
        on_show: Callable[[Shown], None] = lambda shown: None,
        limits: TimeLimits | None = None,
    ) -> None:
        async def answer() -> str:
            await asyncio.sleep(0)
            return "ok"

        self.provider = FakeProvider()
        self.harness = harness or FakeHarness(on_send=answer)
        self.sink = sink or Sink()
        self.shown: list[Shown] = []
        self.started: list[str] = []
        names = tuple(f"t{i}" for i in range(tasks))
        plan = ExperimentPlan("e", names, 1, "fake", (True,) * tasks, grading)
        ids = itertools.count()
        self.scheduler = Scheduler([plan], GateLimits(concurrency), lambda: f"id{next(ids)}")

        self.view = RunView("e")

        def show(batch: Sequence[Shown]) -> None:
            for item in batch:
                on_show(item)
                self.view.add(item[1], item[2])  # a real display: it knows only what it was shown
            self.shown += batch

        self.loop = Loop(
            scheduler=self.scheduler,
            prepare=self.prepare,
            runs={"e": self.sink},
            show=show,
            clock=FakeClock(),
            redactor=Redactor(),
        )
        self.grading = grading
        self.limits = limits or TimeLimits()

    def prepare(self, command: StartTry) -> tuple[TryJob, Any]:
        self.started.append(command.slot.task)
        job = TryJob(
            attempt=command.attempt,
            try_number=command.try_number,
            task=fake_task(command.slot.task),
            benchmark=FakeBenchmark(),
            harness=self.harness,
            grader=FakeGrader(),
            grading=self.grading,
            provider=self.provider,
            environment=EnvironmentSpec(provider="fake"),
            agent_sandbox=True,
            limits=self.limits,
        )
        return job, lambda name, content: None

    def run(self) -> None:
        async def drive() -> None:
            await self.loop.run()
            assert {t for t in asyncio.all_tasks() if t is not asyncio.current_task()} == set()

        asyncio.run(drive())

    def of(self, kind: type) -> list[Any]:
        return [event for _, event, _ in self.shown if isinstance(event, kind)]


@pytest.mark.parametrize("grading", list(GradingMode))
def test_every_slot_is_sealed_once_and_shown(grading: GradingMode) -> None:
    house = House(tasks=7, grading=grading)
    house.run()
    assert sorted(e.task for e in house.of(AttemptSealed)) == sorted(house.started)
    assert {e.verdict for e in house.of(AttemptSealed)} == {Verdict.PASSED}
    assert house.of(RunEnded) == [RunEnded("e", Completion.COMPLETE)]
    assert house.provider.peak <= 2
    assert not house.provider.live
    assert [event for _, event, _ in house.shown] == house.sink.durable


def test_08_D1_what_ends_something_is_durable_before_it_is_shown() -> None:
    sink = Sink()

    def durable_first(shown: Shown) -> None:
        _, event, _ = shown
        if isinstance(event, FINAL_EVENTS):
            assert event in sink.durable
        assert event in sink.written

    House(tasks=6, sink=sink, on_show=durable_first).run()


def test_05_the_journal_line_of_a_try_is_written_before_a_sandbox_is_asked_for() -> None:
    house = House()

    async def looks_into_the_journal() -> None:
        started = [event for event in house.sink.written if isinstance(event, TryStarted)]
        assert len(started) > house.provider.opened

    house.provider.on_open = looks_into_the_journal
    house.run()
    assert len(house.of(AttemptSealed)) == 4
    assert {e.verdict for e in house.of(AttemptSealed)} == {Verdict.PASSED}


def test_10_I1_an_interrupt_stops_dispatch_cancels_and_keeps_what_is_finished() -> None:
    calls = itertools.count()

    async def only_the_first_ends() -> str:
        if next(calls):
            await for_ever()
        return "ok"

    def interrupt_after_the_first(shown: Shown) -> None:
        if isinstance(shown[1], AttemptSealed) and shown[1].verdict is Verdict.PASSED:
            house.loop.emit(Interrupted(15))

    house = House(tasks=9, harness=FakeHarness(on_send=only_the_first_ends), on_show=interrupt_after_the_first)
    house.run()
    verdicts = [e.verdict for e in house.of(AttemptSealed)]
    assert verdicts.count(Verdict.PASSED) == 1
    stopped = sum(e.slots for e in house.of(DispatchStopped) if e.reason is StopReason.INTERRUPT)
    assert len(verdicts) + stopped == 9
    assert house.of(RunEnded) == [RunEnded("e", Completion.INTERRUPTED)]
    assert not house.provider.live


@pytest.mark.parametrize("action", ["append", "flush", "commit"])
@pytest.mark.parametrize("first_failure", range(0, 40, 3))
def test_08_D5_when_the_journal_cannot_be_written_the_run_ends_and_shows_only_what_is_kept(
    action: str, first_failure: int
) -> None:
    sink = Sink(lambda what, call: what == action and call >= first_failure)
    house = House(tasks=5, sink=sink)
    house.run()
    assert not house.provider.live
    shown_final = [event for _, event, _ in house.shown if isinstance(event, FINAL_EVENTS)]
    assert all(event in sink.durable for event in shown_final)
    if house.loop.store_error is None:
        assert len(house.of(AttemptSealed)) == 5
    else:
        assert "no space left" in house.loop.store_error.message


def test_a_bug_of_ours_ends_the_run_loudly_and_leaves_no_sandbox() -> None:
    house = House(tasks=6, concurrency=3)
    honest = house.prepare
    calls = itertools.count()

    def broken(command: StartTry) -> Any:
        if next(calls) == 4:
            raise InternalError("impossible")
        return honest(command)

    house.loop._prepare = broken
    with pytest.raises(InternalError, match="impossible"):
        house.run()
    assert not house.provider.live


def test_a_slow_display_or_commit_does_not_hold_the_decisions() -> None:
    # 200 attempts, each of a few steps: with one commit per attempt this would take 200 commit intervals.
    commits = itertools.count()
    sink = Sink()
    honest = sink.commit
    sink.commit = lambda: (next(commits), honest())[1]  # type: ignore[method-assign]
    house = House(tasks=200, concurrency=50, sink=sink)
    house.run()
    assert len(house.of(AttemptSealed)) == 200
    assert next(commits) < 100
    assert len(house.of(TryEnded)) == 200


def test_a_bug_in_a_commit_ends_the_run_loudly() -> None:
    sink = Sink()

    def broken() -> None:
        raise ZeroDivisionError("impossible")

    sink.commit = broken  # type: ignore[method-assign]
    house = House(sink=sink)
    with pytest.raises(ZeroDivisionError, match="impossible"):
        house.run()
    assert not house.provider.live


def test_05_a_harness_that_ignores_cancellation_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "PHASE_GRACE_SECONDS", 0.02)
    over = asyncio.Event()

    async def stubborn() -> str:
        while not over.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        return "ok"

    house = House(tasks=3, harness=FakeHarness(on_send=stubborn), limits=TimeLimits(agent_seconds=0.02))

    async def drive() -> None:
        await house.loop.run()
        assert len(house.of(AttemptSealed)) == 3, "the run has ended"
        over.set()
        await asyncio.sleep(0.05)

    asyncio.run(drive())
    assert {e.verdict for e in house.of(AttemptSealed)} == {Verdict.FAILED}, "graded on what was collected"
    assert not house.provider.live
