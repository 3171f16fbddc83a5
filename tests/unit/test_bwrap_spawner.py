"""Sandboxes of provider `bwrap` start by a spawner, and go on when it fails; nothing is left of a start cut off."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.model.environment import EnvironmentSpec, Network, Resources
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.bwrap.sandbox import BwrapSandbox
from proctor.runtime import namespaces, spawn
from proctor.runtime.cgroup import find_sandbox_roots
from proctor.runtime.process import base_interpreter, find_processes
from support.bwrap import needs_bwrap
from support.spawners import fresh  # noqa: F401 - it is around each test

pytestmark = needs_bwrap

NONE = EnvironmentSpec(provider="bwrap", network=Network("none"))


def use(
    base: Path, body: Callable[[BwrapProvider, BwrapSandbox], Awaitable[Any]], environment: EnvironmentSpec = NONE
) -> None:
    async def scenario() -> None:
        provider = BwrapProvider(base / "base", grace_seconds=0.2)
        sandbox = await provider.open(environment, {})
        try:
            await body(provider, sandbox)
        finally:
            await sandbox.dispose()
            await provider.finalize()
        assert find_processes(sandbox.id) == set()
        assert find_sandbox_roots().groups_of(sandbox.id) == []

    asyncio.run(scenario())


def hurt(how: signal.Signals) -> None:
    for spawner in spawn._state.spawners.values():
        os.kill(spawner.pid, how)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_commands_run_once_whatever_becomes_of_the_spawner(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(spawn, "ATTEMPTS", 1000)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        for rounds in range(6):
            commands = [asyncio.ensure_future(sandbox.exec(f"echo {rounds}-{number} >> runs")) for number in range(3)]
            for _ in range(4 * rounds):
                await asyncio.sleep(0)
            hurt(how)
            assert all(result.ok for result in await asyncio.gather(*commands))
            if rounds % 2:
                await sandbox.set_network(Network("full" if rounds % 4 == 1 else "none"))  # ends the namespaces
        runs = (await sandbox.read("runs")).decode().split()
        assert sorted(runs) == sorted(f"{rounds}-{number}" for rounds in range(6) for number in range(3))

    use(tmp_path, body)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT])
def test_a_start_can_be_cancelled_at_any_moment(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nobody knows yet which process it is."""
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(spawn, "ATTEMPTS", 1000)
    monkeypatch.setattr(namespaces, "END_SECONDS", 0)  # the start itself is cut off then

    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base", grace_seconds=0.2)
        for rounds in range(8):
            sandbox = await provider.open(NONE, {})
            first = asyncio.ensure_future(sandbox.exec(["true"]))
            for _ in range(rounds):
                await asyncio.sleep(0)
            hurt(how)
            first.cancel()
            await sandbox.dispose()
            await asyncio.wait({first})
            assert find_processes(sandbox.id) == set()
            assert find_sandbox_roots().groups_of(sandbox.id) == []
        await provider.finalize()

    asyncio.run(scenario())


@pytest.mark.skipif(not find_sandbox_roots().limits("pids"), reason="no control groups can be made here")
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_limit_that_is_too_low_for_what_starts_it_does_not_prevent_that(tmp_path: Path, processes: int) -> None:
    """What starts the namespaces begins in the groups of the sandbox, or is put there where it does not fit."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert (await sandbox.exec(["true"])).ok
        assert not (await sandbox.exec("sleep 1 & sleep 1 & sleep 1 & wait")).ok

    use(
        tmp_path,
        body,
        EnvironmentSpec(provider="bwrap", network=Network("none"), resources=Resources(None, None, processes)),
    )


@pytest.mark.skipif(not find_sandbox_roots().limits("pids"), reason="no control groups can be made here")
def test_a_full_sandbox_still_runs_the_next_command(tmp_path: Path) -> None:
    """What an agent left takes all the processes that it may have: that is no reason to lose the sandbox."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("i=0; while [ $i -lt 30 ]; do sleep 3000 & i=$((i+1)); done", timeout_seconds=60)
        assert (await sandbox.exec(["echo", "here"])).out == "here\n"

    use(tmp_path, body, EnvironmentSpec(provider="bwrap", network=Network("none"), resources=Resources(None, None, 20)))


def test_what_enters_comes_from_a_sealed_copy(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec(["true"])
        [spawner] = spawn._state.spawners.values()
        assert spawner.requests == 2, "the namespaces and the command"
        program = os.readlink(f"/proc/{spawner.pid}/exe")
        owned = os.stat(base_interpreter()).st_uid == os.geteuid()
        assert program.startswith("/memfd:") if owned else program == os.path.realpath(base_interpreter())

    use(tmp_path, body)


def test_what_is_about_to_end_is_not_entered(tmp_path: Path) -> None:
    """A command that kills all has doomed the namespaces, but not the next command, however soon that comes."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        for number in range(8):
            await sandbox.exec(f"echo {number} > kept; kill -9 -1")
            assert (await sandbox.exec(["cat", "kept"])).out == f"{number}\n"
            await sandbox.exec("kill -STOP 2")  # which is no such case
            assert (await sandbox.exec("(sleep 3000 > /dev/null 2>&1 & echo $! > left) ; echo here")).out == "here\n"
            assert (await sandbox.exec("kill -0 $(cat left)")).ok

    use(tmp_path, body)
