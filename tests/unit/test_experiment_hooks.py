"""Hooks and leases always answer, whenever they are interrupted (spec 03 S2, S6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from proctor.cli.experiment_hooks import ExperimentHooks, Hooks
from proctor.core.commands import AcquireLease, ReleaseLease, RunSetup
from proctor.model.events import LeaseRefused, LeaseReleased, SetupEnded
from proctor.runtime.clock import SystemClock
from proctor.store.coordination import coordination_path
from proctor.store.lease_info import LeaseWait, Teardown
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner


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

        hooks._leases.try_acquire = broken  # type: ignore[method-assign]
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
    assert hooks_in(tmp_path)._leases.list() == []
