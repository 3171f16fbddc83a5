"""A try waits for its image before a limit counts, and is charged no time for it (spec 06 V4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from test_try_runner import Bench, codes, ok

from proctor.errors import Fault
from proctor.model.attempt import GradingMode, Outcome, Verdict, verdict_of
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import ImageWaitEnded, ImageWaitStarted, PhaseEnded, PhaseStarted, SandboxOpened, TryEnded
from proctor.model.spec import TimeLimits
from proctor.runtime.images import Images
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeClock, FakeHarness

WITH_IMAGE = EnvironmentSpec(provider="fake", image="alpine:3")


class ImageBench(Bench):
    """Tries that share images; time passes while one is made ready."""

    def __init__(self, **changes: Any) -> None:
        self.clock = FakeClock()
        self.prepared = 0
        provider = changes.pop("provider", None) or FakeProvider(on_prepare=self._prepare)
        changes.setdefault("environment", WITH_IMAGE)
        changes.setdefault("harness", FakeHarness(on_send=ok))
        super().__init__(provider=provider, **changes)

    async def _prepare(self) -> None:
        self.prepared += 1
        self.clock.advance(100.0)
        await asyncio.sleep(0)

    async def one(self, job: Any) -> Any:
        def emit(event: Any) -> None:
            self.events.append(event)
            if type(event).__name__ == "GradingQueued":
                runner.grant()

        runner = TryRunner(job, emit=emit, save=self.save, clock=self.clock, redactor=Redactor())
        await runner.run()
        return self.events[-1].result

    def tries(self, *jobs: Any) -> list[Any]:
        async def drive() -> list[Any]:
            images = Images(2)
            try:
                return [await self.one(replace(job, images=images)) for job in jobs]
            finally:
                await images.close()

        return asyncio.run(drive())


def test_V4_no_limit_and_no_phase_counts_the_wait_for_an_image() -> None:
    bench = ImageBench(limits=TimeLimits(open_seconds=50.0, try_seconds=60.0))
    [result] = bench.tries(bench.job)
    assert verdict_of(result) is Verdict.PASSED
    assert bench.events[:2] == [ImageWaitStarted("a", "alpine:3"), ImageWaitEnded("a", 100.0)]
    assert all(event.seconds < 1 for event in bench.events if isinstance(event, PhaseEnded))


def test_V4_an_image_that_is_there_is_not_waited_for_and_made_once() -> None:
    bench = ImageBench(grading=GradingMode.FRESH)
    results = bench.tries(bench.job, replace(bench.job, attempt="b"))
    assert [verdict_of(result) for result in results] == [Verdict.PASSED] * 2
    assert bench.prepared == 1
    assert sum(isinstance(event, ImageWaitStarted) for event in bench.events) == 1
    assert sum(isinstance(event, SandboxOpened) for event in bench.events) == 4


def test_V4_without_an_image_nothing_is_journaled_of_one() -> None:
    bench = ImageBench(environment=EnvironmentSpec(provider="fake"))
    bench.tries(bench.job)
    assert bench.prepared == 0
    assert isinstance(bench.events[0], PhaseStarted)


@pytest.mark.parametrize("code", ["image.missing", "image.build_failed"])
def test_V4_tries_that_share_an_image_that_failed_are_errored_with_what_it_said(code: str) -> None:
    bench = ImageBench(provider=FakeProvider(on_prepare=raises(Fault(code, "the last lines"))))
    for result in bench.tries(bench.job, replace(bench.job, attempt="b")):
        assert result.outcome is Outcome.BROKEN
        assert codes(result) == [code]
        assert result.issues[0].message == "the last lines"
    assert bench.provider.opened == 0


def test_V4_a_try_that_is_cancelled_while_it_waits_ends_and_so_does_the_work_for_nobody() -> None:
    ended: list[str] = []

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("image")

    bench = ImageBench(provider=FakeProvider(on_prepare=never))

    async def drive() -> None:
        job = replace(bench.job, images=Images(1))
        runner = TryRunner(job, emit=bench.events.append, save=bench.save, clock=bench.clock, redactor=Redactor())
        task = asyncio.create_task(runner.run())
        while not bench.events:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        runner.cancel()
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(drive())
    assert isinstance(bench.events[-1], TryEnded)
    assert bench.events[-1].result.outcome is Outcome.CANCELLED
    assert [type(event) for event in bench.events] == [ImageWaitStarted, ImageWaitEnded, TryEnded]
    assert bench.provider.opened == 0
