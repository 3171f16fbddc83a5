"""Nothing outlives its command's time, its sandbox or proctor (spec 05 Time, 06; cases 95, 97, 112, 118)."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from proctor.plugins.api import ExecLimits, ExecResult
from proctor.runtime import spawn, spawn_direct
from proctor.runtime._killing import parents
from proctor.runtime.cgroup import NO_CGROUPS, CgroupRoots, find_roots
from proctor.runtime.process import Processes, find_processes

HANG_SECONDS = 60
ENV = {"PATH": os.path.dirname(getattr(sys, "_base_executable", sys.executable)) + ":/usr/bin:/bin"}


@pytest.fixture(autouse=True, params=["forked", pytest.param("started", marks=pytest.mark.long)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it holds for supervisors that a spawner forks, and for those that are programs of their own."""
    if request.param == "started":
        monkeypatch.setattr(spawn, "ATTEMPTS", 0)


GROUPS = pytest.mark.parametrize("cgroups", [None, NO_CGROUPS], ids=["with control groups", "without"])


def with_processes(
    use: Callable[[Processes], Awaitable[Any]], cgroups: CgroupRoots | None = None, grace_seconds: float = 30
) -> Any:
    async def scenario() -> Any:
        processes = Processes(f"kill-{os.getpid()}", grace_seconds=grace_seconds, cgroups=cgroups)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await use(processes)
        finally:
            await processes.kill()
            assert find_processes(processes.name) == set()
            assert groups_of(processes.name) == []

    return asyncio.run(scenario())


def groups_of(name: str) -> list[str]:
    roots = find_roots()
    return [
        group
        for root in (roots.unified, roots.pids, roots.memory)
        for group in (os.listdir(root) if root else ())
        if name in group
    ]


def shell(script: str, *, cgroups: CgroupRoots | None = None, grace_seconds: float = 30, **options: Any) -> ExecResult:
    async def use(processes: Processes) -> ExecResult:
        result = await processes.run(["sh", "-c", script], cwd="/", env=ENV, **options)
        if result.timed_out or result.lost:
            assert find_processes(processes.name) == set(), "something is left of a command that was killed"
        return result

    return with_processes(use, cgroups, grace_seconds)


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended; fails after a time that only one that stays alive takes."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], HANG_SECONDS)
        assert ready, f"process {pid} is still alive"
    finally:
        os.close(descriptor)


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_limit() -> None:  # case 95
    result = shell("echo so far; sleep 300 & wait", timeout_seconds=1)
    assert result.timed_out
    assert result.stdout == b"so far\n"


@GROUPS
def test_what_ignores_sigterm_is_killed_after_the_grace(cgroups: CgroupRoots | None) -> None:
    script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &); while :; do sleep 1; done"
    assert shell(script, timeout_seconds=0.3, grace_seconds=0.2, cgroups=cgroups).timed_out


def test_a_command_may_tidy_up_when_its_time_is_over() -> None:
    script = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    result = shell(script, timeout_seconds=1)
    assert (result.timed_out, result.exit_code) == (True, None)
    assert result.stdout == b"ready\ntidied\n"


@GROUPS
def test_a_daemon_with_a_session_of_its_own_is_killed_with_its_command(cgroups: CgroupRoots | None) -> None:
    assert shell("(setsid sh -c 'sleep 300 & sleep 300' &) ; sleep 300", timeout_seconds=0.4, cgroups=cgroups).timed_out


@GROUPS
def test_a_stopped_process_ends_too(cgroups: CgroupRoots | None) -> None:
    assert shell("sleep 300 & kill -STOP $!; kill -STOP $$", timeout_seconds=0.3, cgroups=cgroups).timed_out


