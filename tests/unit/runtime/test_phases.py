"""The limits of a phase and of the whole try: which one ends what, and what each becomes (spec 05 Time)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_loop import LoopClock, VirtualLoop, run_virtually

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.model.codes import Severity
from proctor.model.events import BackoffEnded, PhaseEnded
from proctor.model.spec import TimeLimits
from proctor.runtime.backoff import Backoff
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.phases import IGNORES_CANCELLATION, Phases
from proctor.runtime.redact import Redactor
from proctor.runtime.watched_sandbox import WatchedSandbox

RUN = [Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT, Phase.GRADE]
OWN_CODE = {
    Phase.OPEN: "provider.open_timeout",
    Phase.SETUP: "time.setup",
    Phase.AGENT: "time.agent",
    Phase.COLLECT: "time.collect",
    Phase.GRADE: "time.grade",
}
TRY_CODE = {**OWN_CODE, Phase.AGENT: "time.attempt"}


@dataclass
class Try:
    """The phases of a try in virtual time. What is asked for again after a wait is granted after `grant_seconds`."""

    limits: TimeLimits = field(default_factory=TimeLimits)
    grant_seconds: float = 0.0
    events: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock, redactor = LoopClock(), Redactor()
        self.backoff = Backoff("a", self.emit, clock)
        self.log = TryLog(redactor, 0)
        self.phases = Phases(
            "a", emit=self.emit, clock=clock, notes=Notes(redactor, lambda issue: None), log=self.log,
            backoff=self.backoff, limits=self.limits,
        )  # fmt: skip

    def emit(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, BackoffEnded):
            this_loop().call_later(self.grant_seconds, self.backoff.resume)

    async def run(self, phase: Phase, limit: float | None, work: Callable[[], Awaitable[Any]]) -> Fault | None:
        """Run a phase and return what ended it."""

        async def wrapped() -> Any:
            return await work()

        try:
            await self.phases.run(phase, limit, wrapped)
        except Fault as fault:
            return fault
        return None

    @property
    def seconds(self) -> list[float]:
        return [event.seconds for event in self.events if isinstance(event, PhaseEnded)]


def this_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def lasting(seconds: float) -> Callable[[], Awaitable[None]]:
    return lambda: asyncio.sleep(seconds)


# ------------------------------------------------------------------------------ which limit is smaller, by phase


@pytest.mark.parametrize("phase", RUN)
@pytest.mark.parametrize(
    ("own", "whole", "used", "ends_at", "by"),
    [
        (None, None, 0.0, None, None),
        (10.0, None, 0.0, 10.0, "own"),
        (None, 10.0, 0.0, 10.0, "try"),
        (10.0, 20.0, 0.0, 10.0, "own"),
        (20.0, 10.0, 0.0, 10.0, "try"),
        (10.0, 10.0, 0.0, 10.0, "tie"),
        (10.0, 20.0, 5.0, 10.0, "own"),
        (10.0, 20.0, 15.0, 5.0, "try"),
        (10.0, 20.0, 10.0, 10.0, "tie"),
        (10.0, 20.0, 19.99, 0.01, "try"),
        (None, 20.0, 19.0, 1.0, "try"),
    ],
)
def test_05_the_smaller_of_both_limits_ends_a_phase(
    phase: Phase, own: float | None, whole: float | None, used: float, ends_at: float | None, by: str | None
) -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=whole))
        if used:
            assert await one.run(Phase.SETUP, None, lasting(used)) is None
        began = this_loop().now
        fault = await one.run(phase, own, lasting(3600.0))
        lasted = this_loop().now - began
        if ends_at is None:
            assert fault is None
            assert lasted == 3600.0
            return
        assert fault is not None
        assert lasted == pytest.approx(ends_at, abs=0.01)
        by_try = by == "try" or (by == "tie" and phase is Phase.AGENT)
        assert fault.code == (TRY_CODE if by_try else OWN_CODE)[phase]
        assert fault.issue.phase is phase
        assert fault.issue.severity is (Severity.ERROR if phase is Phase.AGENT else Severity.FATAL)
        if by_try:
            assert f"the limit of the whole try, {whole:g} s (timeout_seconds)" in str(fault)
        else:
            assert f"{phase} reached its limit of {own:g} s ({phase}_timeout_seconds)" in str(fault)

    run_virtually(lambda _: story())


@pytest.mark.parametrize("phase", RUN)
def test_05_what_ends_within_both_limits_is_left_alone(phase: Phase) -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=20.0))
        assert await one.run(phase, 10.0, lasting(9.9)) is None
        assert await one.run(phase, 10.0, lasting(9.9)) is None
        assert one.seconds == pytest.approx([9.9, 9.9])

    run_virtually(lambda _: story())


def test_05_the_limit_of_the_try_is_over_all_phases_and_is_spent_once_it_ended_the_agent() -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=60.0))
        assert await one.run(Phase.OPEN, 600.0, lasting(20)) is None
        assert await one.run(Phase.SETUP, 600.0, lasting(20)) is None
        fault = await one.run(Phase.AGENT, 600.0, lasting(3600))
        assert fault is not None
        assert fault.code == "time.attempt"
        assert one.seconds == pytest.approx([20, 20, 20], abs=0.01)
        assert await one.run(Phase.COLLECT, 120.0, lasting(100)) is None, "what the agent did is collected"
        assert await one.run(Phase.OPEN, 600.0, lasting(100)) is None, "and graded, in a sandbox of its own"
        fault = await one.run(Phase.GRADE, 600.0, lasting(3600))
        assert fault is not None
        assert fault.code == "time.grade"
        assert "reached its limit of 600 s" in str(fault)

    run_virtually(lambda _: story())


def test_05_the_grace_of_what_was_ended_is_not_charged_to_the_try() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(9)  # longer than anybody waits for it

    async def story() -> None:
        one = Try(TimeLimits(try_seconds=12.0))
        fault = await one.run(Phase.AGENT, 10.0, stubborn)
        assert fault is not None
        assert fault.code == "time.agent"
        assert str(fault).endswith(IGNORES_CANCELLATION)
        assert await one.run(Phase.COLLECT, 120.0, lasting(1.9)) is None
        fault = await one.run(Phase.GRADE, 600.0, lasting(1.0))
        assert fault is not None
        assert fault.code == "time.grade"
        assert "0.1 s of it were left" in str(fault)
        await asyncio.sleep(9)

    run_virtually(lambda _: story())


def test_05_a_cancellation_that_comes_while_an_overdue_phase_is_ended_is_not_lost() -> None:
    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(2)

    async def story() -> None:
        one = Try()
        running = asyncio.ensure_future(one.run(Phase.AGENT, 10.0, slow_to_end))
        await asyncio.sleep(11)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert len(one.seconds) == 1

    run_virtually(lambda _: story())


# --------------------------------------------------------------------------------------- waits are not execution


def test_cases_time_98_a_waiting_before_a_phase_is_no_work() -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=10.0))
        await asyncio.sleep(60)
        assert await one.run(Phase.AGENT, 10.0, lasting(3)) is None
        await asyncio.sleep(60)  # for the permits of grading
        assert await one.run(Phase.GRADE, 10.0, lasting(6.5)) is None
        assert one.seconds == pytest.approx([3, 6.5])
        assert one.backoff.waited_seconds == 0.0

    run_virtually(lambda _: story())


@pytest.mark.parametrize("grant_seconds", [0.0, 7.0])
def test_cases_time_98_b_parallel_waits_count_once_and_never_as_work(grant_seconds: float) -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=10.0), grant_seconds)

        async def work() -> None:
            await asyncio.sleep(2)
            await asyncio.gather(*(one.backoff.wait(20.0, "model.rate_limited") for _ in range(3)))
            await asyncio.sleep(2)

        assert await one.run(Phase.AGENT, 10.0, work) is None
        assert one.seconds == pytest.approx([4])
        assert one.backoff.waited_seconds == pytest.approx(20 + grant_seconds)
        fault = await one.run(Phase.GRADE, None, lasting(3600))
        assert fault is not None
        assert "6 s of it were left" in str(fault), "4 of 10 s were work"

    run_virtually(lambda _: story())


def test_cases_time_98_c_work_between_endless_refusals_is_ended_by_its_own_limit() -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=10.0))

        async def work() -> None:
            while True:
                await asyncio.sleep(0.5)  # the call
                await one.backoff.wait(60.0, "model.rate_limited")

        fault = await one.run(Phase.AGENT, 100.0, work)
        assert fault is not None
        assert fault.code == "time.attempt"
        assert one.seconds == pytest.approx([10.0], abs=0.01)
        assert this_loop().now - 1000.0 == pytest.approx(10 + 19 * 60, abs=61)

    run_virtually(lambda _: story())


def test_a_wait_that_is_left_behind_is_no_work_either() -> None:
    async def story() -> None:
        one = Try(TimeLimits(try_seconds=10.0))
        left: list[asyncio.Task[None]] = []

        async def work() -> None:
            left.append(asyncio.create_task(one.backoff.wait(100.0, "model.rate_limited")))
            await asyncio.sleep(50)

        assert await one.run(Phase.AGENT, 10.0, work) is None
        assert one.seconds == pytest.approx([0.0])
        assert await one.run(Phase.COLLECT, 10.0, lasting(9.5)) is None
        assert one.seconds == pytest.approx([0.0, 9.5])
        left[0].cancel()
        await asyncio.wait(left)

    run_virtually(lambda _: story())


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from(["work", "wait", "sign"]), st.integers(1, 9)), max_size=12),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 12),
)
def test_05_whatever_a_try_does_its_limits_count_what_it_executes(
    steps: list[tuple[str, int]], own: int | None, whole: int | None, idle: int | None
) -> None:
    own_limit, try_limit, idle_limit = (None if limit is None else limit + 0.5 for limit in (own, whole, idle))
    executed = silent_since = 0.0
    want = None
    for what, seconds in steps:
        if what == "work":
            ends = [
                (own_limit, "time.agent"),
                (try_limit, "time.attempt"),
                (None if idle_limit is None else silent_since + idle_limit, "time.idle"),
            ]
            # At one moment the limit of the try is named before that of the phase, and both before silence.
            order = ["time.attempt", "time.agent", "time.idle"]
            first = min(((end, order.index(code)) for end, code in ends if end is not None), default=(1e9, 0))
            if executed + seconds > first[0]:
                executed, want = first[0], order[first[1]]
                break
            executed += seconds
        else:
            silent_since = executed

    async def story() -> None:
        one = Try(TimeLimits(try_seconds=try_limit, agent_idle_seconds=idle_limit), grant_seconds=2.0)

        async def work() -> None:
            for what, seconds in steps:
                if what == "work":
                    await asyncio.sleep(seconds)
                elif what == "wait":
                    await one.backoff.wait(float(seconds), "model.rate_limited")
                else:
                    one.backoff.activity.sign()

        fault = await one.run(Phase.AGENT, own_limit, work)
        assert (fault and fault.code) == want
        assert one.seconds == pytest.approx([executed], abs=0.01)

    run_virtually(lambda _: story())


# ------------------------------------------------------------------------------------------------ signs of life


class Printing:
    """A sandbox whose commands print at the given moments."""

    id = "printing"

    def __init__(self, moments: list[float], seconds: float) -> None:
        self._moments = moments
        self._seconds = seconds

    async def exec(self, command: str, *, on_output: Callable[[str, bytes], None], **options: Any) -> str:
        now = 0.0
        for moment in self._moments:
            await asyncio.sleep(moment - now)
            now = moment
            on_output("stdout", b"x")
        await asyncio.sleep(self._seconds - now)
        return command


@pytest.mark.parametrize(
    ("moments", "ends_at", "idle"),
    [
        ([float(second) for second in range(1, 21)], 20.0, False),
        ([1.0], 6.0, True),
        ([], 5.0, True),
        ([4.9, 9.8, 14.7], 19.7, True),
    ],
)
def test_cases_time_104_an_idle_limit_ends_what_is_silent_and_not_what_is_slow(
    moments: list[float], ends_at: float, idle: bool
) -> None:
    async def story() -> None:
        one = Try(TimeLimits(agent_idle_seconds=5.0))
        sandbox = WatchedSandbox(Printing(moments, 20.0), one.backoff.activity, one.log)  # type: ignore[arg-type]
        assert sandbox.id == "printing"
        heard: list[bytes] = []
        fault = await one.run(
            Phase.AGENT, 60.0, lambda: sandbox.exec("x", on_output=lambda stream, data: heard.append(data))
        )
        assert this_loop().now - 1000.0 == pytest.approx(ends_at, abs=0.01)
        assert len(heard) == len(moments)
        assert one.seconds == pytest.approx([ends_at], abs=0.01)
        if not idle:
            assert fault is None
            return
        assert fault is not None
        assert (fault.code, fault.issue.severity) == ("time.idle", Severity.ERROR)
        assert "no sign of life for 5 s (agent_idle_timeout_seconds)" in str(fault)
        assert "its limit was 60 s (agent_timeout_seconds)" in str(fault)
        assert "a command was cut off: x" in one.log.content
        assert ("its stdout so far, " in one.log.content) == bool(moments)

    run_virtually(lambda _: story())


@pytest.mark.parametrize("phase", [phase for phase in RUN if phase is not Phase.AGENT])
def test_05_only_the_agent_is_under_the_idle_limit(phase: Phase) -> None:
    async def story() -> None:
        assert await Try(TimeLimits(agent_idle_seconds=5.0)).run(phase, 60.0, lasting(50)) is None

    run_virtually(lambda _: story())


def test_05_a_wait_inside_a_try_is_not_silence() -> None:
    async def story() -> None:
        one = Try(TimeLimits(agent_idle_seconds=5.0), grant_seconds=30.0)

        async def work() -> None:
            await asyncio.sleep(4)
            await one.backoff.wait(60.0, "model.rate_limited")
            await asyncio.sleep(4)

        assert await one.run(Phase.AGENT, None, work) is None
        assert one.seconds == pytest.approx([8])

    run_virtually(lambda _: story())


@pytest.mark.parametrize(("own", "idle", "code"), [(4.0, 5.0, "time.agent"), (6.0, 5.0, "time.idle")])
def test_05_the_first_limit_of_the_agent_that_is_reached_is_named(own: float, idle: float, code: str) -> None:
    async def story() -> None:
        fault = await Try(TimeLimits(agent_idle_seconds=idle)).run(Phase.AGENT, own, lasting(3600))
        assert fault is not None
        assert fault.code == code

    run_virtually(lambda _: story())


def test_a_hundred_thousand_signs_of_life_cost_no_timer_each() -> None:
    async def story() -> None:
        loop = this_loop()
        made = 0
        honest = loop.call_at

        def counting(*args: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            return honest(*args, **options)

        loop.call_at = counting  # type: ignore[method-assign]
        one = Try(TimeLimits(agent_idle_seconds=5.0))

        async def work() -> None:
            for _ in range(100):
                for _ in range(1000):
                    one.backoff.activity.sign()
                await asyncio.sleep(0.1)

        assert await one.run(Phase.AGENT, 60.0, work) is None
        assert made < 110, "one for each sleep, and one for each time the idle limit would have been reached"

    run_virtually(lambda _: story())
