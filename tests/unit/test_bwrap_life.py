"""The life of a sandbox of provider `bwrap`: what lasts from command to command, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.capabilities import refusals
from proctor.providers.bwrap import etc as bwrap_etc
from proctor.providers.bwrap import sandbox as bwrap_sandbox
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.bwrap.sandbox import BwrapSandbox
from proctor.runtime import _live, namespaces, spawn
from proctor.runtime.cgroup import NO_CGROUPS, find_sandbox_roots
from proctor.runtime.command import Command
from proctor.runtime.process import find_processes
from support.bwrap import needs_bwrap

pytestmark = needs_bwrap

NONE = EnvironmentSpec(provider="bwrap", network=Network("none"))


def use(base: Path, body: Callable[[BwrapProvider, BwrapSandbox], Awaitable[Any]], **options: Any) -> Any:
    async def scenario() -> Any:
        provider = BwrapProvider(base / "base", **options)
        sandbox = await provider.open(NONE, {"run": "r1"})
        try:
            return await body(provider, sandbox)
        finally:
            await sandbox.dispose()
            await provider.finalize()
            assert not list(base.glob("base*"))

    return asyncio.run(scenario())


def test_a_sandbox_that_is_not_used_starts_nothing(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert find_processes(sandbox.id) == set()
        assert [path.name for path in (tmp_path / "base" / sandbox.id).iterdir()] == ["labels.json"]

    use(tmp_path, body)


def test_commands_share_processes_files_and_network(tmp_path: Path) -> None:
    server = (
        "import http.server, os\n"
        "server = http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)\n"
        "if os.fork() == 0: server.serve_forever()\n"
    )

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("echo hello > file; echo there > $TMPDIR/file")
        assert (await sandbox.exec(["python3", "-c", server])).ok
        got = await sandbox.exec(
            ["python3", "-c", "import urllib.request as r; print(r.urlopen('http://localhost:8000/file').read())"]
        )
        assert got.out == "b'hello\\n'\n", got.err
        assert (await sandbox.exec("cat $TMPDIR/file; pgrep -c python3")).out == "there\n1\n"

    use(tmp_path, body)


def test_what_is_left_in_the_background_can_go_on_printing(tmp_path: Path) -> None:
    """Nobody reads it any more, and it neither fails nor waits for that."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        printing = "mkfifo go; (read x < go; head -c 1000000 /dev/zero; echo printed > done) & echo begun"
        assert (await sandbox.exec(printing)).out == "begun\n"
        await sandbox.exec("echo > go; while [ ! -e done ]; do sleep 0.05; done", timeout_seconds=60)
        assert await sandbox.read("done") == b"printed\n"

    use(tmp_path, body)


@pytest.mark.parametrize("cgroups", [None, NO_CGROUPS], ids=["with groups", "without"])
def test_nothing_outlives_dispose(tmp_path: Path, cgroups: Any) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        for _ in range(3):
            await sandbox.exec("(setsid sh -c 'trap \"\" TERM HUP; sleep 3000' > /dev/null 2>&1 &)")
        assert len(find_processes(sandbox.id)) >= 3
        await sandbox.dispose()
        assert find_processes(sandbox.id) == set()
        assert find_sandbox_roots().groups_of(sandbox.id) == []

    use(tmp_path, body, cgroups=cgroups)


