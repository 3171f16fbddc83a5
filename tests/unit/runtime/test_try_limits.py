"""What a whole try becomes where a limit ends a part of it (spec 05 Time, Issues)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from test_try_runner import Bench, ok
from virtual_loop import LoopClock, run_virtually

from proctor.model.attempt import GradingMode, Outcome, Phase, TryResult, Verdict, verdict_of
from proctor.model.events import GradingQueued, PhaseEnded, TryEnded
from proctor.model.spec import TimeLimits
from proctor.runtime import watchdog
from proctor.runtime.redact import Redactor
from proctor.runtime.running import run_to_end
from proctor.runtime.try_runner import TryRunner
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeHarness


async def drive(bench: Bench) -> None:
    def emit(event: Any) -> None:
        bench.events.append(event)
        if isinstance(event, GradingQueued):
            asyncio.get_running_loop().call_later(1000.0, runner.grant)

    runner = TryRunner(bench.job, emit=emit, save=bench.saved.__setitem__, clock=LoopClock(), redactor=Redactor())
    await runner.run()


def result_of(bench: Bench) -> TryResult:
    [ended] = [event for event in bench.events if isinstance(event, TryEnded)]
    return ended.result


def run(bench: Bench) -> TryResult:
    """Run a try in virtual time."""
    run_virtually(lambda loop: drive(bench))
    return result_of(bench)


def codes(result: TryResult) -> list[str]:
    return [issue.code for issue in result.issues]


def takes(seconds: float, answer: Any = None) -> Any:
    async def action() -> Any:
        await asyncio.sleep(seconds)
        return answer

    return action


@pytest.mark.parametrize("grading", list(GradingMode))
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (TimeLimits(try_seconds=100.0), "time.attempt"),
        (TimeLimits(try_seconds=100.0, agent_seconds=200.0, agent_idle_seconds=150.0), "time.attempt"),
        (TimeLimits(try_seconds=1000.0, agent_seconds=60.0), "time.agent"),
        (TimeLimits(agent_seconds=200.0, agent_idle_seconds=50.0), "time.idle"),
    ],
)
def test_05_an_agent_that_a_limit_ended_is_graded_on_what_was_collected(
    grading: GradingMode, limits: TimeLimits, code: str
) -> None:
    harness = FakeHarness(on_start=takes(30), on_send=takes(3600, "ok"), on_collect=takes(100))
    result = run(Bench(harness=harness, grading=grading, limits=limits))
    assert codes(result) == [code]
    assert result.outcome is Outcome.GRADED
    assert verdict_of(result) is Verdict.FAILED, "there was no answer yet"


@pytest.mark.parametrize(
    ("slow", "code"),
    [
        (Phase.OPEN, "provider.open_timeout"),
        (Phase.SETUP, "time.setup"),
        (Phase.COLLECT, "time.collect"),
    ],
)
def test_05_elsewhere_the_limit_of_the_try_has_the_code_of_the_phase(slow: Phase, code: str) -> None:
    actions = {phase: takes(300.0 if phase is slow else 20.0) for phase in Phase}
    bench = Bench(
        provider=FakeProvider(on_open=actions[Phase.OPEN]),
        benchmark=FakeBenchmark(on_setup=actions[Phase.SETUP]),
        harness=FakeHarness(on_send=takes(20.0, "ok"), on_collect=actions[Phase.COLLECT]),
        limits=TimeLimits(try_seconds=100.0, collect_seconds=500.0),
    )
    result = run(bench)
    assert codes(result) == [code]
    assert verdict_of(result) is Verdict.ERRORED
    assert "the limit of the whole try, 100 s (timeout_seconds)" in result.issues[0].message
    assert not bench.provider.live


def test_05_permits_of_grading_are_waited_for_as_long_as_it_takes_and_disposal_counts_for_nothing() -> None:
    bench = Bench(
        provider=FakeProvider(on_dispose=takes(50.0)),
        harness=FakeHarness(on_send=takes(20.0, "ok")),
        grading=GradingMode.FRESH,
        limits=TimeLimits(try_seconds=21.0),
    )
    result = run(bench)
    assert codes(result) == []
    assert verdict_of(result) is Verdict.PASSED
    executed = [event.seconds for event in bench.events if isinstance(event, PhaseEnded)]
    assert sum(executed) == pytest.approx(20 + 2 * 50)


@pytest.mark.parametrize("where", ["close", "dispose"])
def test_05_clean_up_that_holds_the_event_loop_is_ended_at_its_limit(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "TICK_SECONDS", 0.05)

    async def blocks() -> None:
        time.sleep(3600)

    harness = FakeHarness(on_send=ok, **({"on_close": blocks} if where == "close" else {}))
    provider = FakeProvider(**({"on_dispose": blocks} if where == "dispose" else {}))
    bench = Bench(harness=harness, provider=provider, limits=TimeLimits(dispose_seconds=0.1))

    run_to_end(drive(bench))
    result = result_of(bench)
    assert verdict_of(result) is Verdict.PASSED, "trouble of clean-up is beside the outcome"
    assert codes(result) == ["dispose.failed"]
    assert "held the event loop" in result.issues[0].message or "not gone within" in result.issues[0].message
