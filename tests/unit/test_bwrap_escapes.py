"""What programs in a sandbox of provider `bwrap` try in order to get out of it (spec 06, table of isolation)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.model.environment import EnvironmentSpec, Network, Resources
from proctor.plugins.api import ExecResult
from proctor.providers.bwrap.program import best
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.bwrap.sandbox import BwrapSandbox
from proctor.runtime.cgroup import find_sandbox_roots
from proctor.runtime.process import base_interpreter
from support.bwrap import needs_bwrap

pytestmark = needs_bwrap

NONE = EnvironmentSpec(provider="bwrap", network=Network("none"))
needs_groups = pytest.mark.skipif(not find_sandbox_roots().limits("pids"), reason="no control groups can be made here")


def use(base: Path, body: Callable[[BwrapSandbox], Awaitable[Any]], environment: EnvironmentSpec = NONE) -> Any:
    async def scenario() -> Any:
        provider = BwrapProvider(base / "base")
        sandbox = await provider.open(environment, {"run": "r1"})
        try:
            return await body(sandbox)
        finally:
            await sandbox.dispose()
            await provider.finalize()

    return asyncio.run(scenario())


def run(base: Path, command: str | list[str], environment: EnvironmentSpec = NONE) -> ExecResult:
    return use(base, lambda sandbox: sandbox.exec(command, timeout_seconds=60), environment)


def test_what_is_the_hosts_cannot_be_written(tmp_path: Path) -> None:
    places = ("/usr/x", "/etc/x", "/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/etc/passwd", "/etc/alternatives/x")

    async def body(sandbox: BwrapSandbox) -> None:
        for place in places:
            result = await sandbox.exec(["sh", "-c", f"echo x > {place}"])
            assert not result.ok
            assert "Read-only" in result.err or "ermission denied" in result.err
            assert place in ("/etc/passwd", "/proc/sys/kernel/core_pattern") or not os.path.exists(place)

    use(tmp_path, body)


def test_nothing_of_the_kernel_can_be_written(tmp_path: Path) -> None:
    found = run(tmp_path, "find /proc -writable -not -path '/proc/[0-9]*' -not -path '/proc/pressure*' -type f")
    assert found.out == ""


def test_files_of_the_kernel_keep_their_modes(tmp_path: Path) -> None:
    """Where root runs proctor they belong to root inside too; they are those of this machine, with no copy between."""
    changes = ("chmod('/dev/null', 0o666)", "fchmod(0, 0o666)", "chmod('/proc/version', 0o444)", "utime('/dev/tty')")

    async def body(sandbox: BwrapSandbox) -> None:
        for change in changes:
            result = await sandbox.exec(["python3", "-c", f"import os; os.{change}"])
            assert "Read-only" in result.err or "not permitted" in result.err or "ermission denied" in result.err
        assert (await sandbox.exec("head -c 1 /dev/zero > /dev/null; cat")).ok

    use(tmp_path, body)


def test_programs_of_this_machine_are_not_reached(tmp_path: Path) -> None:
    """Nor their files: by the first process, and by a command that is a link to the program that becomes it."""
    change = "import os; os.chmod('/proc/%s/exe', 0o755); print(os.readlink('/proc/%s/exe'))"

    async def body(sandbox: BwrapSandbox) -> None:
        await sandbox.exec("ln -s /proc/self/exe self")
        for pid, command in ((1, "python3"), ("self", "./self")):
            result = await sandbox.exec([command, "-c", change % (pid, pid)])
            assert result.out.startswith("/memfd:") or "not permitted" in result.err, result
        await sandbox.exec("chmod 000 /proc/1/exe; kill -9 2; sleep 60")
        assert (await sandbox.exec(["true"])).ok

    before = [os.stat(path).st_ctime_ns for path in (best(), base_interpreter())]
    use(tmp_path, body)
    assert [os.stat(path).st_ctime_ns for path in (best(), base_interpreter())] == before


def test_what_opens_files_cannot_be_made_to_wait(tmp_path: Path) -> None:
    """A lease makes whoever opens the file wait for a minute: as many files as there are, so many minutes."""
    lease = "import fcntl; fcntl.fcntl(open('file', 'w'), fcntl.F_SETLEASE, fcntl.F_WRLCK)"
    assert "not permitted" in run(tmp_path, ["python3", "-c", lease]).err


def test_other_users_files_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    result = run(tmp_path, f"ls -A /home /srv /sys /mnt {tmp_path}; ls -A $HOME; cat {tmp_path}/secret")
    assert result.out.split() == ["/home:", "sandbox"]
    assert "secret: No such file" in result.err


def test_the_etc_holds_no_secrets(tmp_path: Path) -> None:
    found = run(tmp_path, "cd /etc; ls -d shadow ssh sudoers ssl/private pki/tls/private gitconfig; cat passwd")
    assert "shadow" not in found.out.splitlines()
    assert {line.partition(":")[0] for line in found.out.splitlines()} <= {"root", "sandbox", "nobody"}


def test_the_temporary_files_are_its_own(tmp_path: Path) -> None:
    theirs = Path("/tmp", f"proctor-of-the-host-{os.getpid()}")
    ours = Path("/tmp", f"proctor-of-the-sandbox-{os.getpid()}")
    theirs.touch()
    try:
        result = run(tmp_path, f"ls {theirs}; touch {ours} /var/tmp/x /dev/shm/x /run/x $HOME/x && ls {ours}")
    finally:
        theirs.unlink()
    assert result.out == f"{ours}\n"
    assert not ours.exists()


def test_other_processes_are_not_seen(tmp_path: Path) -> None:
    result = run(tmp_path, "ls -d /proc/[0-9]* | wc -l; tr '\\0' '\\n' < /proc/1/environ; cat /proc/1/cmdline")
    count, *rest = result.out.splitlines()
    assert int(count) < 10
    assert [line.partition("=")[0] for line in rest[:-1] if not line.startswith("LD_")] == ["PROCTOR_SANDBOX"]
    assert str(tmp_path) not in result.out


def test_what_enters_cannot_be_looked_at(tmp_path: Path) -> None:
    """Programs that start are the runner's for a moment, with its memory: nobody inside may trace or read them."""
    spy = (
        "import os\n"
        "print('begun', flush=True)\n"
        "while True:\n"
        "    for name in os.listdir('/proc'):\n"
        "        if name.isdigit() and int(name) > 3 and int(name) != os.getpid():\n"
        "            for what in ('environ', 'maps'):\n"
        "                try: text = open(f'/proc/{name}/{what}').read()\n"
        "                except OSError: continue\n"
        "                if '/python' in text: print(f'python-by-{what}')\n"
        "            try: print(os.readlink(f'/proc/{name}/exe'))\n"
        "            except OSError: continue\n"
    )

    async def body(sandbox: BwrapSandbox) -> str:
        begun = asyncio.Event()
        spying = asyncio.ensure_future(sandbox.exec(["python3", "-c", spy], on_output=lambda stream, data: begun.set()))
        await begun.wait()
        for _ in range(20):
            await sandbox.exec(["/bin/true"])
        await sandbox.set_network(Network("full"))  # ends all
        return (await spying).out

    seen = set(use(tmp_path, body).split()) - {"begun"}
    assert not {name for name in seen if "python" in name}