def test_a_time_limit_ends_daemons_without_groups(tmp_path: Path) -> None:
    """Found by their trace, also where they have dropped all variables."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        script = "(setsid env -i sleep 3000 > /dev/null 2>&1 &); sleep 3000"
        assert (await sandbox.exec(script, timeout_seconds=0.5)).timed_out
        gone = "while pgrep sleep > /dev/null; do :; done"  # what was killed is seen until its parent reaps it
        assert (await sandbox.exec(gone, timeout_seconds=60)).ok

    use(tmp_path, body, cgroups=NO_CGROUPS, grace_seconds=0.5)


def test_a_process_limit_holds_without_groups(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        from proctor.plugins.api import ExecLimits

        script = "i=0; while [ $i -lt 40 ]; do sleep 3000 & i=$((i+1)); done; wait"
        result = await sandbox.exec(script, limits=ExecLimits(processes=10), timeout_seconds=60)
        assert not result.ok
        assert not result.timed_out

    use(tmp_path, body, cgroups=NO_CGROUPS)


def test_without_groups_limits_are_refused_when_a_run_is_planned(tmp_path: Path) -> None:
    from proctor.model.environment import Resources

    provider = BwrapProvider(tmp_path / "base", cgroups=NO_CGROUPS)
    wanted = EnvironmentSpec(provider="bwrap", resources=Resources(1.0, 1 << 30, 10))
    assert refusals(provider, wanted) == [
        "provider bwrap cannot limit cpus to 1.0",
        f"provider bwrap cannot limit memory to {1 << 30} bytes",
        "provider bwrap cannot limit processes to 10",
    ]


@pytest.mark.parametrize(
    ("workdir", "reason"),
    [
        ("/testbed", None), ("/srv/me/work", None), ("/usr/src", "something else"), ("/tmp", "something else"),
        ("work", "absolute"), ("/a/../b", "without dots"), ("/", "below /"),
    ],
)  # fmt: skip
def test_work_directories(tmp_path: Path, workdir: str, reason: str | None) -> None:
    said = BwrapProvider(tmp_path / "base").refuse(EnvironmentSpec(provider="bwrap", workdir=workdir))
    assert (said is None) if reason is None else (said is not None and reason in said)


def test_the_work_directory_can_be_chosen(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base")
        sandbox = await provider.open(EnvironmentSpec(provider="bwrap", workdir="/testbed/deep"), {})
        try:
            assert (await sandbox.exec("pwd; touch file; cd sub 2>/dev/null; ls")).out == "/testbed/deep\nfile\n"
            assert await sandbox.read("/testbed/deep/file") == b""
        finally:
            await sandbox.dispose()
            await provider.finalize()

    asyncio.run(scenario())


def test_reset_leaves_no_answer_anywhere(tmp_path: Path) -> None:
    """Case 178: neither in the work directory nor at home, among the temporary files, in memory or in a process."""
    places = "/work /tmp /var/tmp /dev/shm /run $HOME"

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("echo given | tee kept ~/kept > $TMPDIR/kept; mkfifo $TMPDIR/pipe; chmod 751 .")
        await sandbox.mark()
        for _ in range(2):
            leave = f"for place in {places}; do echo answer > $place/answer; done; rm kept; (sleep 3000 &)"
            assert (await sandbox.exec(leave)).ok
            await sandbox.reset()
            found = await sandbox.exec(f"grep -rl answer {places}; pgrep -c sleep; cat kept ~/kept $TMPDIR/kept")
            assert found.out == "0\ngiven\ngiven\ngiven\n"
            assert (await sandbox.exec("stat -c %a .")).out == "751\n"

    use(tmp_path, body)


def test_L3_what_a_group_shares_outside_of_the_work_directory_stays(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("echo given > kept")
        await sandbox.mark(keep_outside=True)
        for count in (1, 2):
            await sandbox.exec("echo x | tee -a answer ~/shared >> $TMPDIR/shared; rm -f kept; (sleep 3000 &)")
            await sandbox.reset()
            found = await sandbox.exec("ls; cat kept; wc -l < $HOME/shared; wc -l < $TMPDIR/shared")
            assert found.out.split() == ["kept", "given", str(count), str(count)]

    use(tmp_path, body)


def test_a_change_from_the_full_network_ends_what_has_it(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.set_network(Network("full"))
        await sandbox.exec("echo > kept; (sleep 3000 &)")
        await sandbox.set_network(Network("none"))
        assert (await sandbox.exec("pgrep -c sleep; ls; cat /proc/net/dev | tail -n +3 | cut -d: -f1")).out.split() == [
            "0", "kept", "lo"
        ]  # fmt: skip

    use(tmp_path, body)


def test_certificates_and_alternatives_are_those_of_this_machine(tmp_path: Path) -> None:
    there = [f"/etc/{name}" for name in bwrap_etc.BOUND if os.path.isdir(f"/etc/{name}")]

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        for place in there:
            assert sorted((await sandbox.exec(["ls", "-A", place])).out.splitlines()) == sorted(os.listdir(place))

    use(tmp_path, body)


def test_the_network_namespace_can_be_opened(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        opened = await sandbox.network_namespace()
        try:
            assert (await sandbox.exec("stat -L -c %i /proc/self/ns/net")).out == f"{os.fstat(opened).st_ino}\n"
        finally:
            os.close(opened)

    use(tmp_path, body)


def test_what_was_kept_can_be_entered_and_removed(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("echo mine > file; (sleep 3000 &)")
        await sandbox.keep()
        assert find_processes(sandbox.id) == set()
        await provider.finalize()
        assert [(one["sandbox"], one["kept"]) for one in await provider.list({"run": "r1"})] == [(sandbox.id, "true")]
        command = await BwrapProvider(tmp_path / "base").enter(sandbox.id)
        entered = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert entered.stdin is not None
        entered.stdin.write(b"cat file; pwd; unshare -r true || echo filtered; echo more > file\n")
        entered.stdin.write(b"tr '\\0' '\\n' < /proc/1/environ | grep =; sleep 3000\n")
        assert entered.stdout is not None
        assert [await entered.stdout.readline() for _ in range(3)] == [b"mine\n", b"/work\n", b"filtered\n"]
        assert (await entered.stdout.readline()).startswith(b"PROCTOR_SANDBOX=")  # and nothing of this machine's
        await provider.remove(sandbox.id)
        await entered.communicate()
        assert find_processes(sandbox.id) == set()
        assert list(await provider.list({})) == []
        with pytest.raises(Fault, match="there is no sandbox"):
            await provider.enter(sandbox.id)

    use(tmp_path, body)


@pytest.mark.parametrize("network", ["full", "none"])
def test_what_was_kept_is_entered_with_its_network(tmp_path: Path, network: Any) -> None:
    """And with that alone which it had in the end."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert (await sandbox.exec(["true"])).ok
        await sandbox.set_network(Network(network))
        await sandbox.keep()
        command = await BwrapProvider(tmp_path / "base").enter(sandbox.id)
        entered = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        said, _ = await entered.communicate(
            b"readlink /proc/self/ns/net; pwd; cut -d: -f1 /proc/net/dev | tail -n +3\n"
        )
        own, place, *devices = said.decode().split()
        assert place == "/work"
        assert (own == os.readlink("/proc/self/ns/net")) is (network == "full")
        assert network == "full" or devices == ["lo"]
        await provider.remove(sandbox.id)

    use(tmp_path, body)


