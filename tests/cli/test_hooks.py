"""Hooks of experiments, as functions of the project's files: around the run, and through every door (spec 03 S6)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_rig import HOOKS, hooks, in_sandboxes, make_project, trace
from program import HANG_SECONDS, Ended

from proctor.store.coordination import coordination_path
from proctor.store.leases import Leases
from proctor.store.owner import this_owner
from proctor.testing.fakes import FakeClock

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def test_S6_setup_and_teardown_may_be_functions_of_files(proctor: Proctor, project: Path) -> None:
    ended = proctor("run", "trivial", "nop", "--limit", "2", *hooks(setup="prepare", teardown="clear"))
    assert ended.code == 0, ended.err
    assert trace(project) == ["prepare", "clear"]
    log = (ended.run_dir / "run.log").read_text()
    assert "the server is up" in log, "what hooks print is in the log of the run"


def test_S6_the_limit_that_a_hook_declares_holds(proctor: Proctor, project: Path) -> None:
    ended = proctor("run", "trivial", "nop", "--limit", "2", *hooks(setup="hangs"))
    assert ended.code == 3
    assert "it did not end within 0.5 s" in ended.err
    assert ended.err.count("it did not end within 0.5 s") == 1, "said once, not for each slot"


@pytest.mark.long
def test_10_I2_a_teardown_of_a_file_that_a_kill_missed_is_run_first_by_the_next_run(
    process: Process, proctor: Proctor, project: Path
) -> None:
    run = ["run", "trivial", "plugins:Sleeper", "--limit", "2", *hooks(setup="prepare", teardown="clear")]
    killed = process(*run, "--json", "--set", "harness.params.seconds=600")
    assert killed.stdout is not None
    while '"TryStarted"' not in killed.stdout.readline():
        pass
    killed.kill()
    killed.communicate(timeout=HANG_SECONDS)
    ended = proctor(*run)
    assert ended.code == 0, ended.err
    assert trace(project) == ["prepare", "clear", "prepare", "clear"]
    assert "running teardown `hooks/all.py:clear` first" in ended.err


def test_S3_a_recovery_runs_the_teardown_of_a_file(process: Process, proctor: Proctor, project: Path) -> None:
    run = ["run", "trivial", "plugins:Sleeper", "--limit", "2", *hooks(setup="prepare", teardown="clear")]
    killed = process(*run, "--json", "--set", "harness.params.seconds=600", "--set", "shared_state.key=k")
    assert killed.stdout is not None
    while '"TryStarted"' not in killed.stdout.readline():
        pass
    killed.kill()
    killed.communicate(timeout=HANG_SECONDS)
    info = Leases(coordination_path(project), this_owner(), FakeClock()).inspect("k")
    assert info is not None
    confirm = ["--confirm-owner-terminated", "--confirm-remote-quiesced"]
    ended = proctor("lease", "recover", "k", "--owner-token", info.holder_token, *confirm)
    assert ended.code == 0, ended.err
    assert "teardown `hooks/all.py:clear` succeeded" in ended.err
    assert trace(project) == ["prepare", "clear"]


@pytest.mark.parametrize(
    ("field", "path", "words"),
    [
        ("setup", "hooks/none.py:prepare", "hooks/none.py: cannot be read: No such file or directory"),
        ("setup", "hooks/all.py:prepares", "there is no `prepares` in `hooks/all.py`"),
        ("setup", "hooks/all.py:NUMBER", "is no function but int"),
        ("setup", "hooks/all.py:box_up", "is called with no argument: missing a required argument: 'sandbox'"),
        ("setup", "hooks/all.py", "is not of the form `package.module:function` or `path/to/file.py:function`"),
        ("teardown", "../all.py:clear", "is not of the form"),
        ("teardown", "no_such_module:clear", "cannot be imported: ModuleNotFoundError"),
        ("sandbox_setup", "hooks/all.py:prepare", "is called with one argument, the sandbox: too many"),
        ("sandbox_teardown", "/hooks/all.py:box_down", "is not of the form"),
    ],
)
def test_S6_a_hook_that_is_not_there_is_an_error_before_anything_starts(
    proctor: Proctor, project: Path, field: str, path: str, words: str
) -> None:
    ended = proctor("run", "trivial", "nop", "--limit", "2", "--set", f"{field}={path}")
    assert ended.code == 2
    assert field in ended.err
    assert words in ended.err
    assert "hint:" in ended.err
    assert not ended.run_dirs
    assert not trace(project)


def test_all_hooks_that_are_wrong_are_said_at_once(proctor: Proctor, project: Path) -> None:
    ended = proctor("run", "trivial", "nop", *hooks(setup="none", teardown="neither"))
    assert ended.code == 2
    assert "there is no `none`" in ended.err
    assert "there is no `neither`" in ended.err


# --------------------------------------------------------------------------------------------------------- identity


def identities(proctor: Proctor, *arguments: str) -> set[str]:
    listed = proctor("plan", *arguments[1:], "--json")
    assert listed.code == 0, listed.err
    return {event["identity"] for event in listed.events if event["type"] == "slot"}


@pytest.mark.parametrize(
    ("field", "name", "counts"),
    [
        ("setup", "prepare", True),
        ("sandbox_setup", "box_up", True),
        ("teardown", "clear", False),
        ("sandbox_teardown", "box_down", False),
    ],
)
def test_04_P2_the_source_of_what_sets_up_is_in_the_identity(
    proctor: Proctor, project: Path, field: str, name: str, counts: bool
) -> None:
    run = in_sandboxes(**{field: name})
    plain, before = identities(proctor, *in_sandboxes()), identities(proctor, *run)
    (project / "hooks" / "all.py").write_text(HOOKS + "\n# changed\n")
    after = identities(proctor, *run)
    assert (plain != before, before != after) == (counts, counts)


def test_04_P2_a_declared_identity_stands_for_the_source(proctor: Proctor, project: Path) -> None:
    file = project / "hooks" / "all.py"
    marked = HOOKS.replace("async def box_up", '@hook(identity="v1")\nasync def box_up')
    seen: list[Any] = []
    for text in (marked, marked + "\n# changed\n", marked.replace("v1", "v2")):
        file.write_text(text)
        seen.append(identities(proctor, *in_sandboxes(sandbox_setup="box_up")))
    assert seen[0] == seen[1] != seen[2]


# ----------------------------------------------------------------------------------------------------- every door


def test_S6_hooks_of_an_experiment_in_python_are_its_functions(proctor: Proctor, project: Path) -> None:
    (project / "experiments").mkdir()
    text = """
