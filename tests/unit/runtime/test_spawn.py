"""Supervisors are forked by a spawner that stays: what they are, and what happens when it fails (spec 06)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from spawners import HANG_SECONDS, fresh, wait_for_end  # noqa: F401 - `fresh` is around each test

from proctor.errors import Fault
from proctor.plugins.api import ExecResult
from proctor.runtime import spawn, spawn_direct
from proctor.runtime._killing import living, parents
from proctor.runtime.process import Processes, find_processes

ENV = {"PATH": os.path.dirname(getattr(sys, "_base_executable", sys.executable)) + ":/usr/bin:/bin"}


def use(body: Callable[[Processes], Awaitable[Any]], name: str = "spawn") -> Any:
    async def scenario() -> Any:
        processes = Processes(f"{name}-{os.getpid()}", grace_seconds=0.2)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await body(processes)
        finally:
            await processes.kill()
            assert find_processes(processes.name) == set()

    return asyncio.run(scenario())


async def sh(processes: Processes, script: str, **options: Any) -> ExecResult:
    return await processes.run(["sh", "-c", script], cwd="/", env=ENV, **options)


def the_spawner() -> spawn.Spawner:
    [spawner] = spawn._state.spawners.values()
    return spawner


PORTRAIT = """
import json, os, resource
pid = os.getppid()
text = lambda name: open(f"/proc/{pid}/{name}").read()
fields = text("stat").rpartition(")")[2].split()
status = dict(line.split(":", 1) for line in text("status").splitlines())
kept = "Umask Uid Gid Groups SigBlk SigIgn SigCgt CapEff NoNewPrivs Seccomp Cpus_allowed".split()
print(json.dumps({
    "parent": int(fields[1]), "own group and session": fields[2:4] == [str(pid)] * 2, "terminal": fields[4],
    "status": {name: status.get(name) for name in kept},
    "files": sorted(os.readlink(f"/proc/{pid}/fd/{n}").partition(":")[0] for n in os.listdir(f"/proc/{pid}/fd")),
    "limits": text("limits"), "oom": text("oom_score_adj"), "cwd": os.readlink(f"/proc/{pid}/cwd"),
    "variables": [word for word in text("environ").split("\\0") if word], "priority": fields[15:17],
    "groups": text("cgroup"), "own": json.loads(json.dumps(dict(os.environ))), "mask": os.umask(0),
    "own files": sorted(os.listdir("/proc/self/fd")),
    "own limits": open("/proc/self/limits").read().replace(str(resource.getrlimit(10)[0]), "N"),
}))
"""


def portraits(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what a supervisor is: forked while others run, and as a program of its own."""

    async def body(processes: Processes) -> dict[str, Any]:
        argv = ["python3", "-I", "-S", "-c", PORTRAIT]
        found = await asyncio.gather(*(processes.run(argv, cwd="/", env=ENV, stdin=b"x") for _ in range(6)))
        assert {result.err for result in found} == {""}
        one, *others = [json.loads(result.out) for result in found]
        for each in (one, *others):
            each["own"].pop("PROCTOR_COMMAND")
        assert [other for other in others if other != one] == []
        return one

    async def with_spawner(processes: Processes) -> dict[str, Any]:
        found = await body(processes)
        assert the_spawner().requests == 6
        return found

    forked = use(with_spawner)
    monkeypatch.setattr(spawn, "ATTEMPTS", 0)
    return [forked, use(body)]


