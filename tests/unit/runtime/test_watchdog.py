"""Code of a plugin that holds the event loop: it is said, and ended at its limit; ours is not (spec 05 Time).

These tests need real time. A busy machine makes them slower, and only a hang makes them fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.runtime import watchdog
from proctor.runtime.backoff import Backoff
from proctor.runtime.clock import SystemClock
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.phases import Phases
from proctor.runtime.redact import Redactor
from proctor.runtime.watchdog import SIGNAL, watching

T = TypeVar("T")

SOON = 0.15
BLOCK = 0.6
"""Longer than anything is waited for here."""
HANG_SECONDS = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(watchdog, "HELD_FROM_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "SAID_FROM_SECONDS", 0.3)


def phases_of(name: str) -> Phases:
    redactor = Redactor()
    backoff = Backoff(name, lambda event: None, SystemClock())
    notes = Notes(redactor, lambda issue: None)
    return Phases(
        name, emit=lambda event: None, clock=SystemClock(), notes=notes, log=TryLog(redactor, 0), backoff=backoff
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a loop that is watched; only a hang is cut off, by an alarm that no event loop has to take."""

    def hang(number: int, frame: Any) -> None:
        raise AssertionError("the event loop was held without end")

    async def watched() -> T:
        with watching(asyncio.get_running_loop()):
            return await work

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        return asyncio.run(watched())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def fault_of(
    work: Callable[[], Coroutine[Any, Any, Any]], limit: float | None = SOON, phase: Phase = Phase.AGENT
) -> Fault:
    with pytest.raises(Fault) as caught:
        await phases_of("a").run(phase, limit, work)
    return caught.value


def compute() -> None:
    while True:
        pass


def receive() -> None:
    ours, _theirs = socket.socketpair()
    with ours, _theirs:
        ours.recv(1)


def wait_for_a_program() -> None:
    with subprocess.Popen(["sleep", "3600"]) as program:
        try:
            program.wait()
        finally:
            program.kill()


BLOCKING: dict[str, Callable[[], object]] = {
    "a loop": compute,
    "a sleep": lambda: time.sleep(3600),
    "a socket": receive,
    "an event": lambda: threading.Event().wait(),
    "a queue": lambda: queue.Queue[int]().get(),
    "a program": wait_for_a_program,
    "many small steps": lambda: [time.sleep(0.001) for _ in range(10**7)],
}


@pytest.mark.parametrize("kind", list(BLOCKING))
def test_cases_time_107_what_holds_the_loop_is_ended_at_the_limit_of_its_phase(kind: str) -> None:
    async def blocks() -> None:
        BLOCKING[kind]()

    fault = run(fault_of(blocks))
    assert fault.code == "time.agent"
    assert f"reached its limit of {SOON:g} s" in str(fault)
    assert f"at {__file__}:" in str(fault)
    assert "asyncio.to_thread" in str(fault)


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (Phase.OPEN, "provider.open_timeout"),
        (Phase.SETUP, "time.setup"),
        (Phase.COLLECT, "time.collect"),
        (Phase.GRADE, "time.grade"),
    ],
)
def test_05_so_it_is_in_every_phase(phase: Phase, code: str) -> None:
    async def blocks() -> None:
        compute()

    assert run(fault_of(blocks, phase=phase)).code == code


@pytest.mark.parametrize("limit", [None, 3600.0])
def test_05_without_an_earlier_limit_it_is_ended_all_the_same_and_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, limit: float | None
) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED_AT_MOST_SECONDS", SOON)

    async def blocks() -> None:
        compute()

    fault = run(fault_of(blocks, limit))
    assert fault.code == "harness.crashed"
    assert "it held the event loop for" in str(fault)
    assert f"at {__file__}:" in str(fault)


def test_10_I1_an_interrupt_does_not_wait_for_what_holds_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "HURRIED_SECONDS", SOON)

    async def blocks() -> None:
        compute()

    async def story() -> Fault:
        threading.Timer(SOON, watchdog.hurry, [asyncio.get_running_loop()]).start()
        return await fault_of(blocks, None)

    assert run(story()).code == "harness.crashed"


async def in_a_task() -> None:
    async def blocks() -> None:
        compute()

    await asyncio.create_task(blocks())


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(in_a_task())
        group.create_task(asyncio.sleep(3600))


async def in_a_finally() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        time.sleep(3600)


async def wrapping_it() -> None:
    try:
        compute()
    except BaseException as error:
        raise ValueError("something else") from error


async def swallowing_it() -> None:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            compute()


async def catching_exceptions() -> None:
    while True:
        with contextlib.suppress(Exception):
            compute()


