"""Signals and hard death: what is finished stays, nothing runs on, the journal is readable (spec 08 D1, 10)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins import HOLDS_AFTER
from program import HANG_SECONDS, Ended

Process = Callable[..., "subprocess.Popen[str]"]
Proctor = Callable[..., Ended]

SLOW = [
    "run", "trivial", "plugins:Sleeper", "--task-concurrency", "2", "--set", "benchmark.params.tasks=40",
    "--set", "harness.params.seconds=0.2", "--set", "harness.params.command=sleep 0.05 & sleep 0.05",
]  # fmt: skip


def held(folder: Path) -> dict[str, str]:
    """An environment in which the run does not end before the signal comes."""
    return {**os.environ, "TMPDIR": str(folder), HOLDS_AFTER: "5"}


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def sealed(folder: Path) -> int:
    return sum(path.read_text().count('"AttemptSealed"') for path in (folder / "results").rglob("journal.jsonl"))


def ours(folder: Path) -> list[str]:
    """Command lines of live processes that work in `folder` or in a sandbox of a proctor started there."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in environment and command:
                found.append(command.replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_10_I1_a_signal_stops_dispatch_keeps_what_is_finished_and_sums_up(
    process: Process, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    started = process(*SLOW, "--json", env=held(tmp_path))
    wait_until(lambda: sealed(tmp_path) >= 2, started)
    started.send_signal(number)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == code
    ended = Ended(code, out, err, tmp_path)
    [run] = ended.receipt["runs"]
    counts = run["counts"]
    assert counts["passed"] >= 2
    assert counts["cancelled"] <= 2
    assert counts["passed"] + counts["cancelled"] + counts["not_dispatched"]["interrupt"] == 40
    assert "incomplete" in run["headline"]
    assert run["completion"] == "interrupted"
    assert f"interrupted by {number.name}: attempts in flight are being cancelled" in err
    assert f"stopping: {number.name}" in (ended.run_dir / "run.log").read_text()
    missing, hint = err.splitlines()[-2:]
    assert missing.startswith(f"missing: {40 - counts['passed']} attempts of ")
    assert hint.startswith("hint: to run what is missing: proctor run ")
    assert hint.endswith(" --reuse")
    assert json.loads((ended.run_dir / "summary.json").read_text()) == run
    assert ours(tmp_path) == []
    assert not list(tmp_path.glob("proctor-*/*/*")), "no sandbox is left"


def test_10_I2_kill_9_leaves_a_readable_journal_and_no_process(
    process: Process, proctor: Proctor, tmp_path: Path
) -> None:
    started = process(*SLOW, env=held(tmp_path))
    shown: list[str] = []
    assert started.stderr is not None
    while len([line for line in shown if " passed " in line]) < 3:
        shown.append(started.stderr.readline())
        assert shown[-1]
    started.kill()
    started.communicate(timeout=HANG_SECONDS)
    end = time.monotonic() + HANG_SECONDS
    while ours(tmp_path):  # supervisors notice the death of their runner and end what they watch
        assert time.monotonic() < end, ours(tmp_path)
        time.sleep(0.01)
    [run_dir] = [path.parent for path in (tmp_path / "results").rglob("journal.jsonl")]
    ended = proctor("show", run_dir, "--json")
    assert ended.code == 0
    assert "warning: the run ended without a trace: process " in ended.err
    data = json.loads(ended.out)
    assert data["counts"]["passed"] >= 3, "what was shown as done is there"
    assert data["completion"] is None
    passed = {row["task"] for row in data["attempts"] if row["verdict"] == "passed"}
    for line in shown:
        if " passed " in line:
            assert line.split()[-3] in passed


@pytest.mark.long
def test_a_reader_that_goes_away_does_not_break_the_run(process: Process, tmp_path: Path) -> None:
    started = process("run", "trivial", "nop", "--json", "--set", "benchmark.params.tasks=2000")
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.readline()
    started.stdout.close()
    err = started.stderr.read()
    started.stderr.close()
    assert started.wait(HANG_SECONDS) in (0, 3)
    assert "Traceback" not in err
    [run_dir] = [path.parent for path in (tmp_path / "results").rglob("journal.jsonl")]
    assert json.loads((run_dir / "summary.json").read_text())["counts"]["failed"] == 2000