def test_a_forked_supervisor_is_what_a_fresh_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables, signals, session, directory, limits and descriptors: those of other commands are not among them."""
    forked, started = portraits(monkeypatch)
    assert forked == started
    assert forked["parent"] == os.getpid()
    assert forked["own group and session"]
    assert forked["variables"] == [f"PROCTOR_SANDBOX=spawn-{os.getpid()}"]


def test_it_is_found_by_the_name_of_its_sandbox_and_tells_what_it_is() -> None:
    async def body(processes: Processes) -> None:
        script = "env -i sleep 300 >&- 2>&- & tr '\\0' '\\n' < /proc/$PPID/cmdline | tail -n 1; echo $PPID"
        said = (await sh(processes, script)).out.split()
        assert said[0] == "supervisor"
        found = find_processes(processes.name)
        assert int(said[1]) in found
        assert len(found) == 2, "the sleeper and its supervisor"
        assert the_spawner().pid not in found

    use(body)


def test_there_is_none_before_the_first_command() -> None:
    async def body(processes: Processes) -> None:
        assert spawn._state.spawners == {}
        await sh(processes, "true")
        assert living({the_spawner().pid})

    use(body)


def test_it_holds_nothing_of_commands() -> None:
    """Neither a descriptor, nor anything that they were given."""
    secret = "secret-" + "of-the-command"

    async def body(processes: Processes) -> None:
        await processes.run(
            ["sh", "-c", "sleep 300 & echo"], cwd="/", env={**ENV, "KEY": secret}, stdin=secret.encode()
        )
        pid = the_spawner().pid
        assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2", *os.listdir(f"/proc/{pid}/fd")[3:4]]
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                place, rights, *_, name = (*line.split(), "")
                start, end = (int(number, 16) for number in place.split("-"))
                if rights.startswith("rw") and not name.startswith("[v"):
                    memory.seek(start)
                    assert secret.encode() not in memory.read(end - start)

    use(body)


def test_what_runs_does_not_depend_on_it() -> None:
    async def body(processes: Processes) -> None:
        begun = asyncio.Event()
        script = "echo; while kill -0 $SPAWNER 2>/dev/null; do sleep 0.01; done; echo done"
        await sh(processes, "true")
        before = the_spawner()
        env = {**ENV, "SPAWNER": str(before.pid)}
        running = asyncio.ensure_future(
            processes.run(["sh", "-c", script], cwd="/", env=env, on_output=lambda *_: begun.set())
        )
        await begun.wait()
        os.kill(before.pid, signal.SIGKILL)
        wait_for_end(before.pid)
        assert (await sh(processes, "echo again")).out == "again\n"
        assert the_spawner() is not before
        assert (await running).out == "\ndone\n"
        assert living({before.pid}) == set()

    use(body)


def count_runs(place: Path) -> list[str]:
    return sorted(place.read_text().split())


@pytest.mark.parametrize("hurt", [signal.SIGKILL, signal.SIGSTOP])
def test_each_command_runs_once_whatever_becomes_of_it(
    hurt: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed, or stopped for good, at any moment: before a request, with some waiting, in the middle of one."""
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(spawn, "ATTEMPTS", 1000)
    place = tmp_path / "runs"

    async def body(processes: Processes) -> None:
        for rounds in range(6):
            commands = [
                asyncio.ensure_future(sh(processes, f"echo {rounds}-{number} >> {place}")) for number in range(6)
            ]
            for _ in range(rounds):
                await asyncio.sleep(0)
            for spawner in spawn._state.spawners.values():
                os.kill(spawner.pid, hurt)
            assert all(result.ok for result in await asyncio.gather(*commands))

    use(body)
    assert count_runs(place) == sorted(f"{rounds}-{number}" for rounds in range(6) for number in range(6))


