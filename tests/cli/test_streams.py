"""Standard streams that are closed, full, or lead to nobody: real processes, as shells start them (spec 02, 10 I4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, Ended

Proctor = Callable[..., Ended]
NO_SPACE = "error: could not write to standard output: no space left on device"


def start(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "proctor", *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=HANG_SECONDS, stdin=subprocess.DEVNULL, **options)


def start_in_shell(redirections: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", f'exec "$0" -m proctor "$@" {redirections}', sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=HANG_SECONDS, **options)


@pytest.fixture
def nobody() -> Iterator[int]:
    """The writing end of a pipe whose reader is gone."""
    reads, writes = os.pipe()
    os.close(reads)
    yield writes
    os.close(writes)


@pytest.fixture
def run_dir(proctor: Proctor) -> Path:
    """A run that is to be shown."""
    return proctor("run", "trivial", "oracle", "--limit", "3").run_dir


@pytest.fixture
def damaged(run_dir: Path) -> Path:
    """A run whose journal has lost its first line."""
    journal = run_dir / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[1:]))
    return run_dir


QUIET: dict[str, tuple[list[str], int]] = {
    "help": (["--help"], 0),
    "help of a command": (["run", "--help"], 0),
    "version": (["--version"], 0),
    "list": (["list"], 0),
    "list as json": (["list", "--json"], 0),
    "plan": (["plan", "trivial", "oracle"], 0),
    "plan as json": (["plan", "trivial", "oracle", "--json"], 0),
    "help of plan": (["plan", "--help"], 0),
    "lease list": (["lease", "list", "--json"], 0),
    "help of lease": (["lease", "--help"], 0),
    "help of lease recover": (["lease", "recover", "--help"], 0),
    "no arguments": ([], 2),
    "unknown command": (["rnu"], 2),
    "check": (["check", "trivial", "--limit", "2"], 0),
    "check as json": (["check", "trivial", "--limit", "2", "--json"], 0),
    "check that fails": (["check", "plugins:Gradeable", "--set", "benchmark.params.broken=free"], 1),
    "run": (["run", "trivial", "oracle", "--limit", "2"], 0),
    "run as json": (["run", "trivial", "oracle", "--limit", "2", "--json"], 0),
    "gate": (["run", "trivial", "nop", "--limit", "2", "--fail-under", "1"], 1),
}


@pytest.mark.sampled
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("name", "buffered"), [*((name, True) for name in QUIET), ("help", False), ("list", False), ("check", False)]
)
def test_a_reader_that_is_gone_changes_no_exit_code(
    name: str, buffered: bool, nobody: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    arguments, code = QUIET[name]
    ended = start(*arguments, cwd=tmp_path, stdout=nobody, stderr=subprocess.PIPE)
    assert ended.returncode == code, ended.stderr.decode()
    for word in (b"Traceback", b"BrokenPipe", b"Exception ignored"):
        assert word not in ended.stderr


@pytest.mark.sampled
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ["help", "unknown command", "no arguments", "check that fails", "run as json"])
def test_two_readers_that_are_gone_change_no_exit_code(name: str, nobody: int, tmp_path: Path) -> None:
    arguments, code = QUIET[name]
    assert start(*arguments, cwd=tmp_path, stdout=nobody, stderr=nobody).returncode == code


@pytest.mark.sampled
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("name", "redirections"),
    [
        ("help", ">&-"),
        ("list", ">&- 2>&-"),
        ("unknown command", "2>&-"),
        ("no arguments", "2>&-"),
        ("check that fails", "<&- >&- 2>&-"),
        ("run as json", ">&-"),
        ("run as json", ">&- 2>&-"),
    ],
)
def test_closed_streams_change_no_exit_code(name: str, redirections: str, tmp_path: Path) -> None:
    arguments, code = QUIET[name]
    ended = start_in_shell(redirections, *arguments, cwd=tmp_path, capture_output=True)
    assert ended.returncode == code, ended.stderr.decode()
    assert b"Traceback" not in ended.stderr
    if name == "unknown command":
        assert b"rnu" not in ended.stdout, "prose does not go to standard output because standard error is closed"


@pytest.mark.long
@pytest.mark.usefixtures("environment")
def test_files_do_not_get_the_numbers_of_closed_streams(tmp_path: Path) -> None:
    """Else what a library prints would stand in the middle of a journal."""
    start_in_shell("<&- >&- 2>&-", "run", "trivial", "odd_plugins:Looking", "--limit", "1", cwd=tmp_path)
    [answer] = tmp_path.rglob("answer.txt")
    assert answer.read_text() == "/dev/null /dev/null /dev/null"


@pytest.mark.usefixtures("environment")
def test_show_goes_quiet_and_keeps_its_exit_code(run_dir: Path, nobody: int) -> None:
    for arguments in ([], ["--json"]):
        ended = start("show", run_dir, *arguments, stdout=nobody, stderr=subprocess.PIPE)
        assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.usefixtures("environment")
def test_show_of_a_damaged_journal_exits_3_also_when_nobody_reads(damaged: Path, nobody: int) -> None:
    assert start("show", damaged, stdout=nobody, stderr=nobody).returncode == 3


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"], ["run", "--help"], ["--version"]])
def test_a_full_disk_under_standard_output_is_said(arguments: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        ended = start(*arguments, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 3
    error, hint = ended.stderr.decode().splitlines()
    assert error == NO_SPACE
    assert hint.startswith("hint: ")


@pytest.mark.long
@pytest.mark.usefixtures("environment")
def test_a_full_disk_under_standard_output_of_show_and_check_is_said(run_dir: Path, tmp_path: Path) -> None:
    for arguments in (["show", run_dir], ["show", run_dir, "--json"], ["check", "trivial", "--limit", "2"]):
        with open("/dev/full", "wb") as full:
            ended = start(*arguments, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
        assert ended.returncode == 3
        assert NO_SPACE in ended.stderr.decode().splitlines()


@pytest.mark.usefixtures("environment")
def test_a_full_disk_under_both_streams_is_no_crash(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        assert start("list", cwd=tmp_path, stdout=full, stderr=full).returncode == 3
        assert start("rnu", cwd=tmp_path, stdout=full, stderr=full).returncode == 2


@pytest.mark.sampled
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_encoding_of_the_terminal_will_do(run_dir: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    elsewhere = run_dir.rename(run_dir.with_name("日本\udcff"))
    for arguments in (["show", elsewhere], ["show", elsewhere, "--json"], ["--help"]):
        ended = start(*arguments, capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b"")
        ended.stdout.decode(encoding)
    assert json.loads(start("show", elsewhere, "--json", capture_output=True).stdout)["directory"] == str(elsewhere)


def strictly(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key stands twice: {keys}"
    return dict(pairs)


@pytest.mark.parametrize("command", [["run", "trivial", "oracle"], ["check", "trivial"]])
def test_07_every_line_of_json_is_strict(proctor: Proctor, command: list[str]) -> None:
    ended = proctor(*command, "--limit", "2", "--json")
    assert ended.code == 0
    lines = [json.loads(line, object_pairs_hook=strictly) for line in ended.out.splitlines()]
    types = {line["type"] for line in lines}
    assert {"plan", "RunStarted", "AttemptSealed", "RunEnded", "receipt"} <= types
    assert all("experiment" in line for line in lines if line["type"] not in ("plan", "receipt"))