@GROUPS
@pytest.mark.parametrize("subreaper", [True, False])
def test_a_daemon_lives_on_and_holds_nobody_until_kill(
    cgroups: CgroupRoots | None, subreaper: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not subreaper:
        spawn.stop_all()
        for module, name, start in ((spawn_direct, "START", "_supervisor"), (spawn, "_START", "_spawner")):
            changed = getattr(module, name).replace(
                f"; {start}", f"; {start}._killing.prctl = lambda *a: False; {start}"
            )
            assert changed != getattr(module, name)
            monkeypatch.setattr(module, name, changed)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def use(processes: Processes) -> tuple[ExecResult, bytes]:
        # It prints more than a pipe holds after the command has returned: that must neither block nor end it.
        daemon = f"(setsid sh -c 'read go < {fifo}; head -c 300000 /dev/zero; echo alive > {fifo}; sleep 300' &)"
        result = await processes.run(["sh", "-c", f"{daemon}; echo returned"], cwd="/", env=ENV)
        assert find_processes(processes.name)
        await asyncio.to_thread(fifo.write_text, "go\n")
        return result, await asyncio.to_thread(fifo.read_bytes)

    result, said = with_processes(use, cgroups)
    spawn.stop_all()
    assert (result.exit_code, result.stdout) == (0, b"returned\n")
    assert said == b"alive\n"


@GROUPS
def test_killing_the_supervisor_is_noticed_and_frees_nobody(cgroups: CgroupRoots | None) -> None:
    script = "(setsid sleep 300 &); sleep 300 & kill -9 -$PPID; sleep 300"
    result = shell(script, cgroups=cgroups)
    assert result.lost == "supervisor was killed by signal 9"
    assert result.exit_code is None


@GROUPS
def test_killing_the_supervisor_after_the_end_frees_nobody(cgroups: CgroupRoots | None) -> None:
    async def use(processes: Processes) -> ExecResult:
        result = await processes.run(["sh", "-c", "(setsid sleep 300 &); echo $PPID"], cwd="/", env=ENV)
        os.kill(int(result.stdout), signal.SIGKILL)
        wait_for_end(int(result.stdout))
        await asyncio.sleep(0)
        return result

    assert with_processes(use, cgroups).exit_code == 0


ESCAPE = """
import os, resource, sys, time
place, tricks = sys.argv[1], sys.argv[2]
if "leave groups" in tricks:
    for line in open("/proc/self/mountinfo"):
        mount, kind = line.split()[4], line.partition(" - ")[2].split()[0]
        for own in open("/proc/self/cgroup") if kind.startswith("cgroup") else ():
            above = mount + os.path.dirname(own.strip().split(":", 2)[2])
            try: open(above.rstrip("/") + "/cgroup.procs", "w").write(str(os.getpid()))
            except OSError: pass
if "lower limits" in tricks: resource.setrlimit(10, (7, 7))
supervisor, (reading, writing) = os.getppid(), os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(writing, 1)
        os.closerange(3, 100)
        script = "import os, time; os.write(1, b'%d' % os.getpid()); os.close(1); time.sleep(300)"
        os.execve(sys.executable, ["python3", "-I", "-S", "-c", script], {})
    os._exit(0)
os.wait()
os.close(writing)
with open(place, "wb") as file: file.write(os.read(reading, 100))
os.kill(supervisor, 9)
time.sleep(300)
"""


@GROUPS
@pytest.mark.parametrize("tricks", ["", "leave groups", "lower limits", "leave groups, lower limits"])
def test_what_cleared_all_traces_and_killed_its_supervisor_is_found(
    cgroups: CgroupRoots | None, tricks: str, tmp_path: Path
) -> None:
    async def use(processes: Processes) -> ExecResult:
        argv = ["python3", "-I", "-S", "-c", ESCAPE, str(tmp_path / "pid"), tricks]
        return await processes.run(argv, cwd="/", env=ENV)

    assert with_processes(use, cgroups).lost == "supervisor was killed by signal 9"
    wait_for_end(int((tmp_path / "pid").read_text()))


def test_what_belongs_to_others_outlives_a_lost_supervisor(tmp_path: Path) -> None:
    """Children of the program itself, and a daemon of one of them that became a child of the program."""
    daemon = ["sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"]
    before = subprocess.Popen(["sleep", "300"], start_new_session=True)
    adopted: list[int] = []
    after: list[subprocess.Popen[bytes]] = []

    async def use(processes: Processes) -> ExecResult:
        await processes.run(["true"], cwd="/", env=ENV)
        adopted.append(int(subprocess.run(daemon, stdout=subprocess.PIPE, check=True).stdout))
        after.append(subprocess.Popen(["sleep", "300"], start_new_session=True))
        argv = ["python3", "-I", "-S", "-c", ESCAPE, str(tmp_path / "pid"), ""]
        return await processes.run(argv, cwd="/", env=ENV)

    try:
        assert with_processes(use, NO_CGROUPS).lost
        assert parents()[adopted[0]] == os.getpid()
        os.kill(adopted[0], 0)
        assert [process.poll() for process in (before, *after)] == [None, None]
    finally:
        for process in (before, *after):
            process.kill()
            process.wait()
        for pid in adopted:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_no_zombie_is_left_of_what_lost_its_supervisor(tmp_path: Path) -> None:  # case 118
    argv = ["python3", "-I", "-S", "-c", ESCAPE, str(tmp_path / "pid"), ""]
    with_processes(lambda processes: processes.run(argv, cwd="/", env=ENV), NO_CGROUPS)
    assert int((tmp_path / "pid").read_text()) not in parents()


def test_stopping_the_supervisor_does_not_stop_the_limit() -> None:
    assert shell("kill -STOP $PPID; sleep 300", timeout_seconds=0.3, grace_seconds=0.2).timed_out


def test_signals_that_can_be_ignored_do_not_reach_the_supervisor() -> None:
    result = shell("for s in HUP INT QUIT PIPE TERM USR1 USR2 ALRM; do kill -$s -$PPID; done; echo still here")
    assert (result.exit_code, result.stdout) == (0, b"still here\n")


CHAIN = textwrap.dedent(
    """
    import os, signal
    for _ in range(12):                 # twelve chains, each a process that starts the next and ends
        if os.fork() == 0:
            while True:
                if os.fork() > 0: os._exit(0)
                os.setsid()
    signal.pause()
    """
)


@pytest.mark.sampled
@GROUPS
def test_chains_of_short_lived_processes_are_caught(cgroups: CgroupRoots | None) -> None:
    async def use(processes: Processes) -> ExecResult:
        argv = ["python3", "-I", "-S", "-c", CHAIN]
        return await processes.run(argv, cwd="/", env=ENV, timeout_seconds=0.4)

    assert with_processes(use, cgroups, grace_seconds=0.1).timed_out


BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"


@pytest.mark.sampled
@pytest.mark.skipif(
    not find_roots().pids and os.getuid() == 0, reason="nothing limits the processes of root here but counting them"
)
@pytest.mark.parametrize("end", ["time", "supervisor"])
def test_a_fork_bomb_is_held_and_killed(end: str) -> None:
    async def use(processes: Processes) -> ExecResult:
        bomb = BOMB if end == "time" else f"import os; os.kill(os.getppid(), 9)\n{BOMB}"
        argv = ["python3", "-I", "-S", "-c", bomb]
        limits = ExecLimits(processes=40)
        return await processes.run(argv, cwd="/", env=ENV, timeout_seconds=0.5, limits=limits)

    result = with_processes(use, grace_seconds=0.1)
    assert result.timed_out if end == "time" else result.lost


@GROUPS
def test_cancelling_kills_everything_and_then_goes_on(cgroups: CgroupRoots | None) -> None:
    async def use(processes: Processes) -> None:
        started = asyncio.Event()
        work = asyncio.create_task(
            processes.run(
                ["sh", "-c", "(setsid sleep 300 &); echo; trap '' TERM; sleep 300"],
                cwd="/",
                env=ENV,
                on_output=lambda name, data: started.set(),
            )
        )
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert find_processes(processes.name) == set()

    with_processes(use, cgroups, grace_seconds=0.1)


def test_05_a_command_whose_call_is_cancelled_may_end_in_good_order() -> None:
    async def use(processes: Processes) -> bytes:
        printed = bytearray()
        work = asyncio.create_task(
            processes.run(
                ["sh", "-c", "trap 'echo bye; exit' TERM; echo ready; while :; do sleep 1; done"],
                cwd="/",
                env=ENV,
                on_output=lambda name, data: printed.extend(data if name == "stdout" else b""),
            )
        )
        while not printed:
            await asyncio.sleep(0.001)
        work.cancel()
        await asyncio.wait({work})
        assert work.cancelled()
        assert find_processes(processes.name) == set()
        return bytes(printed)

    assert with_processes(use) == b"ready\nbye\n"


def test_kill_ends_a_command_that_is_waited_for() -> None:
    async def use(processes: Processes) -> ExecResult:
        started = asyncio.Event()
        work = asyncio.create_task(
            processes.run(["sh", "-c", "echo; sleep 300"], cwd="/", env=ENV, on_output=lambda *_: started.set())
        )
        await started.wait()
        await asyncio.gather(processes.kill(), processes.kill())
        return await work

    result = with_processes(use)
    assert result.lost == "the sandbox was disposed of while the command ran"


PROCTOR = """
import asyncio, sys, threading
from proctor.runtime.process import Processes
async def main():
    processes = Processes(sys.argv[1])
    said = lambda name, data: print(data.decode(), end="", flush=True)
    await processes.run(["sh", "-c", sys.argv[2]], cwd="/", env={"PATH": "/usr/bin:/bin"}, on_output=said)
thread = threading.Thread(target=lambda: asyncio.run(main()))
thread.start() if sys.argv[3:] else asyncio.run(main())
"""
LEAVES_MUCH = "setsid sh -c 'trap \"\" TERM HUP; echo $$; sleep 300' & setsid sleep 300 & echo $$; sleep 300"
STOPS_ITS_SUPERVISOR = "kill -STOP $PPID; sleep 300 & echo $PPID; echo $$; wait"


@pytest.mark.parametrize("thread", [(), ("in a thread",)], ids=["main thread", "another thread"])
@pytest.mark.parametrize("command", [LEAVES_MUCH, STOPS_ITS_SUPERVISOR], ids=["daemons", "stopped supervisor"])
def test_nothing_survives_proctor_not_even_its_kill(command: str, thread: tuple[str, ...]) -> None:  # case 112
    name = f"killed-{os.getpid()}"
    arguments = [sys.executable, "-c", PROCTOR, name, command, *thread]
    proctor = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    assert proctor.stdout is not None
    pids = [int(proctor.stdout.readline()) for _ in range(2)]
    left = find_processes(name)
    assert len(left) >= 3, "two shells and the supervisor at least"
    proctor.kill()
    proctor.wait()
    proctor.stdout.close()
    for pid in {*pids, *left}:
        wait_for_end(pid)
        with suppress(ChildProcessError):  # it may have become a child of this process, which started commands too
            os.waitpid(pid, os.WNOHANG)
    assert find_processes(name) == set()
    assert groups_of(name) == []