def test_another_process_removes_a_sandbox_that_runs(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("(sleep 3000 &)")
        await BwrapProvider(tmp_path / "base").remove(sandbox.id)
        assert find_processes(sandbox.id) == set()
        assert find_sandbox_roots().groups_of(sandbox.id) == []
        with pytest.raises(Fault, match="somebody removed"):
            await sandbox.exec("true")

    use(tmp_path, body)


RUNNER = """
import asyncio, sys
from pathlib import Path
from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.bwrap.provider import BwrapProvider

async def main():
    provider = BwrapProvider(Path(sys.argv[1]))
    sandbox = await provider.open(EnvironmentSpec(provider="bwrap", network=Network("none")), {})
    await sandbox.exec("(setsid sh -c 'trap \\"\\" TERM HUP; sleep 3000' > /dev/null 2>&1 &)")
    print(sandbox.id, flush=True)
    await sandbox.exec("sleep 3000")

asyncio.run(main())
"""


def test_the_death_of_the_runner_ends_everything(tmp_path: Path) -> None:
    """By kill -9, at which it can do nothing itself."""
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path / "base")], stdout=subprocess.PIPE, start_new_session=True
    ) as runner:
        assert runner.stdout is not None
        name = runner.stdout.readline().decode().strip()
        assert find_processes(name)
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()

    async def gone() -> None:
        while find_processes(name):
            await asyncio.sleep(0.02)
        provider = BwrapProvider(tmp_path / "base")
        await provider.remove(name)
        await provider.finalize()

    asyncio.run(gone())
    assert not (tmp_path / "base").exists()
    assert find_sandbox_roots().groups_of(name) == []


STEPS: list[tuple[Any, str]] = [
    (bwrap_etc, "make_etc"),
    (bwrap_sandbox, "make_groups"),
    (bwrap_sandbox.tree, "settle"),
    (bwrap_sandbox.tree, "options"),
    (namespaces, "file_with"),
    (namespaces, "start_in_groups"),
    (namespaces.subprocess, "Popen"),
    (namespaces, "readable"),
    (namespaces.json, "loads"),
    (namespaces, "Live"),
    (namespaces, "holder"),
    (namespaces, "put_in_groups"),
]
WITHOUT_SPAWNER = ("Popen", "put_in_groups")


