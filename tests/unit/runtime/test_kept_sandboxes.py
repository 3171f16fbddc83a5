"""Sandboxes that are kept for a person: whose, when, and what is journaled of it (spec 06 V2)."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from test_try_runner import Bench, codes, ok

from proctor.errors import SkipTask
from proctor.model.attempt import GradingMode, Outcome, Phase, Verdict, verdict_of
from proctor.model.events import (
    GradingQueued,
    LaneClosed,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    TryEnded,
    WorkCheckpointed,
)
from proctor.runtime.agent_box import SandboxHooks
from proctor.runtime.redact import Redactor
from proctor.runtime.sandbox_ledger import SandboxLedger
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import raises
from proctor.testing.fake_provider import FakeProvider, FakeSandbox
from proctor.testing.fakes import FakeClock, FakeGrader, FakeHarness


async def wrong() -> str:
    return "wrong"


def of(bench: Bench, kind: type) -> list[Any]:
    return [event for event in bench.events if isinstance(event, kind)]


def boxes(bench: Bench, kind: type) -> list[str]:
    return [event.sandbox for event in of(bench, kind)]


def check_books(bench: Bench) -> None:
    """Every sandbox that was opened is gone or kept, as the provider has it and as the journal says it."""
    kept = boxes(bench, SandboxKept)
    assert sorted(boxes(bench, SandboxOpened)) == sorted(kept + boxes(bench, SandboxDisposed))
    assert sorted(bench.provider.live) == sorted(kept)
    assert all(bench.provider.live[name].labels["kept"] == "true" for name in kept)


HOW = {
    "passed": (Verdict.PASSED, {"harness": FakeHarness(on_send=ok)}),
    "failed": (Verdict.FAILED, {"harness": FakeHarness(on_send=wrong)}),
    "errored": (Verdict.ERRORED, {"grader": FakeGrader(raises(RuntimeError("boom")))}),
    "agent crashed": (Verdict.ERRORED, {"harness": FakeHarness(on_send=raises(RuntimeError("boom")))}),
    "setup crashed": (Verdict.ERRORED, {"harness": FakeHarness(on_start=raises(RuntimeError("boom")))}),
    "skipped": (Verdict.SKIPPED, {"harness": FakeHarness(on_start=raises(SkipTask("no gpu")))}),
}


@pytest.mark.parametrize("keep", ["failed", "all", None])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("grading", list(GradingMode))
def test_V2_sandboxes_of_tries_that_did_not_pass_are_kept_and_with_all_those_of_every_try(
    grading: GradingMode, how: str, keep: Any
) -> None:
    verdict, changes = HOW[how]
    if "grader" in changes:
        changes = {**changes, "grader": grader_that_breaks()}
    bench = Bench(grading=grading, keep=keep, **changes)
    assert verdict_of(bench.run()) is verdict
    check_books(bench)
    wanted = keep == "all" or (keep == "failed" and verdict is not Verdict.PASSED)
    if not wanted:
        assert not of(bench, SandboxKept)
        return
    purposes = {event.purpose for event in of(bench, SandboxKept)}
    graded_apart = grading is GradingMode.FRESH and how in ("passed", "failed", "errored")
    assert purposes == ({Purpose.AGENT, Purpose.GRADE} if graded_apart else {Purpose.AGENT})
    assert not of(bench, SandboxDisposed)
    assert all(event.provider == "fake" and event.try_number == 1 for event in of(bench, SandboxKept))


def grader_that_breaks() -> FakeGrader:
    async def grade(_: Any) -> Any:
        raise RuntimeError("boom")

    return FakeGrader(grade)


def test_V2_a_solved_task_with_a_fatal_issue_did_not_pass() -> None:
    async def send() -> str:
        return "ok"

    bench = Bench(keep="failed", harness=FakeHarness(on_send=send, on_collect=raises(RuntimeError("boom"))))
    assert verdict_of(bench.run()) is Verdict.ERRORED
    assert boxes(bench, SandboxKept) == ["fake-1"]


@pytest.mark.parametrize("grading", [GradingMode.NONE, GradingMode.FRESH])
def test_V2_until_the_verdict_the_agents_sandbox_is_set_aside_with_its_session_closed(grading: GradingMode) -> None:
    """The phases say the scheduler that its permits go back before grading, as where it is disposed of."""
    told: list[str] = []

    async def close() -> None:
        told.append("closed")

    async def grade(_: Any) -> Any:
        told.append("graded")
        raise RuntimeError("boom")

    bench = Bench(
        grading=grading, keep="failed", harness=FakeHarness(on_send=ok, on_close=close), grader=FakeGrader(grade)
    )
    bench.run()
    assert told == ["closed", "graded"]
    phases = [(type(e), e.phase) for e in bench.events if isinstance(e, PhaseStarted | PhaseEnded)]
    apart = phases.index((PhaseEnded, Phase.DISPOSE))
    assert phases.index((PhaseEnded, Phase.COLLECT)) < apart < phases.index((PhaseStarted, Phase.GRADE))
    last = max(index for index, one in enumerate(phases) if one == (PhaseEnded, Phase.DISPOSE))
    assert last > phases.index((PhaseEnded, Phase.GRADE)), "what becomes of it is decided after the verdict"


def test_V2_hooks_are_undone_before_a_sandbox_is_kept_and_once() -> None:
    told: list[str] = []
    hooks = SandboxHooks("e", lambda box: told.append(f"up {box.id}"), lambda box: told.append(f"down {box.id}"))
    bench = Bench(keep="all", sandbox_hooks=(hooks,))
    bench.run()
    assert told == ["up fake-1", "down fake-1"]
    assert boxes(bench, SandboxKept) == ["fake-1"]


class Unkeepable(FakeSandbox):
    async def keep(self) -> None:
        raise OSError("no room")


class UnkeepableProvider(FakeProvider):
    async def open(self, environment: Any, labels: Any) -> FakeSandbox:
        made = await super().open(environment, labels)
        self.live[made.id] = box = Unkeepable(self, made.id, labels)
        return box


def test_V2_a_sandbox_that_cannot_be_kept_is_disposed_of_with_a_warning() -> None:
    bench = Bench(keep="all", provider=UnkeepableProvider())
    result = bench.run()
    assert verdict_of(result) is Verdict.PASSED
    assert codes(result) == ["dispose.failed"]
    assert "keeping sandbox fake-1" in result.issues[0].message
    assert "OSError: no room" in result.issues[0].message
    assert boxes(bench, SandboxDisposed) == ["fake-1"]
    assert not bench.provider.live


@pytest.mark.parametrize("told", [True, False], ids=["runner was told", "only its task"])
@pytest.mark.parametrize(
    ("grading", "when"),
    [
        *itertools.product(GradingMode, [SandboxOpened, PhaseStarted, PhaseEnded, WorkCheckpointed]),
        (GradingMode.FRESH, GradingQueued),
    ],
)
def test_V2_cancelled_at_any_event_nothing_is_kept_unless_the_try_ended_all_the_same(
    grading: GradingMode, when: type, told: bool
) -> None:
    bench = Bench(grading=grading, keep="all", harness=FakeHarness(on_send=ok))

    async def drive() -> None:
        def emit(event: Any) -> None:
            bench.events.append(event)
            if isinstance(event, GradingQueued) and when is not GradingQueued:
                runner.grant()
            if isinstance(event, when):
                if told:
                    runner.cancel()
                task.cancel()

        runner = TryRunner(bench.job, emit=emit, save=bench.save, clock=FakeClock(), redactor=Redactor())
        task = asyncio.get_running_loop().create_task(runner.run())
        await asyncio.wait({task})

    asyncio.run(drive())
    check_books(bench)
    end = bench.events[-1]
    assert isinstance(end, TryEnded)
    assert bool(of(bench, SandboxKept)) <= (end.result.outcome is Outcome.GRADED)
    if told and of(bench, when):  # with reuse there is no checkpoint
        assert not of(bench, SandboxKept)


def test_V2_cancelled_while_it_is_being_kept_it_is_disposed_of() -> None:
    """The provider takes its time to keep it, and the interrupt comes then."""
    started = asyncio.Event()

    class Slow(FakeSandbox):
        async def keep(self) -> None:
            started.set()
            await asyncio.sleep(0.01)
            await super().keep()

    class SlowProvider(FakeProvider):
        async def open(self, environment: Any, labels: Any) -> FakeSandbox:
            made = await super().open(environment, labels)
            self.live[made.id] = box = Slow(self, made.id, labels)
            return box

    bench = Bench(keep="all", provider=SlowProvider())

    async def drive() -> None:
        runner = TryRunner(bench.job, emit=bench.events.append, save=bench.save, clock=FakeClock(), redactor=Redactor())
        task = asyncio.create_task(runner.run())
        await started.wait()
        runner.cancel()
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(drive())
    assert bench.events[-1].result.outcome is Outcome.CANCELLED
    assert not of(bench, SandboxKept)
    assert not bench.provider.live


def test_kept_sandboxes_are_counted_apart_from_those_that_may_be_left_behind() -> None:
    ledger = SandboxLedger()
    kept = SandboxKept("a", 1, "box-1", Purpose.AGENT, "fake")
    for event in (SandboxOpened("a", 1, "box-1", Purpose.AGENT), SandboxOpened("a", 1, "box-2", Purpose.GRADE), kept):
        ledger.note(event, "e")
    assert ledger.kept == [kept]
    assert ledger.left == [("box-2", "e")]
    ledger.note(LaneClosed("l", "e", "box-2"))
    assert not ledger.left