def test_what_needs_rights_is_refused(tmp_path: Path) -> None:
    commands = (
        "mount -t tmpfs none /tmp", "mount -o remount,rw /usr", "umount /usr", "mknod device b 254 0",
        "mknod null c 1 3",
        "unshare -r true", "unshare -m true", "nsenter -t 1 -m true", "chroot /tmp /bin/true", "hostname other",
        "date -s 2001-01-01", "dmesg",
    )  # fmt: skip

    async def body(sandbox: BwrapSandbox) -> None:
        for command in commands:
            assert not (await sandbox.exec(command)).ok, command

    use(tmp_path, body)


def test_there_is_no_way_out_by_the_network(tmp_path: Path) -> None:
    name = f"\0proctor-test-{os.getpid()}"
    with socket.socket() as listening, socket.socket(socket.AF_UNIX) as abstract:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        abstract.bind(name)
        abstract.listen()
        port = listening.getsockname()[1]
        script = (
            "import socket\n"
            f"for family, place in ((2, ('127.0.0.1', {port})), (2, ('192.0.2.1', 80)), (1, {name!r})):\n"
            "    try: socket.socket(family).connect(place)\n"
            "    except OSError as error: print(type(error).__name__, error.errno)\n"
            "    else: print('connected')\n"
        )
        result = run(tmp_path, ["python3", "-c", script])
        assert result.out.splitlines() == [
            "ConnectionRefusedError 111", "OSError 101", "ConnectionRefusedError 111"
        ], result.err  # fmt: skip