@pytest.mark.parametrize("work", [in_a_task, in_a_group, in_a_finally, wrapping_it, swallowing_it, catching_exceptions])
def test_05_wherever_in_a_plugin_it_happens(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    assert run(fault_of(work)).code == "time.agent"


def test_05_what_blocks_after_an_interrupt_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.runtime import phases

    monkeypatch.setattr(phases, "PHASE_GRACE_SECONDS", SOON)

    async def story() -> None:
        running = asyncio.ensure_future(phases_of("a").run(Phase.AGENT, None, in_a_finally))
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()

    run(story())


def test_05_the_time_of_others_does_not_count_while_one_holds_the_loop() -> None:
    async def blocks() -> None:
        time.sleep(3600)

    async def pauses() -> str:
        for _ in range(3):
            await asyncio.sleep(0.01)
        return "done"

    async def story() -> list[Any]:
        others = (phases_of(f"b{number}").run(Phase.AGENT, 1.5, pauses) for number in range(3))
        return await asyncio.gather(fault_of(blocks, 2.0), *others)

    fault, *others = run(story())
    assert fault.code == "time.agent"
    assert others == ["done"] * 3, "their limits were over by the clock, and not by what they executed"


# ------------------------------------------------------------------------------------------ what is left alone


def ours(source: str, module: str) -> dict[str, Any]:
    """Return code as if it stood in a module of ours."""
    space: dict[str, Any] = {"__name__": module}
    exec(source, space)
    return space


SLEEPS = "import time\nasync def work(): time.sleep(0.6)\nasync def calls(inner): inner()\n"


@pytest.mark.parametrize(
    ("module", "is_ours"),
    [
        ("proctor.runtime.command", True),
        ("proctor.store.journal", True),
        ("proctor.providers.local", True),
        ("proctor.models.openai", True),
        ("proctor.harnesses.chat", False),
        ("proctor.graders.text", False),
        ("proctor.authoring.task_try", True),
        ("somebody.plugin", False),
        ("__main__", False),
    ],
)
def test_what_we_execute_for_a_plugin_is_never_cut_off(module: str, is_ours: bool) -> None:
    ended: list[str] = []
    code = ours(SLEEPS.replace("time.sleep(0.6)", "time.sleep(0.6); ended.append('whole')"), module)
    code["ended"] = ended
    fault = run(fault_of(code["work"]))
    assert fault.code == "time.agent", "it took longer than its limit in any case"
    assert ended == (["whole"] if is_ours else [])


@pytest.mark.parametrize(
    ("outer", "cut_off"),
    [
        ("proctor.models.openai", False),
        ("proctor.runtime.contexts", True),
        ("proctor.authoring.driven_task", True),
        ("other", True),
    ],
)
def test_a_library_belongs_to_whoever_called_it(outer: str, cut_off: bool) -> None:
    ended: list[str] = []

    def library() -> None:
        time.sleep(0.6)
        ended.append("whole")

    calls = ours(SLEEPS, outer)["calls"]
    fault = run(fault_of(lambda: calls(library)))
    assert ended == ([] if cut_off else ["whole"])
    if outer == "other":
        assert f"at <string>:3, in {__file__}:" in str(fault), "who called, and what was called"


def test_somebody_who_debugs_may_take_as_long_as_he_likes() -> None:
    ended: list[str] = []

    def breakpoint_there() -> None:
        time.sleep(BLOCK)
        ended.append("whole")

    run(fault_of(lambda: ours(SLEEPS, "bdb")["calls"](breakpoint_there)))
    assert ended == ["whole"]


def test_a_task_of_nobodys_phase_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED_AT_MOST_SECONDS", SOON)

    async def story() -> str:
        await asyncio.create_task(asyncio.sleep(0))
        time.sleep(0.6)
        return "whole"

    assert run(story()) == "whole"


def test_many_short_steps_in_one_turn_of_the_loop_are_nobodys_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "BLOCKED_AT_MOST_SECONDS", SOON)

    async def step() -> str:
        time.sleep(0.1)
        return "done"

    async def story() -> list[str]:
        return await asyncio.gather(*(phases_of(f"{number}").run(Phase.AGENT, None, step) for number in range(20)))

    assert run(story()) == ["done"] * 20


# ------------------------------------------------------------------------------------------- how it is said, once


def test_a_block_is_said_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    async def blocks() -> str:
        for _ in range(3):
            time.sleep(BLOCK)
            await asyncio.sleep(0)
        return "done"

    with caplog.at_level(logging.WARNING):
        assert run(phases_of("x1").run(Phase.AGENT, None, blocks)) == "done"
    [record] = [record for record in caplog.records if record.name == watchdog.__name__]
    assert f"attempt @x1, phase agent, at {__file__}:" in record.getMessage()
    assert "asyncio.to_thread" in record.getMessage()


def test_on_another_thread_a_block_is_only_said(caplog: pytest.LogCaptureFixture) -> None:
    codes: list[str] = []

    async def blocks() -> None:
        time.sleep(BLOCK)

    async def watched() -> None:
        with watching(asyncio.get_running_loop()):
            codes.append((await fault_of(blocks)).code)

    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=lambda: asyncio.run(watched()))
        thread.start()
        thread.join(HANG_SECONDS)
    assert codes == ["time.agent"]
    assert [f"code at {__file__}:" in record.getMessage() for record in caplog.records] == [True]


def test_a_signal_that_somebody_uses_stays_theirs(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    before = signal.signal(SIGNAL, lambda number, frame: seen.append(number))

    async def blocks() -> None:
        time.sleep(BLOCK)

    try:
        with caplog.at_level(logging.WARNING):
            assert run(fault_of(blocks)).code == "time.agent"
        assert seen == []
        assert len(caplog.records) == 1
        signal.raise_signal(SIGNAL)
        assert seen == [SIGNAL]
    finally:
        signal.signal(SIGNAL, before)


def test_the_signal_is_given_back_and_the_thread_ends() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with watching(loop):
            assert signal.getsignal(SIGNAL) is not signal.SIG_DFL
            assert len(watchers()) == 1, "one is enough for two who ask"
        assert len(watchers()) == 1

    def watchers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "proctor-watchdog"]

    run(story())
    assert signal.getsignal(SIGNAL) is signal.SIG_DFL
    assert watchers() == []
    signal.raise_signal(SIGNAL)  # one that comes late does nothing


def test_a_loop_that_is_never_held_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        for _ in range(100):
            await asyncio.sleep(0.01)

    sent: list[int] = []
    monkeypatch.setattr(watchdog, "TICK_SECONDS", 0.25)
    monkeypatch.setattr(watchdog.signal, "pthread_kill", lambda thread, number: sent.append(number))
    run(phases_of("a").run(Phase.AGENT, None, story))
    assert len(sent) <= 1, "a machine that is busy may look like it for a moment"
