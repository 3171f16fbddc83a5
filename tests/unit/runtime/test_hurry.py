"""A hurry cuts short every wait that is made through it (spec 10 I1, the second signal)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from virtual_loop import VirtualLoop, run_virtually

from proctor.runtime.hurry import COURTESY_SECONDS, FORCED_SECONDS, Hurry
from proctor.runtime.shield import end_task, shielded


async def ignores_cancellation(until: asyncio.Event) -> str:
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue
    return "done"


def test_10_I1_a_wait_without_a_limit_ends_with_the_hurry_however_late_it_begins() -> None:
    async def drive(loop: VirtualLoop) -> None:
        hurry, never = Hurry(), asyncio.Event()
        work = asyncio.create_task(ignores_cancellation(never))
        waits = [asyncio.create_task(hurry.wait(work, None)), asyncio.create_task(hurry.wait(work, None, 1.0))]
        await asyncio.sleep(1000)
        assert not any(wait.done() for wait in waits)
        began = loop.time()
        hurry.begin()
        hurry.begin()  # a second time it changes nothing
        assert await waits[1] is False
        assert loop.time() == began + 1.0
        assert await waits[0] is False
        assert loop.time() == began + FORCED_SECONDS
        assert await hurry.wait(work, None) is False, "what comes later does not wait at all"
        assert loop.time() == began + FORCED_SECONDS
        never.set()
        assert await work == "done"
        assert await hurry.wait(work, None) is True, "it has ended"

    run_virtually(drive)


@pytest.mark.parametrize(("limit", "begins_at", "ends_at"), [(2.0, 1.0, 2.0), (60.0, 1.0, 1.0 + FORCED_SECONDS)])
def test_10_I1_the_shorter_of_limit_and_hurry_counts(limit: float, begins_at: float, ends_at: float) -> None:
    async def drive(loop: VirtualLoop) -> None:
        hurry, never, started = Hurry(), asyncio.Event(), loop.time()
        loop.call_later(begins_at, hurry.begin)
        with pytest.raises(TimeoutError):
            await shielded(ignores_cancellation(never), limit, hurry)
        assert loop.time() == pytest.approx(started + ends_at)
        never.set()
        await asyncio.sleep(0)

    run_virtually(drive)


def test_what_ends_in_time_is_not_disturbed() -> None:
    async def drive(loop: VirtualLoop) -> None:
        hurry = Hurry()
        loop.call_later(0.5, hurry.begin)
        assert await shielded(asyncio.sleep(1.0, "result"), 60.0, hurry) == "result"

    run_virtually(drive)


def test_10_I1_a_cancellation_is_delivered_after_the_work_also_in_a_hurry() -> None:
    async def drive(loop: VirtualLoop) -> None:
        hurry = Hurry()
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(1.0)
            done.append("work")

        caller = asyncio.create_task(shielded(work(), 60.0, hurry))
        await asyncio.sleep(0.1)
        caller.cancel()
        hurry.begin()
        await asyncio.sleep(0.1)
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
        assert done == ["work"]

    run_virtually(drive)


def test_10_I1_what_was_only_asked_to_end_is_hardly_waited_for() -> None:
    async def drive(loop: VirtualLoop) -> None:
        hurry, never = Hurry(), asyncio.Event()
        stubborn = asyncio.create_task(ignores_cancellation(never))
        polite = asyncio.create_task(asyncio.sleep(1000))
        await asyncio.sleep(0)
        assert await end_task(polite, 6.0, hurry)
        started = loop.time()
        loop.call_later(1.0, hurry.begin)
        assert not await end_task(stubborn, 6.0, hurry)
        assert loop.time() == pytest.approx(started + 1.0 + COURTESY_SECONDS)
        never.set()
        await stubborn

    run_virtually(drive)


def test_many_waits_share_one_beginning() -> None:
    """A thousand disposals do not make a thousand futures."""

    async def drive(loop: VirtualLoop) -> None:
        hurry = Hurry()

        def disposal() -> Coroutine[Any, Any, None]:
            return shielded(asyncio.sleep(100.0), 60.0, hurry)

        disposals = [asyncio.create_task(disposal()) for _ in range(1000)]
        await asyncio.sleep(1.0)
        began = loop.time()
        hurry.begin()
        ends = await asyncio.gather(*disposals, return_exceptions=True)
        assert {type(end) for end in ends} == {TimeoutError}
        assert loop.time() == began + FORCED_SECONDS
        await asyncio.sleep(0)

    run_virtually(drive)