from hooks.all import box_down, box_up
from proctor import Experiment, hook
from hooks.all import note


@hook(timeout_seconds=20)
async def prepare():
    note("prepare here")


def clear():
    note("clear here")


experiment = Experiment(
    benchmark={"id": "trivial", "params": {"sandbox": True, "tasks": 1}},
    harness="nop",
    setup=prepare,
    teardown=clear,
    sandbox_setup=box_up,
    sandbox_teardown=box_down,
)
"""
    (project / "experiments" / "one.py").write_text(text)
    ended = proctor("exp", "--fail-under", "0")
    assert ended.code == 0, ended.err
    words = [" ".join(line.split()[:1]) for line in trace(project)]
    assert words == ["prepare", "up", "down", "clear"]


@pytest.mark.parametrize(
    ("more", "called"),
    [
        ([], ["here", "box"]),
        (["setup=experiments/one.py:here"], ["here", "box"]),
        (["setup=experiments/one.py:other"], ["other", "box"]),
        (["setup=hooks/all.py:prepare"], ["prepare", "box"]),
        (["setup=null"], ["box"]),
        (["sandbox_setup=hooks/all.py:box_up"], ["here", "up"]),
        (["setup=null", "sandbox_setup=null"], []),
    ],
)
def test_02_the_command_line_is_stronger_than_the_functions_of_an_experiment_in_python(
    proctor: Proctor, project: Path, more: list[str], called: list[str]
) -> None:
    (project / "experiments").mkdir()
    text = """
from pathlib import Path
from proctor import Experiment


def note(line):
    with (Path(__file__).parents[1] / "hooks" / "trace").open("a") as file:
        file.write(line + chr(10))


def here():
    note("here")


def other():
    note("other")


def box(sandbox):
    note("box")


experiment = Experiment(
    benchmark={"id": "trivial", "params": {"sandbox": True, "tasks": 1}},
    harness="nop",
    setup=here,
    sandbox_setup=box,
)
"""
    (project / "experiments" / "one.py").write_text(text)
    ended = proctor("exp", "--fail-under", "0", *(word for one in more for word in ("--set", one)))
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in trace(project)] == called


def test_L5_requests_of_a_launch_have_hooks_of_their_own(proctor: Proctor, project: Path) -> None:
    text = """
defaults:
  benchmark: {id: trivial, params: {sandbox: true, tasks: 1}}
  harness: nop
requests:
  - name: with
    sandbox_setup: hooks/all.py:box_up
    setup: hooks/all.py:prepare
  - name: without
"""
    (project / "launch.yaml").write_text(text)
    ended = proctor("launch", "launch.yaml", "--task-concurrency", "1")
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in trace(project)] == ["prepare", "up"]


def test_S6_a_hook_that_is_not_there_is_named_with_its_line(proctor: Proctor, project: Path) -> None:
    text = "defaults:\n  benchmark: trivial\n  harness: nop\nrequests:\n  - name: a\n    setup: hooks/all.py:none\n"
    (project / "launch.yaml").write_text(text)
    ended = proctor("launch", "launch.yaml")
    assert ended.code == 2
    assert "launch.yaml:6: setup `hooks/all.py:none`" in ended.err


def test_S6_hooks_are_found_from_the_project_wherever_it_is_started(
    proctor: Proctor, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    ended = proctor(*in_sandboxes(setup="prepare", teardown="clear", sandbox_setup="box_up"), "--limit", "1")
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in trace(project)] == ["prepare", "up", "clear"]