def test_a_command_can_be_cancelled_while_its_supervisor_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)

    async def body(processes: Processes) -> None:
        await sh(processes, "true")
        os.kill(the_spawner().pid, signal.SIGSTOP)
        running = asyncio.ensure_future(sh(processes, "sleep 300"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert find_processes(processes.name) == set()

    use(body)


@pytest.mark.parametrize("kill", [False, True])
def test_its_time_limit_begins_when_it_does(kill: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.3)

    async def body(processes: Processes) -> None:
        await sh(processes, "true")
        os.kill(the_spawner().pid, signal.SIGSTOP)
        running = asyncio.ensure_future(sh(processes, "sleep 300", timeout_seconds=0.1))
        await asyncio.sleep(0)
        if kill:
            await processes.kill()
        result = await running
        assert (result.timed_out, bool(result.lost)) == (not kill, kill)

    use(body)


@pytest.mark.parametrize(("status", "attempts"), [(1, spawn.ATTEMPTS), (spawn.UNABLE, 1)])
def test_one_that_cannot_work_is_given_up(
    status: int, attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some attempts; at once where it says itself that it will not."""
    tried = tmp_path / "tried"
    code = f"import os; os.write(os.open({str(tried)!r}, 1089), b'x'); os._exit({status})"
    monkeypatch.setattr(spawn, "_START", code)

    async def body(processes: Processes) -> None:
        for number in range(spawn.ATTEMPTS + 3):
            assert (await sh(processes, f"echo {number}")).out == f"{number}\n"
            for spawner in list(spawn._state.spawners.values()):
                wait_for_end(spawner.pid)

    use(body)
    assert len(tried.read_text()) == attempts
    assert spawn._state.spawners == {}


def test_where_nothing_can_be_started_a_fault_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    async def body(processes: Processes) -> None:
        await sh(processes, "true")
        os.kill(the_spawner().pid, signal.SIGSTOP)
        monkeypatch.setattr(spawn, "ANSWER_SECONDS", 0.1)
        monkeypatch.setattr(spawn_direct.subprocess, "Popen", refuse)
        for _ in range(2):  # the second finds no spawner either
            with pytest.raises(Fault, match="no process could be started"):
                await sh(processes, "true")
        monkeypatch.undo()

    use(body)


@pytest.mark.parametrize("change", ["umask", "limit"])
def test_what_is_inherited_is_what_it_is_now(change: str) -> None:
    before = os.umask(0o022)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def body(processes: Processes) -> list[str]:
        first = await sh(processes, "umask; ulimit -Sn")
        if change == "umask":
            os.umask(0o027)
        else:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit[0] - 1, limit[1]))
        return [first.out, (await sh(processes, "umask; ulimit -Sn")).out]

    try:
        said = [text.split() for text in use(body)]
    finally:
        os.umask(before)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    masks, limits = zip(*said, strict=True)
    assert masks == (("0022", "0027") if change == "umask" else ("0022", "0022"))
    assert limits == ((str(limit[0]),) * 2 if change == "umask" else (str(limit[0]), str(limit[0] - 1)))


def test_a_fork_of_this_process_has_its_own() -> None:
    """The parent's goes on, and is not kept alive by the child."""

    async def once() -> int:
        processes = Processes(f"parent-{os.getpid()}")
        await sh(processes, "true")
        await processes.kill()
        return the_spawner().pid

    with asyncio.Runner() as runner:
        before = runner.run(once())
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            asyncio.set_event_loop(None)
            try:
                asyncio.run(of_fork(writing))
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            said = told.read()
        os.waitpid(child, 0)
        assert said == "forked, of its own"
        assert runner.run(once()) == before


async def of_fork(told: int) -> None:
    inherited = dict(spawn._state.spawners)
    processes = Processes(f"forked-{os.getpid()}")
    result = await sh(processes, "echo forked")
    own = not inherited and parents()[the_spawner().pid] == os.getpid()
    await processes.kill()
    os.write(told, f"{result.out.strip()}, {'of its own' if own else 'of its parent'}".encode())


def test_threads_and_loops_use_them_at_once() -> None:
    said: list[str] = []

    async def work(thread: int) -> None:
        async def body(processes: Processes) -> list[str]:
            results = await asyncio.gather(*(sh(processes, f"echo {thread}-{number}") for number in range(5)))
            return [result.out.strip() for result in results]

        processes = Processes(f"thread-{thread}-{os.getpid()}")
        said.extend(await body(processes))
        await processes.kill()

    threads = [threading.Thread(target=lambda number=number: asyncio.run(work(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(5))


def test_it_ends_with_the_last_event_loop_that_used_it() -> None:
    pids = []

    async def body(processes: Processes) -> None:
        await sh(processes, "true")
        pids.append(the_spawner().pid)

    use(body)
    gc.collect()
    assert spawn._state.spawners == {}
    assert pids[0] not in parents(), "it is not even a zombie"


PROCTOR = """
import asyncio, sys
from proctor.runtime import spawn
from proctor.runtime.process import Processes
async def main():
    processes = Processes(sys.argv[1])
    running = asyncio.ensure_future(
        processes.run(["sh", "-c", "echo; sleep 300"], cwd="/", env={"PATH": "/usr/bin:/bin"},
                      on_output=lambda *_: print(*[one.pid for one in spawn._state.spawners.values()], flush=True)))
    await running
asyncio.run(main())
"""


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_proctor_however_that_ends(end: signal.Signals, stopped: bool) -> None:  # case 112
    name = f"ends-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", PROCTOR, name], stdout=subprocess.PIPE) as proctor:
        assert proctor.stdout is not None
        pid = int(proctor.stdout.readline())
        left = find_processes(name)
        assert left
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        proctor.send_signal(end)
    for each in {pid, *left}:
        wait_for_end(each)
    assert find_processes(name) == set()


def test_importing_starts_none() -> None:
    code = (
        "import proctor.cli.main, proctor.runtime.process as p; from proctor.runtime import spawn; p.Processes('x');"
        "print(spawn._state.spawners)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout == b"{}\n"
