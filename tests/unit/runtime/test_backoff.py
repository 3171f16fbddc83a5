"""Waiting inside a try: permits go back, limits stand still, what was refused is repeated (spec 03 B1, B4, 05 T5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from test_try_runner import Bench

from proctor.errors import Fault
from proctor.model.attempt import Outcome, Phase, TryResult, Verdict, verdict_of
from proctor.model.events import BackoffEnded, BackoffStarted, PhaseEnded, TryEnded
from proctor.model.spec import ModelSpec, TimeLimits
from proctor.plugins.api import ChatMessage, Completion
from proctor.runtime.backoff import retry_after_seconds
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeClock, FakeHarness

WALL = 1_800_000_000.0
CODE = "model.rate_limited"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("0", None),
        ("-3", None),
        ("abc", None),
        ("", None),
        ("86400", 86400.0),
        ("Fri, 15 Jan 2027 08:00:07 GMT", 7.0),
        ("Fri, 15 Jan 2027 07:59:00 GMT", None),
        ("Fri, 99 Jan 2027 08:00:07 GMT", None),
    ],
)
def test_cases_retry_33_retry_after_in_every_form(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, WALL) == seconds


class Driver:
    """Runs a try whose waits take no time; `resume` is given when it is asked for."""

    def __init__(self, bench: Bench, *, resume: bool = True) -> None:
        self.bench = bench
        self.clock = FakeClock(WALL)
        self.slept: list[float] = []
        self.resume = resume
        self.runner: TryRunner | None = None
        self.task: asyncio.Task[None] | None = None
        self.on_event: Callable[[Any], None] = lambda event: None

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.clock.advance(seconds)

    def emit(self, event: Any) -> None:
        self.bench.events.append(event)
        self.on_event(event)
        if isinstance(event, BackoffEnded) and self.resume:
            assert self.runner is not None
            self.runner.resume()

    def run(self) -> TryResult:
        async def drive() -> None:
            self.runner = TryRunner(
                self.bench.job,
                emit=self.emit,
                save=self.bench.saved.__setitem__,
                clock=self.clock,
                redactor=Redactor(),
                sleep=self.sleep,
                unit=lambda: 1.0,
            )
            self.task = asyncio.create_task(self.runner.run())
            await asyncio.wait({self.task})
            self.task.result()

        asyncio.run(drive())
        [ended] = [event for event in self.bench.events if isinstance(event, TryEnded)]
        return ended.result

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.bench.events if isinstance(event, kind)]


def with_turn(turn: Callable[[FakeHarness], Awaitable[str]], **changes: Any) -> Bench:
    harness = FakeHarness()

    async def send() -> str:
        return await turn(harness)

    harness.on_send = send
    return Bench(harness=harness, **changes)


def test_B1_a_backoff_is_announced_measured_and_goes_on_after_the_grant() -> None:
    async def turn(harness: FakeHarness) -> str:
        await harness.contexts[0].backoff(8.0, CODE)
        return "ok"

    driver = Driver(with_turn(turn))
    assert verdict_of(driver.run()) is Verdict.PASSED
    assert driver.of(BackoffStarted) == [BackoffStarted("a", CODE, 8.0)]
    assert driver.of(BackoffEnded) == [BackoffEnded("a", 8.0)]
    [agent] = [event.seconds for event in driver.of(PhaseEnded) if event.phase is Phase.AGENT]
    assert agent == 0.0, "waiting is not charged to the phase"


def test_B1_nothing_goes_on_before_the_grant() -> None:
    went_on: list[bool] = []

    async def turn(harness: FakeHarness) -> str:
        await harness.contexts[0].backoff(1.0, CODE)
        went_on.append(True)
        return "ok"

    driver = Driver(with_turn(turn), resume=False)

    async def drive() -> None:
        driver.runner = TryRunner(
            driver.bench.job, emit=driver.emit, save=driver.bench.saved.__setitem__, clock=driver.clock,
            redactor=Redactor(), sleep=driver.sleep,
        )  # fmt: skip
        task = asyncio.create_task(driver.runner.run())
        while not driver.of(BackoffEnded):
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert went_on == []
        driver.clock.advance(30)  # for the grant
        driver.runner.resume()
        await task

    asyncio.run(drive())
    assert went_on == [True]
    [agent] = [event.seconds for event in driver.of(PhaseEnded) if event.phase is Phase.AGENT]
    assert agent == 0.0, "waiting for the grant is not charged either"


def test_05_limits_stand_still_while_a_try_waits() -> None:
    async def turn(harness: FakeHarness) -> str:
        await harness.contexts[0].backoff(3600.0, CODE)
        return "ok"

    driver = Driver(with_turn(turn, limits=TimeLimits(agent_seconds=0.2)))

    async def slow_sleep(seconds: float) -> None:
        await asyncio.sleep(0.4)  # longer than the limit, in real time

    driver.sleep = slow_sleep  # type: ignore[method-assign]
    assert verdict_of(driver.run()) is Verdict.PASSED


def test_05_a_limit_still_fires_after_a_wait() -> None:
    async def turn(harness: FakeHarness) -> str:
        await harness.contexts[0].backoff(1.0, CODE)
        await asyncio.Event().wait()
        return "ok"

    result = Driver(with_turn(turn, limits=TimeLimits(agent_seconds=0.05))).run()
    assert [issue.code for issue in result.issues] == ["time.agent"]


def test_B1_waits_that_overlap_are_one() -> None:
    async def turn(harness: FakeHarness) -> str:
        context = harness.contexts[0]
        await asyncio.gather(*(context.backoff(seconds, CODE) for seconds in (3.0, 1.0, 2.0)))
        return "ok"

    driver = Driver(with_turn(turn))
    assert verdict_of(driver.run()) is Verdict.PASSED
    assert len(driver.of(BackoffStarted)) == len(driver.of(BackoffEnded)) == 1


@pytest.mark.parametrize("cancelled_by", ["the runner", "the harness"])
def test_B4_a_wait_ends_at_once_when_it_is_cancelled(cancelled_by: str) -> None:
    async def turn(harness: FakeHarness) -> str:
        context = harness.contexts[0]
        waiting = asyncio.ensure_future(context.backoff(1e6, CODE))
        if cancelled_by == "the harness":
            while not driver.of(BackoffStarted):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert driver.of(BackoffEnded), "what goes on executing has asked for its permits"
            return "ok"
        await waiting
        return "ok"

    driver = Driver(with_turn(turn))

    async def for_ever(seconds: float) -> None:
        await asyncio.Event().wait()

    driver.sleep = for_ever  # type: ignore[method-assign]

    def on_event(event: Any) -> None:
        if isinstance(event, BackoffStarted) and cancelled_by == "the runner":
            assert driver.runner is not None
            assert driver.task is not None
            driver.runner.cancel()
            driver.task.cancel()

    driver.on_event = on_event
    result = driver.run()
    if cancelled_by == "the runner":
        assert result.outcome is Outcome.CANCELLED
        assert not driver.of(BackoffEnded), "nothing is asked for any more"
    else:
        assert verdict_of(result) is Verdict.PASSED
    assert not driver.bench.provider.live


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_wait_that_is_no_time_is_an_error_of_the_harness(seconds: float) -> None:
    async def turn(harness: FakeHarness) -> str:
        await harness.contexts[0].backoff(seconds, CODE)
        return "ok"

    assert [issue.code for issue in Driver(with_turn(turn)).run().issues] == ["harness.crashed"]


class Refusing:
    """A model that refuses the first calls."""

    def __init__(self, times: int, **fault: Any) -> None:
        self.spec = ModelSpec("refusing")
        self.calls = 0
        self._times = times
        self._fault = {"refused": True, **fault}

    async def complete(self, messages: Any) -> Completion:
        self.calls += 1
        if self.calls <= self._times:
            raise Fault(CODE, "slow down", **self._fault)
        return Completion("ok", None)

    async def close(self) -> None:
        pass


async def one_call(harness: FakeHarness) -> str:
    return (await harness.contexts[0].model.complete([ChatMessage("user", "hi")])).text


def test_T5_a_refused_call_is_repeated_after_growing_waits() -> None:
    model = Refusing(3)
    driver = Driver(with_turn(one_call, model=model))
    assert verdict_of(driver.run()) is Verdict.PASSED
    assert model.calls == 4
    assert driver.slept == [5.0, 10.0, 20.0]


def test_T5_at_most_four_repeats_then_it_is_fatal() -> None:
    model = Refusing(99)
    result = Driver(with_turn(one_call, model=model)).run()
    assert model.calls == 5
    assert [issue.code for issue in result.issues] == [CODE]


def test_T5_a_call_that_may_have_been_accepted_is_not_repeated() -> None:
    model = Refusing(1, refused=False)
    result = Driver(with_turn(one_call, model=model)).run()
    assert model.calls == 1
    assert verdict_of(result) is Verdict.ERRORED


@pytest.mark.parametrize(
    ("header", "waits"),
    [("7", 7.0), ("2", 5.0), ("86400", 600.0), ("abc", 5.0), ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0)],
)
def test_B4_retry_after_is_obeyed_when_longer_and_capped(header: str, waits: float) -> None:
    driver = Driver(with_turn(one_call, model=Refusing(1, retry_after=header)))
    assert verdict_of(driver.run()) is Verdict.PASSED
    assert driver.slept == [waits]


def test_T5_a_refused_opening_is_repeated() -> None:
    count = 0

    async def refuse_twice() -> None:
        nonlocal count
        count += 1
        if count <= 2:
            raise Fault("provider.open_failed", "quota", refused=True)

    async def ok() -> str:
        return "ok"

    provider = FakeProvider(on_open=refuse_twice)
    driver = Driver(Bench(provider=provider, harness=FakeHarness(on_send=ok)))
    assert verdict_of(driver.run()) is Verdict.PASSED
    assert [event.code for event in driver.of(BackoffStarted)] == ["provider.open_failed"] * 2
    assert provider.opened == 1


def test_the_last_retry_after_is_handed_on_for_a_retry_of_the_attempt() -> None:
    bench = with_turn(one_call, model=Refusing(99, retry_after="7"))
    bench.job = replace(bench.job)
    driver = Driver(bench)
    driver.run()
    [ended] = driver.of(TryEnded)
    assert ended.retry_after_seconds == 7.0
