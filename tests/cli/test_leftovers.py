"""What is missing after an interrupt, and what may be left: the last lines can be used as they are (spec 10 I1)."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugins import HOLDS_AFTER
from program import HANG_SECONDS, Ended

from proctor.cli.leftovers import _without, _without_tied, kept_lines, sandbox_lines
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import Purpose, SandboxKept
from proctor.model.spec import Component, Experiment

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]

OPTIONS = [
    "--set", "benchmark.params.tasks=12", "--set", "harness.params.seconds=0.05", "--task-concurrency", "2",
]  # fmt: skip

NONE = Component("none")
CLOUD = EnvironmentSpec("cloud")


def last_command(err: str) -> str:
    [line] = [line for line in err.splitlines() if line.startswith("hint: to run ")]
    return line.partition(": proctor ")[2]


def interrupted(process: Process, tmp_path: Path, *arguments: str, after: int) -> str:
    """Run, interrupt once `after` attempts have passed, and return what was said."""
    started = process(*arguments, env={**os.environ, HOLDS_AFTER: str(after)})
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


@pytest.mark.sampled
@pytest.mark.parametrize("asked", FORMS)
def test_10_I1_the_last_line_runs_what_is_missing(
    process: Process, proctor: Proctor, tmp_path: Path, asked: int
) -> None:
    typed = [*FORMS[asked], "trivial", "plugins:Sleeper", *OPTIONS]
    said = interrupted(process, tmp_path, *typed, after=1)
    command = shlex.split(last_command(said))
    assert command == [word for word in typed if word not in ("--run-id", "mine")] + ["--reuse"]
    [run_dir] = [path.parent for path in tmp_path.rglob("journal.jsonl")]
    again = proctor(*command)
    assert again.code == 0
    [other] = [path.parent for path in tmp_path.rglob("journal.jsonl") if path.parent != run_dir]
    passed = [passed_in(directory) for directory in (run_dir, other)]
    assert not passed[0] & passed[1], "nothing is run twice"
    assert len(passed[0] | passed[1]) == asked
    assert f"100.0% ({asked}/{asked} passed)" in again.err


@pytest.mark.sampled
@pytest.mark.parametrize("option", [["--rerun", "all"], ["--rerun=all"]], ids=" ".join)
def test_10_I1_what_was_to_be_made_again_and_is_not_yet_is_still_made_again(
    process: Process, proctor: Proctor, tmp_path: Path, option: list[str]
) -> None:
    typed = ["run", "trivial", "plugins:Sleeper", *OPTIONS]
    assert proctor(*typed, "--run-id", "first").code == 0
    said = interrupted(process, tmp_path, *typed, "--reuse", *option, "--run-id=second", after=1)
    command = last_command(said)
    assert shlex.split(command) == [*typed, "--reuse=second"]
    again = proctor(*shlex.split(command), "--run-id", "third")
    assert again.code == 0
    [second] = tmp_path.rglob("second")
    [third] = tmp_path.rglob("third")
    assert not passed_in(second) & passed_in(third)
    assert len(passed_in(second) | passed_in(third)) == 12, "nothing of the first run came back"


@pytest.mark.long
def test_10_I1_what_was_reused_is_not_missing(process: Process, proctor: Proctor, tmp_path: Path) -> None:
    typed = ["run", "trivial", "plugins:Sleeper", *OPTIONS]
    assert proctor(*typed, "--limit", "5").code == 0
    said = interrupted(process, tmp_path, *typed, "--reuse", after=1)
    missing = next(line for line in said.splitlines() if line.startswith("missing: "))
    number = int(missing.split()[1])
    assert number <= 6
    assert f"missing: {number} attempt" in missing
    assert f" of {number} task" in missing
    assert shlex.split(last_command(said)) == [*typed, "--reuse"]


def passed_in(directory: Path) -> set[str]:
    from proctor.model.attempt import Verdict
    from proctor.model.events import AttemptSealed
    from proctor.store.reader import read_journal

    events = [event for event, _ in read_journal(directory / "journal.jsonl")]
    return {event.task for event in events if isinstance(event, AttemptSealed) and event.verdict is Verdict.PASSED}


@pytest.mark.long
def test_10_I1_where_everything_is_missing_the_command_is_the_same(process: Process, tmp_path: Path) -> None:
    typed = ["run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=60", "--limit", "3"]
    said = interrupted(process, tmp_path, *typed, after=0)
    assert shlex.split(last_command(said)) == [*typed, "--reuse"]
    assert "missing: 3 attempts of 3 tasks" in said


@pytest.mark.long
@pytest.mark.parametrize("door", ["proctor.yaml", "--keep-environment"])
def test_10_I1_nothing_is_kept_by_what_runs_the_rest(
    process: Process, proctor: Proctor, tmp_path: Path, door: str
) -> None:
    typed = ["run", "trivial", "plugins:Sleeper", *OPTIONS]
    option = [door] if door.startswith("-") else []
    if not option:
        (tmp_path / "proctor.yaml").write_text("runtime: {keep_environment: failed}\n")
    command = shlex.split(last_command(interrupted(process, tmp_path, *typed, *option, "--run-id=first", after=1)))
    assert command == [*typed, *([] if option else ["--set", "runtime.keep_environment=null"]), "--reuse=first"]
    again = proctor(*command)
    assert again.code == 0, again.err


def test_a_run_that_was_not_interrupted_misses_nothing(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--limit", "3", "--set", "harness.params.every=2")
    assert ended.code == 3
    assert "missing" not in ended.err


def test_options_are_taken_out_in_every_form() -> None:
    words = ["b", "--tasks", "a", "--tasks=b,c", "--limit", "3", "--run-id", "x", "--set", "a=b", "--", "--x"]
    assert _without(words, ("--tasks", "--limit", "--run-id")) == ["b", "--set", "a=b", "--", "--x"]
    tied = ["b", "--reuse=x", "--rerun=all", "--set", "a=b", "--", "--reuse=y"]
    assert _without_tied(tied, ("--reuse", "--rerun")) == ["b", "--set", "a=b", "--", "--reuse=y"]


def test_sandboxes_that_may_be_left_are_listed_with_what_removes_them() -> None:
    rooms: Any = {
        "e": SimpleNamespace(
            resolved=SimpleNamespace(experiment=Experiment("e", NONE, NONE)), labels={"invocation": "abc"}
        ),
        "f": SimpleNamespace(
            resolved=SimpleNamespace(experiment=Experiment("f", NONE, NONE, environment=CLOUD)), labels={}
        ),
    }
    assert sandbox_lines([], rooms) == []
    assert sandbox_lines([], rooms, removed=3) == ["3 sandboxes removed"]
    assert sandbox_lines([("box", "f")], rooms, removed=2)[0] == "warning: 1 sandbox may be left, 2 removed:"
    assert sandbox_lines([("local-1", "e"), ("box", "f")], rooms) == [
        "warning: 2 sandboxes may be left:",
        "  local-1: remove it with `proctor sandbox stop local-1`",
        "  box: remove it with `proctor sandbox stop box --env cloud`",
    ]
    assert "'a b'" in sandbox_lines([("a b", "f")], rooms)[1], "what a shell would take apart is quoted"
    many = sandbox_lines([(f"local-{number}", "e") for number in range(50)], rooms)
    assert len(many) == 22
    assert many[-1] == "  and 30 more, with the label invocation=abc"


def test_V2_kept_sandboxes_are_counted_with_how_to_enter_and_stop_each() -> None:
    assert kept_lines([]) == []
    mine = SandboxKept("abcdefghijkl", 2, "local-1", Purpose.AGENT, "local")
    other = SandboxKept("abcdefghijkl", 2, "proctor-9", Purpose.GRADE, "docker")
    assert kept_lines([mine, other]) == [
        "2 sandboxes kept, until stopped:",
        "  @abcdefghijkl try 2, agent sandbox: `proctor sandbox enter local-1`, `proctor sandbox stop local-1`",
        "  @abcdefghijkl try 2, grade sandbox: `proctor sandbox enter proctor-9 --env docker`, "
        "`proctor sandbox stop proctor-9 --env docker`",
    ]
    many = kept_lines([mine] * 1_030)
    assert many[0] == "1,030 sandboxes kept, until stopped:"
    assert len(many) == 22
    assert many[-1] == "  and 1,010 more: `proctor sandbox list --kept` shows all"
