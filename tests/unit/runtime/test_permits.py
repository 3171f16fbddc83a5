"""Permits at the end are those at the start, wherever attempts fail (cases/conc 18)."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from test_loop import House, Sink

from proctor.core.commands import StartTry
from proctor.model.attempt import GradingMode
from proctor.model.events import AttemptSealed, Interrupted
from proctor.runtime.job import TryJob
from proctor.testing.actions import for_ever, raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeGrader, FakeHarness

POINTS = ["open", "setup", "start", "send", "collect", "grade", "close", "dispose"]


def job_that_fails_at(point: str, job: TryJob) -> TryJob:
    from dataclasses import replace

    error = raises(RuntimeError(f"failed at {point}"))

    async def ok() -> str:
        return "ok"

    async def grade(_: Any) -> Any:
        await error()

    steps = {f"on_{point}": error} if point in ("start", "send", "collect", "close") else {}
    harness = FakeHarness(**{"on_send": ok, **steps})
    provider = FakeProvider(**({f"on_{point}": error} if point in ("open", "dispose") else {}))
    benchmark = FakeBenchmark(on_setup=error) if point == "setup" else FakeBenchmark()
    grader = FakeGrader(grade) if point == "grade" else FakeGrader()
    return replace(job, harness=harness, provider=provider, benchmark=benchmark, grader=grader)


@pytest.mark.parametrize("grading", list(GradingMode))
def test_conc_18_every_permit_comes_back_from_every_failure(grading: GradingMode) -> None:
    house = House(tasks=16, concurrency=2, grading=grading, sink=Sink())
    honest, points = house.prepare, itertools.cycle(POINTS)

    def prepare(command: StartTry) -> tuple[TryJob, Any]:
        job, save = honest(command)
        return job_that_fails_at(next(points), job), save

    house.loop._prepare = prepare
    house.run()
    assert len(house.of(AttemptSealed)) == 16
    assert [gate.held for gate in house.scheduler.snapshot().gates] == [0] * len(house.scheduler.snapshot().gates)


def test_conc_18_every_permit_comes_back_from_a_cancellation() -> None:
    house = House(tasks=9, concurrency=3, harness=FakeHarness(on_send=for_ever))

    async def drive() -> None:
        running = asyncio.create_task(house.loop.run())
        while len(house.provider.live) < 3:
            await asyncio.sleep(0)
        assert sum(gate.held for gate in house.scheduler.snapshot().gates if gate.name == "global") == 3
        house.loop.emit(Interrupted(2))
        await running

    asyncio.run(drive())
    assert all(gate.held == 0 for gate in house.scheduler.snapshot().gates)
