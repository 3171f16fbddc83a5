"""What can be seen of a try from outside: its last sign of life, and the limit that ends it next (spec 07, case 10)."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

from virtual_loop import LoopClock, VirtualLoop, run_virtually

from proctor.model.attempt import Phase
from proctor.plugins.api import ExecResult
from proctor.runtime.backoff import Backoff
from proctor.runtime.contexts import GradingContext
from proctor.runtime.countdown import Activity, Countdown, Limit, Sight
from proctor.runtime.notes import TryLog
from proctor.runtime.redact import Redactor


def counted(work: Any) -> None:
    async def drive(loop: VirtualLoop) -> None:
        await work(loop, Activity(LoopClock()))

    run_virtually(drive)


def countdown(activity: Activity, **more: Any) -> Countdown:
    return Countdown("a", Phase.AGENT, activity=activity, **more)


def test_07_10_the_limit_that_comes_first_is_the_one() -> None:
    async def work(loop: VirtualLoop, activity: Activity) -> None:
        one = countdown(activity, seconds=100.0, idle_seconds=30.0)
        one.start()
        assert one.sight() == Sight(0.0, Limit.IDLE, 30.0, 30.0)
        loop.now += 20.0
        assert one.sight() == Sight(20.0, Limit.IDLE, 30.0, 10.0)
        activity.sign()
        assert one.sight() == Sight(0.0, Limit.IDLE, 30.0, 30.0)
        loop.now += 29.0
        activity.sign()
        loop.now += 25.0
        activity.sign()
        assert one.sight() == Sight(0.0, Limit.PHASE, 100.0, 26.0)
        one.close()
        assert one.sight() == Sight(0.0)

    counted(work)


def test_07_what_is_left_of_the_whole_try_is_named_as_such() -> None:
    async def work(loop: VirtualLoop, activity: Activity) -> None:
        one = countdown(activity, seconds=40.0, limit=Limit.TRY)
        one.start()
        loop.now += 15.0
        assert one.sight() == Sight(15.0, Limit.TRY, 40.0, 25.0)

    counted(work)


def test_05_nothing_runs_off_while_a_try_waits() -> None:
    async def work(loop: VirtualLoop, activity: Activity) -> None:
        one = countdown(activity, seconds=100.0, idle_seconds=30.0)
        one.start()
        loop.now += 10.0
        one.pause()
        for _ in range(2):
            loop.now += 500.0
            sight = one.sight()
            assert (sight.limit, sight.left_seconds, sight.paused) == (Limit.IDLE, 30.0, True)
        one.go_on()
        assert one.sight() == Sight(0.0, Limit.IDLE, 30.0, 30.0)
        one.close()
        bare = countdown(activity, seconds=100.0)
        bare.start()
        loop.now += 10.0
        bare.pause()
        loop.now += 500.0
        assert bare.sight() == Sight(510.0, Limit.PHASE, 100.0, 90.0, paused=True)
        bare.close()

    counted(work)


def test_07_without_limits_and_once_it_is_ending_there_is_none() -> None:
    async def work(loop: VirtualLoop, activity: Activity) -> None:
        free = countdown(activity, seconds=None)
        loop.now += 3.0
        assert free.sight() == Sight(3.0)
        ending = countdown(activity, seconds=50.0)
        ending.start()
        ending.end_by(8.0)
        assert ending.sight().limit is None
        ending.close()

    counted(work)


def test_07_a_limit_that_was_reached_has_nothing_left() -> None:
    async def work(loop: VirtualLoop, activity: Activity) -> None:
        one = countdown(activity, seconds=5.0)
        one.start()
        await asyncio.wait({one.over})
        assert one.sight().limit is None
        one.close()

    counted(work)


def test_07_between_phases_a_try_shows_its_last_sign() -> None:
    async def drive(loop: VirtualLoop) -> None:
        backoff = Backoff("a", lambda event: None, LoopClock())
        loop.now += 4.0
        assert backoff.sight() == Sight(4.0)

    run_virtually(drive)


def test_07_what_a_grader_runs_and_logs_are_signs_of_life() -> None:
    async def drive(loop: VirtualLoop) -> None:
        activity, log = Activity(LoopClock()), TryLog(Redactor(), logging.DEBUG)

        async def execute(command: Any, *, on_output: Any) -> ExecResult:
            loop.now += 10.0
            on_output("stdout", b"still here")
            assert activity.silent_seconds == 0.0
            loop.now += 10.0
            return ExecResult(0, "", "")

        notes: Any = None
        task: Any = None
        sandbox: Any = SimpleNamespace(exec=execute, id="box")
        ctx = GradingContext(
            task=task, answer=None, files={}, artifacts={}, sandbox=sandbox, notes=notes, log=log, activity=activity
        )
        loop.now += 5.0
        assert activity.silent_seconds == 5.0
        await ctx.sandbox.exec("true")
        assert activity.silent_seconds == 0.0
        assert ctx.sandbox.id == "box"
        loop.now += 7.0
        ctx.log.info("at work")
        assert activity.silent_seconds == 0.0

    run_virtually(drive)
