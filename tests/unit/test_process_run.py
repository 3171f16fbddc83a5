"""One command under its supervisor: results, input, output, limits (spec 06)."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proctor.plugins.api import ExecLimits, ExecResult
from proctor.runtime import command as command_module
from proctor.runtime._killing import parents, read_text
from proctor.runtime.cgroup import NO_CGROUPS, CgroupRoots, find_roots
from proctor.runtime.process import Processes, find_processes

HANG_SECONDS = 60
"""No test here takes that long unless something hangs."""
ENV = {"PATH": os.path.dirname(getattr(sys, "_base_executable", sys.executable)) + ":/usr/bin:/bin"}
PYTHON = "python3"


def with_processes(use: Callable[[Processes], Awaitable[Any]], **options: Any) -> Any:
    """Run `use` and make sure that nothing is left."""

    async def scenario() -> Any:
        processes = Processes(f"test-{os.getpid()}", grace_seconds=0.3, **options)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await use(processes)
        finally:
            await processes.kill()
            assert find_processes(processes.name) == set()

    return asyncio.run(scenario())


def run(*argv: str, cgroups: CgroupRoots | None = None, **options: Any) -> ExecResult:
    options = {"cwd": "/", "env": ENV, **options}
    return with_processes(lambda processes: processes.run(argv, **options), cgroups=cgroups)


def shell(script: str, **options: Any) -> ExecResult:
    return run("sh", "-c", script, **options)


def why(result: ExecResult) -> dict[str, Any]:
    """Every reason that a result gives for its end; there is always exactly one."""
    reasons = {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out or None,
        "output_exceeded": result.output_exceeded or None,
        "lost": result.lost,
    }
    return {name: value for name, value in reasons.items() if value is not None}


@pytest.mark.parametrize("code", [0, 1, 124, 137, 255])
def test_the_status_of_a_command_is_its_own_and_no_timeout(code: int) -> None:  # case 102
    assert why(shell(f"exit {code}", timeout_seconds=30)) == {"exit_code": code}


@pytest.mark.parametrize("signal", [2, 9, 11, 15])
def test_a_command_ended_by_a_signal_has_no_status(signal: int) -> None:
    assert why(shell(f"kill -{signal} $$")) == {"signal": signal}


def test_a_time_limit_is_reported_as_nothing_else() -> None:
    result = shell("echo begun; exec sleep 1000", timeout_seconds=1)
    assert why(result) == {"timed_out": True}
    assert result.stdout == b"begun\n"


def test_standard_input_is_at_its_end_from_the_start() -> None:  # case 11
    assert why(shell("read line; echo $?; cat")) == {"exit_code": 0}


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_standard_input_given_arrives_whole(size: int) -> None:
    data = os.urandom(size)
    assert run("cat", stdin=data).stdout == data


def test_standard_input_that_is_not_read_does_no_harm() -> None:
    assert why(run("true", stdin=b"x" * 1_000_000)) == {"exit_code": 0}


def test_only_what_is_given_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:  # case 175
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    names = {line.partition("=")[0] for line in run("env", env={**ENV, "GIVEN": "yes"}).out.splitlines()}
    assert names == {"PATH", "GIVEN", "PROCTOR_SANDBOX", "PROCTOR_COMMAND"}


def test_foreign_bytes_are_kept_as_they_are() -> None:  # case 123
    result = shell(r"printf '\377\000\200x'; printf '\303\050' >&2")
    assert result.stdout == b"\xff\x00\x80x"
    assert result.stderr == b"\xc3("
    assert "�" in result.out


def test_two_streams_stay_apart_and_whole() -> None:
    result = shell("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.truncated) == (b"out\n", b"err\n", False)


def test_output_beyond_what_is_kept_is_counted() -> None:  # case 121
    size = 50_000_000
    result = shell(f"printf begin; head -c {size} /dev/zero; printf end", keep_bytes=1000)
    assert len(result.stdout) == 1000
    assert result.stdout.startswith(b"begin")
    assert result.stdout.endswith(b"end")
    assert result.stdout_dropped == size + 8 - 1000


def test_output_is_told_as_it_comes() -> None:
    pieces: list[tuple[str, bytes]] = []
    shell("echo one; echo two >&2", on_output=lambda name, data: pieces.append((name, data)))
    assert sorted(pieces) == [("stderr", b"two\n"), ("stdout", b"one\n")]


def test_an_observer_that_fails_ends_the_command_and_is_heard() -> None:
    def fail(name: str, data: bytes) -> None:
        raise RuntimeError("observer")

    with pytest.raises(RuntimeError, match="observer"):
        shell("echo x; exec sleep 1000", on_output=fail)


@pytest.mark.parametrize(
    ("argv", "options", "code", "message"),
    [
        (["no-such-program"], {}, 127, "proctor: cannot run 'no-such-program': not found on PATH\n"),
        (["/no/such"], {}, 127, "proctor: cannot run '/no/such': No such file or directory\n"),
        (["/etc/passwd"], {}, 126, "proctor: cannot run '/etc/passwd': Permission denied\n"),
        (["true"], {"cwd": "/no/such"}, 126, "proctor: cannot enter '/no/such': No such file or directory\n"),
    ],
)
def test_a_command_that_cannot_start_says_why(argv: list[str], options: Any, code: int, message: str) -> None:
    result = run(*argv, **options)
    assert (result.exit_code, result.err) == (code, message)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_numbers_that_are_no_limits_are_refused(value: float) -> None:  # case 100
    with pytest.raises(ValueError, match="timeout_seconds"):
        run("true", timeout_seconds=value)
    with pytest.raises(ValueError, match="memory_bytes"):
        run("true", limits=ExecLimits(memory_bytes=value))  # type: ignore[arg-type]


@pytest.mark.parametrize("argv", [[], [""], ["echo", "a\0b"]])
def test_commands_that_are_none_are_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="command"):
        run(*argv)


@pytest.mark.parametrize("name", ["", "A=B"])
def test_variables_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="variable"):
        run("true", env={name: "x"})


def test_foreign_names_pass_through() -> None:
    text = os.fsdecode(b"\xff\xfe") + "é"
    assert run("printenv", "X", env={**ENV, "X": text}).stdout == os.fsencode(text) + b"\n"


def test_too_much_output_ends_the_command() -> None:
    result = run("yes", limits=ExecLimits(output_bytes=100_000), keep_bytes=1000)
    assert why(result) == {"output_exceeded": True}
    assert len(result.stdout) == 1000


def test_too_much_output_counts_even_if_the_command_was_faster() -> None:
    assert why(shell("printf 12345", limits=ExecLimits(output_bytes=4))) == {"output_exceeded": True}
    assert why(shell("printf 1234", limits=ExecLimits(output_bytes=4))) == {"exit_code": 0}


HOG = "b = []\nwhile True: b.append(bytearray(1 << 20))"


def test_memory_is_limited() -> None:
    result = run(PYTHON, "-I", "-S", "-c", HOG, limits=ExecLimits(memory_bytes=256 << 20), timeout_seconds=50)
    assert result.exit_code == 1
    assert "MemoryError" in result.err


@pytest.mark.skipif(not find_roots().memory, reason="needs a memory control group that can be written")
def test_memory_of_all_processes_together_is_limited_where_the_host_can() -> None:
    hold = "b = bytearray(b'x' * (1 << 20)) * 60; input()"
    together = (
        "import subprocess, sys, os\n"
        f"for _ in range(4): subprocess.Popen([sys.executable, '-I', '-S', '-c', {hold!r}], stdin=subprocess.PIPE)\n"
        "os.wait()\n"  # only what is killed ends before the end of its input, which is that of this program
    )
    assert run(PYTHON, "-I", "-c", together, limits=ExecLimits(memory_bytes=120 << 20)).out_of_memory


SLEEPERS = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done; wait"


@pytest.mark.skipif(not find_roots().pids, reason="needs a control group for processes that can be written")
def test_processes_are_limited_by_the_kernel_where_it_can() -> None:
    result = shell(SLEEPERS, limits=ExecLimits(processes=8), timeout_seconds=30)
    assert result.exit_code == 2
    assert "fork" in result.err.lower()


def test_processes_are_limited_by_counting_where_the_kernel_cannot() -> None:
    result = shell(SLEEPERS, limits=ExecLimits(processes=8), cgroups=NO_CGROUPS, timeout_seconds=50)
    assert not result.ok
    assert not result.timed_out


def test_the_size_of_files_is_limited(tmp_path: Any) -> None:
    result = shell("head -c 100000 /dev/zero > big", cwd=str(tmp_path), limits=ExecLimits(file_bytes=1000))
    assert not result.ok
    assert (tmp_path / "big").stat().st_size == 1000


def test_no_core_is_dumped() -> None:
    assert shell("ulimit -c").out == "0\n"


def test_a_host_out_of_memory_takes_the_command_before_proctor() -> None:
    assert shell("cat /proc/self/oom_score_adj").out == "500\n"


def test_many_commands_at_once() -> None:
    async def use(processes: Processes) -> list[bytes]:
        results = await asyncio.gather(
            *(processes.run(["sh", "-c", f"echo {number}"], cwd="/", env=ENV) for number in range(20))
        )
        return [result.stdout for result in results]

    assert with_processes(use) == [b"%d\n" % number for number in range(20)]


def test_nothing_is_left_of_commands_that_ended() -> None:  # case 118
    async def use(processes: Processes) -> None:
        await processes.run(["true"], cwd="/", env=ENV)  # with it comes what stays: the spawner
        await ended(processes)
        known, before = _children(), len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await processes.run(["true"], cwd="/", env=ENV)
        await ended(processes)
        own = {pid for pid in _children() - known if b"PROCTOR" in _environment(pid) or _is_zombie(pid)}
        assert (own, len(os.listdir("/proc/self/fd")) - before) == (set(), 0)

    async def ended(processes: Processes) -> None:
        """Supervisors have told how their command ended a moment before they are gone themselves."""
        while processes._commands:
            await asyncio.sleep(0.01)

    with_processes(use)


def _children() -> set[int]:
    return {pid for pid, parent in parents().items() if parent == os.getpid()}


def _is_zombie(pid: int) -> bool:
    return ") Z " in read_text(f"/proc/{pid}/stat")


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_orphans_are_reaped_while_the_command_runs() -> None:  # case 118
    orphans = "i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done; echo done"
    result = shell(orphans, limits=ExecLimits(processes=150), timeout_seconds=50)
    assert result.out == "done\n", result.err


def test_what_was_used_is_told() -> None:
    async def use(processes: Processes) -> tuple[float, int]:
        await processes.run([PYTHON, "-I", "-S", "-c", "sum(range(10**6))"], cwd="/", env=ENV)
        return processes.cpu_seconds, processes.peak_rss_bytes

    cpu_seconds, peak_rss_bytes = with_processes(use)
    assert cpu_seconds > 0
    assert peak_rss_bytes > 1_000_000


def test_it_works_without_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(command_module, "REAP_SECONDS", 0.001)
    assert why(shell("echo x; exit 3")) == {"exit_code": 3}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 101])
def test_a_name_that_could_not_be_a_directory_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name processes"):
        Processes(name)
