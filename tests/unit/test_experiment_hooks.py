"""Hooks and leases always answer, whenever they are interrupted (spec 03 S2, S6)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proctor.cli import experiment_hooks
from proctor.cli.experiment_hooks import ExperimentHooks, Hooks
from proctor.core.commands import AcquireLease, CloseLane, OpenLane, ReleaseLease, RunSetup, RunTeardown
from proctor.errors import StoreError
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import LaneClosed, LeaseGranted, LeaseRefused, LeaseReleased, SetupEnded, TeardownEnded
from proctor.runtime import hurry
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.clock import SystemClock
from proctor.store.coordination import coordination_path
from proctor.store.lease_info import LeaseWait, Teardown
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner
from proctor.testing.fake_provider import FakeProvider


def hooks_in(project: Path, **changes: Any) -> ExperimentHooks:
    clock = SystemClock()
    return ExperimentHooks(
        {"e": Hooks(**changes)},
        leases=Leases(coordination_path(project), this_owner(), clock),
        teardowns=OwedTeardowns(coordination_path(project), this_owner(), clock),
        project=project,
        wait=LeaseWait(60.0),
        clock=clock,
        tell=lambda text: None,
    )


def test_a_setup_that_is_interrupted_before_its_first_step_answers(tmp_path: Path) -> None:
    events: list[Any] = []

    async def drive() -> None:
        hooks = hooks_in(tmp_path, setup=Teardown("os:getpid"))
        hooks.carry_out(RunSetup("e"), events.append)
        hooks.interrupt()
        await hooks.close()
        await asyncio.sleep(0)

    asyncio.run(drive())
    assert [type(event) for event in events] == [SetupEnded]
    assert events[0].issue is not None


def test_a_lease_that_cannot_be_asked_for_is_refused(tmp_path: Path) -> None:
    events: list[Any] = []

    async def drive() -> None:
        hooks = hooks_in(tmp_path)

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("no such thing")

        hooks._leases._leases.try_acquire = broken  # type: ignore[method-assign]
        hooks.carry_out(AcquireLease("e", "k"), events.append)
        while not events:
            await asyncio.sleep(0.001)
        hooks.carry_out(ReleaseLease("e"), events.append)
        await hooks.close()

    asyncio.run(drive())
    assert [type(event) for event in events] == [LeaseRefused, LeaseReleased]
    assert "no such thing" in events[0].message


def test_a_wait_for_a_lease_ends_with_its_release(tmp_path: Path) -> None:
    events: list[Any] = []

    async def drive() -> None:
        first, second = hooks_in(tmp_path), hooks_in(tmp_path)
        first.carry_out(AcquireLease("e", "k"), events.append)
        while len(events) < 1:
            await asyncio.sleep(0.001)
        second.carry_out(AcquireLease("e", "k"), events.append)
        await asyncio.sleep(0)
        second.carry_out(ReleaseLease("e"), events.append)
        while len(events) < 2:
            await asyncio.sleep(0.001)
        first.carry_out(ReleaseLease("e"), events.append)
        await first.close()
        await second.close()

    asyncio.run(drive())
    assert [type(event).__name__ for event in events] == ["LeaseGranted", "LeaseReleased", "LeaseReleased"]
    assert hooks_in(tmp_path)._leases._leases.list() == []


class Ends:
    """What a test waits for: events, one after another."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def until(self, count: int) -> None:
        while len(self.events) < count:
            await asyncio.sleep(0.005)


WAITING = """
from pathlib import Path
import os, time

def waits():
    Path("began").write_text(str(os.getpid()))
    while True:
        time.sleep(60)

def notes():
    Path("ran").touch()
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forced end does not take seconds."""
    monkeypatch.setattr(hurry, "FORCED_SECONDS", 0.3)
    monkeypatch.setattr(experiment_hooks, "HURRIED_TEARDOWN_SECONDS", 0.1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "waiting.py").write_text(WAITING)
    return tmp_path


async def appears(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.005)


def is_gone(project: Path) -> bool:
    return not Path(f"/proc/{(project / 'began').read_text()}").exists()


async def gone(project: Path) -> None:
    while not is_gone(project):
        await asyncio.sleep(0.005)


@pytest.mark.integration
def test_10_I1_a_teardown_goes_on_after_a_first_interrupt_and_is_owed_after_a_second(
    project: Path, quick: None
) -> None:
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(project, teardown=Teardown("waiting:waits"))
        hooks.carry_out(RunSetup("e"), ends.events.append)
        await ends.until(1)
        hooks.carry_out(RunTeardown("e"), ends.events.append)
        await appears(project / "began")
        hooks.interrupt()
        hooks.force(teardowns=False)  # the grace of the attempts is over
        assert hooks.pending == 0
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(ends.events) == 1, "a teardown has a limit of its own"
        hooks.force(teardowns=True)
        await hooks.close()
        await gone(project)

    asyncio.run(drive())
    assert ends.events[0] == SetupEnded("e")
    [issue] = [event.issue for event in ends.events[1:]]
    assert issue.code == "experiment.teardown_failed"
    assert "cut short" in issue.message
    assert "the next run of this experiment runs it first" in issue.message
    assert count_owed(project) == 1