@pytest.mark.parametrize("failure", [OSError(28, "no space"), asyncio.CancelledError()], ids=["fails", "is cancelled"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step[1])
def test_a_start_that_is_cut_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str], failure: BaseException
) -> None:
    """Whichever step it is; and the next try works."""
    module, name = step
    if name in WITHOUT_SPAWNER:
        monkeypatch.setattr(spawn, "ATTEMPTS", 0)
    right = getattr(module, name)
    failed = []

    def once(*arguments: Any, **options: Any) -> Any:
        if not failed and not (name == "Popen" and "--args" not in arguments[0]):
            failed.append(True)
            raise failure
        return right(*arguments, **options)

    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base")
        before = set(os.listdir("/proc/self/fd"))
        monkeypatch.setattr(module, name, once)
        sandbox = None
        try:
            sandbox = await provider.open(NONE, {})
            await sandbox.exec(["true"])
        except (Fault, asyncio.CancelledError):
            assert failed
        else:
            pytest.fail("the step was not reached")
        monkeypatch.setattr(module, name, right)
        if sandbox is None:
            assert list(await provider.list({})) == []
        else:
            assert (await sandbox.exec(["true"])).ok
            await sandbox.dispose()
            assert find_processes(sandbox.id) == set()
            assert find_sandbox_roots().groups_of(sandbox.id) == []
        await provider.finalize()
        spawn.stop_all()
        assert set(os.listdir("/proc/self/fd")) <= before
        assert not (tmp_path / "base").exists()

    asyncio.run(scenario())


def test_any_number_can_wait_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that find the namespaces gone wait for that, and so does whoever ends them, all at once."""
    monkeypatch.setattr(namespaces, "VANISH_SECONDS", 3600)
    monkeypatch.setattr(_live, "END_SECONDS", 3600)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.write("file", "x")
        right, gone = namespaces.Live.open, [True, True, True]

        def open_once(live: Any, name: str, flags: int) -> int:
            if gone:
                gone.pop()
                raise ProcessLookupError
            return right(live, name, flags)

        monkeypatch.setattr(namespaces.Live, "open", open_once)
        reading = [asyncio.ensure_future(sandbox.read("file")) for _ in gone]
        while gone:
            await asyncio.sleep(0)
        await sandbox.set_network(Network("full"))
        assert await asyncio.gather(*reading) == [b"x"] * 3

    use(tmp_path, body)


def test_a_supervisor_that_is_killed_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command becomes a child of the runner, and the kernel ends the namespaces only when that is reaped."""

    async def nothing(command: Command) -> None:
        """Leave it to whoever ends the namespaces."""

    monkeypatch.setattr(Command, "_kill_remains", nothing)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        begun = asyncio.Event()
        running = asyncio.ensure_future(sandbox.exec("echo; sleep 3000", on_output=lambda stream, data: begun.set()))
        await begun.wait()
        [command] = sandbox._processes._commands
        os.kill(command._process.pid, signal.SIGKILL)
        assert (await running).lost
        await sandbox.dispose()
        assert find_processes(sandbox.id) == set()

    use(tmp_path, body)


def test_a_cancelled_start_is_there_for_the_next(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        for rounds in range(12):
            first = asyncio.ensure_future(sandbox.exec(["true"]))
            for _ in range(rounds):
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
            assert (await sandbox.exec(["true"])).ok
            await sandbox.set_network(Network("full" if rounds % 2 else "none"))

    use(tmp_path, body, grace_seconds=0.2)


def test_files_and_commands_may_be_the_first_together(tmp_path: Path) -> None:
    """A supervisor makes its groups while the namespaces start: those of the sandbox must be there by then."""

    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base")
        for turns in range(3):
            sandbox = await provider.open(NONE, {})
            first = asyncio.ensure_future(sandbox.write("file", "x"))
            for _ in range(turns):
                await asyncio.sleep(0)
            results = await asyncio.gather(*(sandbox.exec(["true"]) for _ in range(3)))
            assert all(result.ok for result in results)
            await first
            await sandbox.dispose()
            assert find_sandbox_roots().groups_of(sandbox.id) == []
        await provider.finalize()

    asyncio.run(scenario())


def test_disposal_while_it_starts(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = BwrapProvider(tmp_path / "base", grace_seconds=0.2)
        for rounds in range(12):
            sandbox = await provider.open(NONE, {})
            first = asyncio.ensure_future(sandbox.exec(["true"]))
            for _ in range(rounds):
                await asyncio.sleep(0)
            await sandbox.dispose()
            await asyncio.wait({first})
            assert first.done()
            assert find_processes(sandbox.id) == set()
            assert find_sandbox_roots().groups_of(sandbox.id) == []
        await provider.finalize()
        assert not (tmp_path / "base").exists()

    asyncio.run(scenario())
