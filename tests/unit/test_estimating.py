"""The estimate that displays show: from what was expected and what was seen, as of now (spec 07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proctor.cli import estimating
from proctor.cli.estimating import Estimator
from proctor.core.expectations import Sample, Samples
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict
from proctor.model.events import AttemptSealed, Event, PhaseEnded, RunStarted, TryEnded, TryStarted
from proctor.report.estimate import Estimate
from proctor.report.view import RunView
from proctor.testing.fakes import FakeClock

ONE = GateLimits(task_concurrency=1)


class Rig:
    """An estimator beside the view of a run, both fed with the same events."""

    def __init__(self, tasks: int = 4, history: Samples | None = None, limits: GateLimits = ONE) -> None:
        self.clock = FakeClock()
        names = tuple(f"t{number}" for number in range(tasks))
        plan = ExperimentPlan("e", names, 1, "local", (False,) * tasks)
        self.view = RunView("e")
        self.estimator = Estimator([plan], limits, {"e": history or {}}, {"e": self.view}, self.clock)
        self.take(RunStarted(1, "i", "r", "e", "0", "host", 1, tasks))

    def take(self, *events: Event) -> None:
        for event in events:
            self.view.add(event, self.clock.wall())
            self.estimator.take([("e", event, self.clock.wall())])

    def finish(self, task: str, seconds: float, cost: float | None) -> None:
        self.take(TryStarted(task, task, 0, 1))
        self.clock.advance(seconds)
        result = TryResult(Outcome.GRADED, Grade(True, 1.0), Usage(calls=1, cost_usd=cost))
        self.take(PhaseEnded(task, Phase.AGENT, seconds), TryEnded(task, 1, result))
        self.take(AttemptSealed(task, task, 0, Verdict.PASSED, 1.0, 1))


def test_07_before_anything_is_known_nothing_is_said() -> None:
    rig = Rig()
    assert rig.estimator.estimate() == Estimate()
    assert rig.estimator.estimate_now() == Estimate()


def test_07_history_tells_how_long_the_whole_takes_before_it_starts() -> None:
    rig = Rig(history={f"t{number}": [Sample(10.0, cost_usd=0.25)] * 5 for number in range(4)})
    one = rig.estimator.estimate_now()
    assert (one.seconds_left, one.seconds_total) == (pytest.approx(40.0), pytest.approx(40.0))
    assert (one.cost_usd, one.cost_spread_usd) == (pytest.approx(1.0), pytest.approx(0.0))


def test_07_it_follows_the_run_to_its_end() -> None:
    rig = Rig()
    for number, left in enumerate((3, 2, 1, 0)):
        rig.finish(f"t{number}", 10.0, 0.5)
        one = rig.estimator.estimate_now()
        assert one.seconds_left == pytest.approx(10.0 * left, rel=0.8, abs=0.01)
        assert one.cost_usd == pytest.approx(2.0), "what was spent and what is expected"
    assert one.seconds_left == 0.0
    assert one.seconds_total == pytest.approx(40.0)


def test_07_it_counts_down_between_two_estimates_and_never_below_nothing() -> None:
    rig = Rig(history={f"t{number}": [Sample(10.0)] * 5 for number in range(4)})
    rig.estimator.estimate_now()
    for passed, left in ((0.0, 40.0), (15.0, 25.0), (100.0, 0.0)):
        rig.clock.advance(passed)
        assert rig.estimator.estimate().seconds_left == pytest.approx(left)


def test_07_an_unknown_price_makes_the_cost_unknown_and_not_the_time() -> None:
    rig = Rig()
    rig.finish("t0", 10.0, None)
    one = rig.estimator.estimate_now()
    assert one.seconds_left is not None
    assert one.cost_usd is None
    assert one.cost_spread_usd is None


def test_12_of_many_slots_the_formula_is_used_and_says_the_same() -> None:
    history = {f"t{number}": [Sample(10.0)] * 5 for number in range(30_000)}
    rig = Rig(30_000, history, GateLimits(task_concurrency=100))
    assert rig.estimator.estimate_now().seconds_left == pytest.approx(3_000.0, rel=0.01)


def test_10_I4_a_bug_ends_the_estimates_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(history={"t0": [Sample(10.0)] * 5})
    rig.estimator.estimate_now()
    rig.estimator.take([("nobody", TryStarted("a", "t0", 0, 1), 0.0)])
    assert "it is not estimated any more" in caplog.text
    assert rig.estimator.estimate() == Estimate()
    rig.estimator.take([("e", TryStarted("a", "t0", 0, 1), 0.0)])
    asyncio.run(asyncio.wait_for(rig.estimator.estimate_forever(), 60))
    assert len(caplog.records) == 1


def test_12_the_first_estimate_is_not_made_twice_and_what_it_took_puts_off_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimating, "EVERY_SECONDS", 0.0)
    rig = Rig(history={f"t{number}": [Sample(10.0, cost_usd=0.25)] * 5 for number in range(4)})
    simulated = estimating.simulated_seconds

    def slowly(*given: Any) -> float | None:
        rig.clock.advance(100.0)
        return simulated(*given)

    monkeypatch.setattr(estimating, "simulated_seconds", slowly)
    assert rig.estimator.estimate_now().cost_usd == pytest.approx(1.0)
    rig.finish("t0", 10.0, 0.25)

    async def drive() -> None:
        task = asyncio.create_task(rig.estimator.estimate_forever())
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(drive())
    assert rig.estimator.estimate().cost_usd == pytest.approx(0.25 + 1.0), "what is left is as it was known before"


def test_07_it_is_estimated_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "EVERY_SECONDS", 0.0)
    rig = Rig(history={f"t{number}": [Sample(10.0)] * 5 for number in range(4)})

    async def drive() -> None:
        task = asyncio.create_task(rig.estimator.estimate_forever())
        while rig.estimator.estimate().seconds_left != pytest.approx(40.0):
            await asyncio.sleep(0.001)
        rig.take(TryStarted("a", "t0", 0, 1))
        rig.clock.advance(9.0)
        while rig.estimator.estimate().seconds_left != pytest.approx(31.0):
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(drive())