def test_the_full_network_is_the_hosts(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        script = f"import socket; socket.create_connection(('127.0.0.1', {listening.getsockname()[1]}))"
        assert run(tmp_path, ["python3", "-c", script], EnvironmentSpec(provider="bwrap")).ok


def test_links_do_not_lead_files_out(tmp_path: Path) -> None:
    """Both ways: what is uploaded and written stays inside, what is read and downloaded comes from inside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("host")

    async def body(sandbox: BwrapSandbox) -> None:
        await sandbox.exec(
            f"ln -s {outside} out; ln -s {outside}/file link; mkdir -p /tmp/{outside.name}; ln -s / root"
        )
        for path in ("out/file", "link", f"root{outside}/file"):
            with pytest.raises(FileNotFoundError):
                await sandbox.read(path)
        with pytest.raises(OSError, match="Read-only"):
            await sandbox.write("root/usr/written", "x")
        assert await sandbox.read("root/etc/nsswitch.conf")
        left_out = await sandbox.download(".", tmp_path / "back")
        assert not left_out
        assert list((tmp_path / "back").iterdir()) == []

    use(tmp_path, body)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "host"


def test_a_sparse_file_comes_out_small_or_not_at_all(tmp_path: Path) -> None:
    async def body(sandbox: BwrapSandbox) -> None:
        await sandbox.exec("truncate -s 10G huge; mkfifo pipe; mkdir deep")
        assert (await sandbox.download(".", tmp_path / "limited", max_bytes=1 << 20)).files == 1
        await sandbox.download(".", tmp_path / "whole")

    use(tmp_path, body)
    assert not (tmp_path / "limited/huge").exists()
    assert (tmp_path / "whole/huge").stat().st_blocks * 512 < 1 << 20


@needs_groups
def test_a_fork_bomb_is_bounded_and_gone(tmp_path: Path) -> None:
    bounded = EnvironmentSpec(provider="bwrap", network=Network("none"), resources=Resources(processes=50))

    async def body(sandbox: BwrapSandbox) -> None:
        result = await sandbox.exec("bomb() { bomb | bomb & }; bomb; sleep 1; echo survived", timeout_seconds=60)
        assert "survived" in result.out or "fork" in result.err.lower()
        groups = [path for path in find_sandbox_roots().groups_of(sandbox.id) if "/pids/" in path or "unified" in path]
        assert groups
        counted = [Path(path, "pids.max").read_text().strip() for path in groups if Path(path, "pids.max").exists()]
        assert counted == ["50"]

    use(tmp_path, body, bounded)


@needs_groups
def test_nothing_inside_is_outside_of_the_limits(tmp_path: Path) -> None:
    """A debugger can make any process start others, also those that are there before the first command."""

    def groups_inside(sandbox: BwrapSandbox) -> list[str]:
        """Of each process, as this machine sees it: inside, paths begin at the group of the first one."""
        live = sandbox._namespaces._live
        assert live is not None
        space, found = os.stat(f"/proc/{live.init}/ns/pid").st_ino, []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/pid").st_ino == space:
                    found.append(Path(f"/proc/{pid}/cgroup").read_text())
            except OSError:  # it has ended
                continue
        return found

    async def body(sandbox: BwrapSandbox) -> None:
        for _ in range(2):
            begun = asyncio.Event()
            running = asyncio.ensure_future(
                sandbox.exec("sleep 3000 & echo; wait", on_output=lambda *_, begun=begun: begun.set())
            )
            await begun.wait()
            found = groups_inside(sandbox)
            assert len(found) >= 4, "the first process, the one that keeps it, the shell, and what that started"
            for groups in found:
                lines = [line for line in groups.splitlines() if ":pids:" in line or line.startswith("0:")]
                assert lines
                assert all(sandbox.id in line for line in lines), groups
            await sandbox.exec("kill -9 2; sleep 60")  # it is started again
            await running

    use(tmp_path, body)


@pytest.mark.skipif(not find_sandbox_roots().limits("memory"), reason="no control groups can be made here")
def test_memory_of_the_whole_sandbox_is_bounded(tmp_path: Path) -> None:
    bounded = EnvironmentSpec(provider="bwrap", network=Network("none"), resources=Resources(memory_bytes=64 << 20))
    result = run(tmp_path, ["python3", "-c", "x = b'x' * (300 << 20)"], bounded)
    assert not result.ok
    assert result.out_of_memory


@pytest.mark.skipif(not find_sandbox_roots().limits("cpu"), reason="no control groups can be made here")
def test_processors_are_bounded(tmp_path: Path) -> None:
    bounded = EnvironmentSpec(provider="bwrap", network=Network("none"), resources=Resources(cpus=0.5))

    async def body(sandbox: BwrapSandbox) -> list[str]:
        await sandbox.exec(["true"])
        return [
            Path(folder, name).read_text().strip()
            for folder in find_sandbox_roots().groups_of(sandbox.id)
            for name in ("cpu.max", "cpu.cfs_quota_us")
            if Path(folder, name).exists()
        ]

    assert use(tmp_path, body, bounded) in (["50000"], ["50000 100000"])


def test_an_agent_cannot_lose_its_sandbox(tmp_path: Path) -> None:
    """Whatever it kills, the next command runs, over the same files: a failure stays a failure."""

    async def body(sandbox: BwrapSandbox) -> None:
        for number, command in enumerate(("kill -9 -1", "kill -9 2; sleep 60", "kill -9 1 2 $$", "kill -TERM -1")):
            await sandbox.exec(f"echo {number} > kept; {command}", timeout_seconds=60)
            assert (await sandbox.exec("cat kept")).out == f"{number}\n"
        assert await sandbox.read("kept") == b"3\n"

    use(tmp_path, body)
