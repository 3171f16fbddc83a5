"""Second and third signals, with everything that does not want to end (spec 10 I1, cases/sbx 112, hang 7)."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins import HOLDS_AFTER, HOLDS_UNTIL
from program import HANG_SECONDS, Ended
from test_interrupts import ours, sealed, wait_until

Process = Callable[..., "subprocess.Popen[str]"]
Proctor = Callable[..., Ended]


def journals(folder: Path) -> list[Path]:
    return list((folder / "results").rglob("journal.jsonl"))


def causes(folder: Path) -> list[str]:
    [journal] = journals(folder)
    return re.findall(r'"type":"Interrupted".*"cause":"([^"]*)"', journal.read_text())


def in_flight(folder: Path, count: int) -> bool:
    return sum(path.read_text().count('"phase":"agent"') for path in journals(folder)) >= count


def all_gone(folder: Path) -> None:
    """Wait until nothing of ours runs: supervisors notice the death of their runner, and end what they watch."""
    end = time.monotonic() + HANG_SECONDS
    while ours(folder):
        assert time.monotonic() < end, ours(folder)
        time.sleep(0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "to_group"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, False)],
)
def test_10_I1_a_second_signal_kills_what_ignores_the_first(
    process: Process, tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    started = process(
        "run", "trivial", "deaf:Hardened", "--set", "harness.params.command=x", "--limit", "3", "--json",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    wait_until(lambda: in_flight(tmp_path, 3) and len(ours(tmp_path)) >= 10, started)
    send = (lambda: os.killpg(started.pid, number)) if to_group else (lambda: started.send_signal(number))
    send()
    wait_until(lambda: len(causes(tmp_path)) == 1, started)
    send()
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 128 + number, err
    ended = Ended(started.returncode, out, err, tmp_path)
    assert "Traceback" not in err
    assert f"{number.name} again: clean-up is cut short, what is left is killed" in err
    assert causes(tmp_path) == [number.name, f"{number.name} again: clean-up is cut short, what is left is killed"]
    [run] = ended.receipt["runs"]
    assert run["counts"]["cancelled"] == 3
    assert json.loads((ended.run_dir / "summary.json").read_text()) == run
    assert journals(tmp_path)[0].read_text().splitlines()[-1].count('"RunEnded"') == 1
    assert not list(tmp_path.glob("proctor-*/*/*")), "no sandbox is left"
    all_gone(tmp_path)


@pytest.mark.long
def test_10_I1_sandboxes_that_do_not_go_are_listed_with_a_command_that_removes_them(
    process: Process, tmp_path: Path
) -> None:
    started = process(
        "run", "trivial", "plugins:Sleeper", "--env", "deaf:StuckSandboxes", "--limit", "2",
        "--set", "harness.params.command=sleep 3600",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    wait_until(lambda: in_flight(tmp_path, 2), started)
    started.send_signal(signal.SIGINT)
    wait_until(lambda: len(causes(tmp_path)) == 1, started)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    assert re.search(r"\d WARNING dispose.failed", err), "of the sandboxes, and of sessions that were not waited for"
    assert "could not be closed" not in err
    assert "warning: 2 sandboxes may be left:" in err
    left = list(tmp_path.glob("proctor-*/stuck-*"))
    assert len(left) == 2
    for command in re.findall("remove it with `proctor (.*)`", err):
        stopped = process(*shlex.split(command), env={**os.environ, "TMPDIR": str(tmp_path)})
        assert stopped.communicate(timeout=HANG_SECONDS)[0].startswith("removed stuck-")
    assert not [folder for folder in left if folder.exists()]
    all_gone(tmp_path)


def test_10_I1_a_third_signal_exits_now_with_a_journal_that_can_be_read(
    process: Process, proctor: Proctor, tmp_path: Path
) -> None:
    started = process(
        "run", "trivial", "plugins:Sleeper", "--env", "deaf:StuckSandboxes", "--limit", "2",
        "--set", "harness.params.command=sleep 3600",
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    wait_until(lambda: in_flight(tmp_path, 2), started)
    for count in (1, 2):
        started.send_signal(signal.SIGTERM)
        wait_until(lambda count=count: len(causes(tmp_path)) == count, started)
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 143, err
    assert "error: left at once, without cleaning up" in err
    assert err.count("remove it with `proctor sandbox stop ") == 2
    [journal] = journals(tmp_path)
    assert not (journal.parent / "summary.json").exists(), "it did not wait for that"
    shown = proctor("show", str(journal.parent), "--json")
    assert shown.code == 0
    assert len(json.loads(shown.out)["attempts"]) == 2
    assert "it was stopping because of SIGTERM" in shown.err
    all_gone(tmp_path)


@pytest.mark.long
def test_10_I1_signals_are_heard_while_something_holds_the_event_loop(process: Process, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    started = process("run", "trivial", "deaf:Blocking", "--set", f"harness.params.trace={trace}", "--limit", "1")
    wait_until(trace.exists, started)
    for _ in range(3):
        started.send_signal(signal.SIGINT)
        os.sched_yield()
    # Signals that come in the same moment are one: more follow until it has ended.
    while started.poll() is None:
        try:
            started.wait(0.2)
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err


@pytest.mark.long
def test_10_I1_a_terminal_that_goes_away_is_a_first_interrupt(tmp_path: Path, environment: None) -> None:
    import pty

    arguments = ["run", "trivial", "plugins:Sleeper", "--set", "harness.params.command=sleep 3600", "--limit", "2"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ["TMPDIR"] = str(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "proctor", *arguments])
    while not in_flight(tmp_path, 2):
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 129
    [journal] = journals(tmp_path)
    assert causes(tmp_path) == ["SIGHUP"]
    summary = json.loads((journal.parent / "summary.json").read_text())
    assert summary["counts"]["cancelled"] == 2
    assert not list(tmp_path.glob("proctor-*/*/*"))
    all_gone(tmp_path)


@pytest.mark.long
def test_10_I1_a_signal_that_the_process_was_told_to_ignore_is_ignored(process: Process, tmp_path: Path) -> None:
    started = process(
        "run", "trivial", "plugins:Sleeper", "--limit", "2",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        env={**os.environ, HOLDS_AFTER: "0", HOLDS_UNTIL: str(tmp_path / "go")},
    )  # fmt: skip
    wait_until(lambda: in_flight(tmp_path, 2), started)
    started.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 0, err


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_10_I4_a_pipe_that_nobody_reads_does_not_hold_the_exit(process: Process, tmp_path: Path, times: int) -> None:
    import fcntl
    import struct
    import termios

    started = process(
        "run", "trivial", "plugins:Sleeper", "--json", "--set", "benchmark.params.tasks=20000",
        "--set", "harness.params.seconds=0.01",
    )  # fmt: skip
    assert started.stdout is not None
    pipe = started.stdout.fileno()
    seen = [0, 0]

    def is_full() -> bool:
        """Whether it holds what it did many attempts ago."""
        [held] = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"0000"))
        count = sealed(tmp_path)
        if held != seen[0]:
            seen[:] = held, count
        return held > 10_000 and count > seen[1] + 100

    wait_until(is_full, started)
    started.send_signal(signal.SIGINT)
    wait_until(lambda: len(causes(tmp_path)) == 1, started)
    if times == 2:  # it waits for the reader by now, and then waits less
        started.send_signal(signal.SIGINT)
    assert started.wait(HANG_SECONDS) == 130
    assert started.stderr is not None
    err = started.stderr.read()
    assert "could not write to standard output: nobody reads it" in err
    [journal] = journals(tmp_path)
    assert journal.read_text().splitlines()[-1].count('"RunEnded"') == 1
    assert (journal.parent / "summary.json").exists()
    started.communicate()


HELD = """
import asyncio, signal, threading
from proctor.cli import interrupts

interrupts.FORCED_EXIT_SECONDS = 0.1
taking = interrupts.Interrupts(signals=True)
taking.lines = lambda: ["what may be left"]

async def main():
    with taking.taken():
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if {closing}:
            taking.detach()
        if {ends}:
            taking.end()
            return
        threading.Event().wait()  # nothing on the event loop goes on any more

asyncio.run(main())
print("ended by itself")
"""


@pytest.mark.parametrize(
    ("closing", "ends", "code"), [(False, False, 143), (True, False, 143), (False, True, 0), (True, True, 0)]
)
def test_10_I1_a_forced_end_comes_also_where_the_event_loop_does_not_go_on(
    closing: bool, ends: bool, code: int
) -> None:
    script = HELD.format(closing=closing, ends=ends)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert done.returncode == code, done.stderr
    said = "" if ends else "error: left at once, without cleaning up; what is finished is kept\nwhat may be left\n"
    assert done.stderr == said
