"""What a fork of proctor holds copies of does not keep a spawner, a supervisor or a command (spec 06)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from spawners import HANG_SECONDS, fresh, wait_for_end  # noqa: F401 - `fresh` is around each test

from proctor.runtime import command, spawn
from proctor.runtime.process import Processes, find_processes

ENV = {"PATH": "/usr/bin:/bin"}


PROCTOR = """
import asyncio, os, signal, sys
from proctor.runtime import spawn
from proctor.runtime.process import Processes
forks = []
def fork(*_):
    forks.append(os.fork())
    if forks[-1] == 0:
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        signal.pause()
def tell(*_):
    sys.argv[2] == "after" and fork()
    print(*forks, *(one.pid for one in spawn._state.spawners.values()), flush=True)
if sys.argv[2] == "during":
    start = spawn.Spawner._start
    spawn.Spawner._start = lambda *given: (fork(), start(*given))[1]
async def main():
    await Processes(sys.argv[1]).run(["sh", "-c", "echo; exec sleep 300"], cwd="/", env={"PATH": "/usr/bin:/bin"},
                                     on_output=tell)
asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["during", "after"])
def test_nothing_outlives_proctor_because_a_fork_of_it_does(when: str) -> None:  # case 112
    """One that was made while the spawner was started, or while the command ran: as `multiprocessing` does."""
    name = f"outlived-{when}-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", PROCTOR, name, when], stdout=subprocess.PIPE) as proctor:
        assert proctor.stdout is not None
        fork, spawner = map(int, proctor.stdout.readline().split())
        try:
            left = find_processes(name)
            assert left
            proctor.kill()
            for pid in {spawner, *left}:
                wait_for_end(pid)
        finally:
            os.kill(fork, signal.SIGKILL)


def test_a_command_starts_where_a_fork_holds_its_socket_and_the_spawner_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the end of the socket cannot tell that nobody will answer."""
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)
    forks: list[int] = []
    ask = spawn.ask

    def with_fork(*given: Any, **named: Any) -> spawn.Spawner | None:
        forks.append(os.fork())
        if forks[-1] == 0:
            signal.pause()
            os._exit(0)
        return ask(*given, **named)

    async def scenario() -> None:
        processes = Processes(f"held-{os.getpid()}")
        await processes.run(["true"], cwd="/", env=ENV)
        [spawner] = spawn._state.spawners.values()
        os.kill(spawner.pid, signal.SIGSTOP)
        monkeypatch.setattr(command.spawn, "ask", with_fork)
        async with asyncio.timeout(HANG_SECONDS):
            assert (await processes.run(["echo", "here"], cwd="/", env=ENV)).out == "here\n"
        await processes.kill()
        assert find_processes(processes.name) == set()

    try:
        asyncio.run(scenario())
    finally:
        for fork in forks:
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)


def test_what_a_thread_hands_down_is_its_own() -> None:
    """Its mask of signals is not that of the first thread, and may change."""
    said: list[str] = []
    script = ["sed", "-n", "s/^SigBlk:.*\\(.\\{4\\}\\)$/\\1/p", "/proc/self/status"]

    async def scenario() -> None:
        processes = Processes(f"mask-{os.getpid()}")
        said.append((await processes.run(script, cwd="/", env=ENV)).out)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        said.append((await processes.run(script, cwd="/", env=ENV)).out)
        await processes.kill()

    thread = threading.Thread(target=lambda: asyncio.run(scenario()))
    thread.start()
    thread.join()
    assert said == ["0000\n", "0200\n"]


LAUNCHING = """
import asyncio, os, sys
from proctor.runtime.spawn_program import Program, start_in_groups
async def main():
    null = os.open("/dev/null", os.O_RDWR)
    argv = ["sh", "-c", "sleep 300 & wait"]
    program = Program("/bin/sh", argv, {"PROCTOR_SANDBOX": sys.argv[1], "PATH": "/usr/bin:/bin"}, (null,) * 3, [null])
    child = await start_in_groups(program, []).child()
    while len(open(f"/proc/{child.pid}/task/{child.pid}/children").read().split()) < 1:
        await asyncio.sleep(0)
    print(child.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def test_what_was_starting_ends_with_proctor() -> None:  # case 112
    """Bubblewrap would leave a process that waits for it forever."""
    name = f"starting-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", LAUNCHING, name], stdout=subprocess.PIPE) as proctor:
        assert proctor.stdout is not None
        assert proctor.stdout.readline()
        left = find_processes(name)
        assert len(left) == 2
        proctor.kill()
    for pid in left:
        wait_for_end(pid)
    assert find_processes(name) == set()