@pytest.mark.integration
def test_S6_a_missed_teardown_that_fails_is_not_run_again_by_the_same_run(tmp_path: Path) -> None:
    """Setup did not begin: there is nothing that this run would have to undo, and the old one is still owed."""
    (tmp_path / "hooks.py").write_text(
        "import os\n"
        "def clear():\n"
        "    open('trace', 'a').write('clear ')\n"
        "    raise ValueError('one\\ntwo')\n"
        "def prepare():\n"
        "    open('trace', 'a').write('prepare ')\n"
    )
    dead = replace(this_owner(), pid=2**22 + 1)
    OwedTeardowns(coordination_path(tmp_path), dead, SystemClock()).note("e", Teardown("hooks.py:clear"))
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(tmp_path, setup=Teardown("hooks.py:prepare"), teardown=Teardown("hooks.py:clear"))
        hooks.carry_out(RunSetup("e"), ends.events.append)
        await ends.until(1)
        hooks.carry_out(RunTeardown("e"), ends.events.append)
        await ends.until(2)
        await hooks.close()

    asyncio.run(drive())
    assert (tmp_path / "trace").read_text() == "clear "
    assert ends.events[1] == TeardownEnded("e")
    issue = ends.events[0].issue
    assert issue.code == "experiment.setup_failed"
    assert issue.message.endswith("it said last: ValueError: one two")
    assert count_owed(tmp_path) == 1


@pytest.mark.integration
def test_10_I1_a_teardown_that_comes_after_the_end_of_a_hurry_is_not_begun_and_owed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hurry, "FORCED_SECONDS", 0.0)
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(project, teardown=Teardown("waiting:notes"))
        hooks.carry_out(RunSetup("e"), ends.events.append)
        await ends.until(1)
        hooks.force(teardowns=True)
        hooks.carry_out(RunTeardown("e"), ends.events.append)
        await ends.until(2)
        await hooks.close()

    asyncio.run(drive())
    assert "cut short" in ends.events[1].issue.message
    assert not (project / "ran").exists()
    assert count_owed(project) == 1


@pytest.mark.integration
def test_10_I1_an_experiment_without_a_teardown_owes_nothing_however_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hurry, "FORCED_SECONDS", 0.0)
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(tmp_path)
        hooks.force(teardowns=True)
        hooks.carry_out(RunTeardown("e"), ends.events.append)
        await ends.until(1)
        await hooks.close()

    asyncio.run(drive())
    assert ends.events == [TeardownEnded("e")]


@pytest.mark.integration
def test_03_S3_a_lease_stays_held_when_its_teardown_is_cut_short(project: Path, quick: None) -> None:
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(project, teardown=Teardown("waiting:waits"))
        for count, command in enumerate([AcquireLease("e", "k"), RunSetup("e")], 1):
            hooks.carry_out(command, ends.events.append)
            await ends.until(count)
        hooks.carry_out(RunTeardown("e"), ends.events.append)
        await appears(project / "began")
        hooks.force(teardowns=True)
        await ends.until(3)
        hooks.carry_out(ReleaseLease("e"), ends.events.append)
        await ends.until(4)
        await hooks.close()
        await gone(project)

    asyncio.run(drive())
    kinds = [type(event) for event in ends.events]
    assert kinds == [LeaseGranted, SetupEnded, TeardownEnded, LeaseReleased]
    assert "`proctor lease inspect k`" in ends.events[2].issue.message
    [lease] = hooks_in(project)._leases._leases.list()
    assert lease.failed


@pytest.mark.integration
@pytest.mark.parametrize("again", [False, True])
def test_10_I1_a_setup_that_hangs_ends_at_the_first_interrupt(project: Path, quick: None, again: bool) -> None:
    ends = Ends()

    async def drive() -> None:
        hooks = hooks_in(project, setup=Teardown("waiting:waits"))
        hooks.carry_out(RunSetup("e"), ends.events.append)
        await appears(project / "began")
        hooks.interrupt()
        if again:
            hooks.force(teardowns=True)
        await ends.until(1)
        await hooks.close()
        await gone(project)

    asyncio.run(drive())
    [ended] = ends.events
    assert ended.issue.code == "experiment.setup_failed"


def test_10_I1_a_wait_for_a_lease_is_cut_short_and_answers_once(tmp_path: Path, quick: None) -> None:
    ends = Ends()
    answer = threading.Event()

    async def drive() -> None:
        hooks = hooks_in(tmp_path)

        def slow(*_: Any, **__: Any) -> Any:
            answer.wait()
            raise StoreError("too late")

        hooks._leases._leases.try_acquire = slow  # type: ignore[method-assign]
        hooks.carry_out(AcquireLease("e", "k"), ends.events.append)
        await asyncio.sleep(0)
        assert hooks.pending == 1
        hooks.force(teardowns=True)
        await ends.until(1)
        hooks.carry_out(ReleaseLease("e"), ends.events.append)
        await ends.until(2)
        await hooks.close()
        answer.set()
        await asyncio.sleep(0.05)

    asyncio.run(drive())
    assert [type(event) for event in ends.events] == [LeaseRefused, LeaseReleased]
    assert "cut short" in ends.events[0].message


def test_10_I1_a_lane_whose_sandbox_does_not_go_is_given_up(tmp_path: Path, quick: None) -> None:
    ends = Ends()
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    async def drive() -> None:
        hooks = hooks_in(tmp_path)
        hooks.carry_out(OpenLane("l", "e"), ends.events.append)
        provider = FakeProvider(on_dispose=stubborn)
        hooks.lanes["l"].box = AgentBox(await provider.open(EnvironmentSpec("fake"), {}), "fake-1")
        hooks.carry_out(CloseLane("l"), ends.events.append)
        await asyncio.sleep(0)
        assert hooks.pending == 1
        hooks.interrupt()
        await asyncio.sleep(0)
        assert ends.events == []
        hooks.force(teardowns=False)
        await ends.until(1)
        await hooks.close()
        over.set()
        await asyncio.sleep(0.01)

    asyncio.run(drive())
    assert ends.events == [LaneClosed("l", "e", None)]


def count_owed(project: Path) -> int:
    with sqlite3.connect(coordination_path(project)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM teardown").fetchall()
    connection.close()
    return count
