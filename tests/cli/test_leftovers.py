"""What is missing after an interrupt, and what may be left: the last lines can be used as they are (spec 10 I1)."""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from program import HANG_SECONDS, Ended

from proctor.cli.leftovers import _without, sandbox_lines

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]

OPTIONS = [
    "--set", "benchmark.params.tasks=12", "--set", "harness.params.seconds=0.05", "--task-concurrency", "2",
]  # fmt: skip


def last_command(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.startswith("hint: to run ")]
    return line.partition(": proctor ")[2]


def interrupted(process: Process, tmp_path: Path, *arguments: str, after: int) -> str:
    """Run, interrupt once `after` attempts have passed, and return what was said."""
    started = process(*arguments)
    assert started.stderr is not None
    said = ""
    while "PLAN" not in said or said.count(" passed ") < after:
        line = started.stderr.readline()
        assert line, said
        said += line
    started.send_signal(signal.SIGINT)
    _, rest = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, said + rest
    return said + rest


FORMS = {
    12: ["run"],
    11: ["run", "--limit", "11", "--run-id", "mine"],
    3: ["run", "--tasks=t0000,t0003,t0007"],
}
"""How it may be asked for so many tasks."""


@pytest.mark.parametrize("asked", FORMS)
def test_10_I1_the_last_line_runs_what_is_missing(
    process: Process, proctor: Proctor, tmp_path: Path, asked: int
) -> None:
    said = interrupted(process, tmp_path, *FORMS[asked], "trivial", "plugins:Sleeper", *OPTIONS, after=1)
    command = last_command(said)
    [run_dir] = [path.parent for path in tmp_path.rglob("journal.jsonl")]
    again = proctor(*shlex.split(command))
    assert again.code == 0
    [other] = [path.parent for path in tmp_path.rglob("journal.jsonl") if path.parent != run_dir]
    passed = [passed_in(directory) for directory in (run_dir, other)]
    assert not passed[0] & passed[1], "nothing is run twice"
    assert len(passed[0] | passed[1]) == asked


def passed_in(directory: Path) -> set[str]:
    from proctor.model.attempt import Verdict
    from proctor.model.events import AttemptSealed
    from proctor.store.reader import read_journal

    events = [event for event, _ in read_journal(directory / "journal.jsonl")]
    return {event.task for event in events if isinstance(event, AttemptSealed) and event.verdict is Verdict.PASSED}


def test_10_I1_many_missing_tasks_are_taken_from_a_file(process: Process, tmp_path: Path) -> None:
    many = [option.replace("=12", "=600") for option in OPTIONS]
    said = interrupted(process, tmp_path, "run", "trivial", "plugins:Sleeper", *many, after=1)
    command = last_command(said)
    [file] = tmp_path.rglob("missing-tasks.txt")
    assert str(file.relative_to(tmp_path)) in command
    assert len(command) < 400
    shown = subprocess.run(
        ["sh", "-c", f'printf "%s\\n" {command}'], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    words = shown.stdout.splitlines()
    tasks = words[words.index("--tasks") + 1].split(",")
    assert len(tasks) >= 590
    assert set(tasks).isdisjoint(passed_in(file.parent))


def test_10_I1_where_everything_is_missing_the_command_is_the_one_that_was_typed(
    process: Process, tmp_path: Path
) -> None:
    typed = ["run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=60", "--limit", "3"]
    said = interrupted(process, tmp_path, *typed, after=0)
    assert shlex.split(last_command(said)) == typed
    assert "missing: 3 attempts of 3 tasks" in said


def test_a_run_that_was_not_interrupted_misses_nothing(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--limit", "3", "--set", "harness.params.every=2")
    assert ended.code == 3
    assert "missing" not in ended.err


def test_options_are_taken_out_in_every_form() -> None:
    words = ["b", "--tasks", "a", "--tasks=b,c", "--limit", "3", "--run-id", "x", "--set", "a=b", "--", "--x"]
    assert _without(words, ("--tasks", "--limit", "--run-id")) == ["b", "--set", "a=b", "--", "--x"]


def test_sandboxes_that_may_be_left_are_listed_with_what_removes_them() -> None:
    local = SimpleNamespace(name="local", removal_command="rm -rf /base/{}")
    rooms: Any = {
        "e": SimpleNamespace(resolved=SimpleNamespace(provider=local), labels={"invocation": "abc"}),
        "f": SimpleNamespace(resolved=SimpleNamespace(provider=SimpleNamespace(name="cloud")), labels={}),
    }
    assert sandbox_lines([], rooms) == []
    assert sandbox_lines([("local-1", "e"), ("box", "f")], rooms) == [
        "warning: 2 sandboxes may be left:",
        "  local-1: remove it with `rm -rf /base/local-1`",
        "  box: remove it at cloud",
    ]
    many = sandbox_lines([(f"local-{number}", "e") for number in range(50)], rooms)
    assert len(many) == 22
    assert many[-1] == "  and 30 more, with the label invocation=abc"
