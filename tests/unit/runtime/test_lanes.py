"""Tries in a lane: one sandbox, opened once, reset in between, disposed of by the lane (spec 03 L0-L5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_try_runner import Bench, codes, ok

from proctor.model.attempt import GradingMode, Verdict, verdict_of
from proctor.model.events import GradingQueued, LaneClosed, SandboxDisposed, SandboxOpened, TryEnded
from proctor.model.spec import TimeLimits
from proctor.runtime.job import TryJob
from proctor.runtime.lanes import Lane
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import for_ever, raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeClock, FakeHarness


class LaneBench:
    """Several tries in one lane."""

    def __init__(self, provider: FakeProvider | None = None) -> None:
        self.provider = provider or FakeProvider()
        self.lane = Lane("l1", "e", 1.0)
        self.events: list[Any] = []

    def job(self, attempt: str, **changes: Any) -> TryJob:
        changes.setdefault("harness", FakeHarness(on_send=ok))
        return Bench(provider=self.provider, lane=self.lane, attempt=attempt, **changes).job

    async def run(self, job: TryJob, *, cancel: bool = False) -> TryEnded:
        def emit(event: Any) -> None:
            self.events.append(event)
            if isinstance(event, GradingQueued):
                runner.grant()

        runner = TryRunner(job, emit=emit, save=lambda *_: None, clock=FakeClock(), redactor=Redactor())
        task = asyncio.create_task(runner.run())
        if cancel:
            while not self.lane.marked:
                await asyncio.sleep(0)
            runner.cancel()
            task.cancel()
        await asyncio.wait({task})
        assert isinstance(self.events[-1], TryEnded)
        return self.events[-1]

    async def close(self) -> LaneClosed:
        await self.lane.close(self.events.append, self.events.append)
        return self.events[-1]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.parametrize("grading", list(GradingMode))
def test_L1_the_tries_of_a_lane_share_one_sandbox_that_the_lane_disposes_of(grading: GradingMode) -> None:
    bench = LaneBench()

    async def drive() -> None:
        for attempt in ("a", "b", "c"):
            ended = await bench.run(bench.job(attempt, grading=grading))
            assert verdict_of(ended.result) is Verdict.PASSED
            assert ended.sandbox_reusable
            assert list(bench.provider.live) == ["fake-1"], "the lane's alone, also after a fresh grading"
        assert await bench.close() == LaneClosed("l1", "e", "fake-1")

    asyncio.run(drive())
    assert not bench.provider.live
    agents = [event.sandbox for event in bench.of(SandboxOpened) if event.purpose.value == "agent"]
    assert agents == ["fake-1"]
    assert "fake-1" not in [event.sandbox for event in bench.of(SandboxDisposed)]


def test_L2_what_an_attempt_left_in_the_work_directory_is_gone_for_the_next() -> None:
    bench = LaneBench()
    seen: list[dict[str, bytes]] = []

    async def litter() -> str:
        sandbox = bench.provider.live["fake-1"]
        seen.append(dict(sandbox.files))
        sandbox.files["left"] = b"behind"
        return "ok"

    async def drive() -> None:
        for attempt in ("a", "b"):
            await bench.run(bench.job(attempt, harness=FakeHarness(on_send=litter)))

    asyncio.run(drive())
    assert seen == [{}, {}]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"harness": FakeHarness(on_send=raises(RuntimeError("boom")))}, "harness.crashed"),
        ({"benchmark": FakeBenchmark(on_setup=raises(RuntimeError("boom")))}, "task.setup_failed"),
        ({"harness": FakeHarness(on_send=for_ever), "limits": TimeLimits(agent_seconds=0.02)}, "time.agent"),
    ],
    ids=["crash", "setup", "timeout"],
)
def test_L2_a_sandbox_is_retired_after_what_nobody_can_mend(changes: dict[str, Any], code: str) -> None:
    bench = LaneBench()

    async def drive() -> None:
        ended = await bench.run(bench.job("a", **changes))
        assert not ended.sandbox_reusable
        assert code in codes(ended.result)
        await bench.close()

    asyncio.run(drive())
    assert not bench.provider.live


def test_L2_a_sandbox_is_retired_after_a_failed_reset_and_the_outcome_stands() -> None:
    bench = LaneBench(FakeProvider(on_reset=raises(OSError("busy"))))

    async def drive() -> None:
        ended = await bench.run(bench.job("a"))
        assert not ended.sandbox_reusable
        assert verdict_of(ended.result) is Verdict.PASSED
        assert codes(ended.result) == ["dispose.failed"]

    asyncio.run(drive())


def test_L2_a_sandbox_is_retired_after_a_cancelled_attempt() -> None:
    bench = LaneBench()

    async def drive() -> None:
        ended = await bench.run(bench.job("a", harness=FakeHarness(on_send=for_ever)), cancel=True)
        assert not ended.sandbox_reusable
        await bench.close()

    asyncio.run(drive())
    assert not bench.provider.live


def test_a_lane_whose_sandbox_never_opened_is_of_no_use_and_closes() -> None:
    bench = LaneBench(FakeProvider(on_open=raises(OSError("no room"))))

    async def drive() -> None:
        ended = await bench.run(bench.job("a"))
        assert not ended.sandbox_reusable
        assert await bench.close() == LaneClosed("l1", "e", None)

    asyncio.run(drive())


def test_a_lane_that_cannot_dispose_of_its_sandbox_says_so_and_closes() -> None:
    bench = LaneBench(FakeProvider(on_dispose=for_ever))
    bench.lane = Lane("l1", "e", 0.02)

    async def drive() -> None:
        await bench.run(bench.job("a"))
        assert await bench.close() == LaneClosed("l1", "e", None)

    asyncio.run(drive())
    assert any(isinstance(event, str) and "fake-1" in event for event in bench.events)
