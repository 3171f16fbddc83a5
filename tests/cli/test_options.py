"""Every option of every command that runs something reaches what is run (cases/conf 159).

An option that is added to a command and not to the table here fails the test: somebody has to say where it is read.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import rich_click as click

from proctor.cli.main import run as run_main
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.core.aggregate import Missing
from proctor.core.reuse import Rerun

COMMANDS: dict[str, list[str]] = {
    "run": ["trivial", "nop"],
    "check": ["trivial"],
    "plan": ["trivial", "nop"],
    "launch": ["launch.yaml"],
    "exp": [],
}
"""Commands that take options of what is run, with what else they need."""

Found = tuple[Sequence[Resolved], Options]
Read = Callable[[Found], Any]


def experiments(name: str) -> Read:
    return lambda found: {getattr(one.experiment, name) for one in found[0]}


def limits(name: str) -> Read:
    return lambda found: {getattr(one.experiment.limits, name) for one in found[0]}


def retry(name: str) -> Read:
    return lambda found: {getattr(one.experiment.retry, name) for one in found[0]}


def controls(name: str) -> Read:
    return lambda found: getattr(found[1].controls, name)


def options(name: str) -> Read:
    return lambda found: getattr(found[1], name)


def reusing(name: str) -> Read:
    return lambda found: {getattr(found[1].reusing_of(one.experiment.name), name) for one in found[0]}


TABLE: dict[str, tuple[list[str], Read, Any]] = {
    "attempts": (["--attempts", "3"], experiments("attempts"), {3}),
    "early_exit": (["--early-exit"], experiments("early_exit"), {True}),
    "budget": (["--budget", "2.5"], experiments("budget_usd"), {2.5}),
    "fail_under": (["--fail-under", "0.5"], options("fail_under"), 0.5),
    "config": (["--config", "more.yaml"], controls("cleanup_grace_seconds"), 11.5),
    "provider": (["--env", "plugins_provider:Other"], lambda found: {one.provider.name for one in found[0]}, {"other"}),
    "judge": (
        ["--judge", "mock/echo"],
        lambda found: {getattr(one.experiment.judge, "id", None) for one in found[0]},
        {"mock/echo"},
    ),
    "task_concurrency": (["--task-concurrency", "3"], controls("task_concurrency"), 3),
    "provider_limit": (["--provider-limit", "local=7"], lambda found: found[1].controls.provider_limits["local"], 7),
    "env_open_qps": (["--env-open-qps", "local=4"], lambda found: found[1].controls.open_per_second["local"], 4.0),
    "host_cpus": (["--host-cpus", "1.5"], controls("host_cpus"), 1.5),
    "host_memory": (["--host-memory", "3MiB"], controls("host_memory_bytes"), 3 * 1024**2),
    "max_build_concurrency": (["--max-build-concurrency", "7"], controls("max_build_concurrency"), 7),
    "keep_environment": (["--keep-environment=all"], controls("keep_environment"), "all"),
    "max_retries": (["--max-retries", "4"], retry("max_retries"), {4}),
    "retry_patterns": (["--retry-pattern", "a", "--retry-pattern", "b"], retry("patterns"), {("a", "b")}),
    "lease_wait": (["--lease-wait", "11.5"], controls("lease_wait_seconds"), 11.5),
    "limit": (["--limit", "2"], options("limit"), 2),
    "task_ids": (["--tasks", "t0001,t0002", "--tasks", "t0003"], options("task_ids"), ("t0001", "t0002", "t0003")),
    "tags": (["--tag", "slow"], options("tags"), ("slow",)),
    "timeout": (["--timeout", "11.5"], limits("agent_seconds"), {11.5}),
    "timeout_multiplier": (["--timeout-multiplier", "2"], limits("grade_seconds"), {1200.0}),
    "results_dir": (["--results-dir", "elsewhere"], controls("results_dir"), "elsewhere"),
    "run_name": (["--run-name", "mine/too"], options("run_name"), "mine/too"),
    "run_id": (["--run-id", "mine"], options("run_id"), "mine"),
    "assignments": (["--set", "stop_on_repeated=7"], experiments("stop_on_repeated"), {7}),
    "progress": (["--progress", "none"], options("progress"), "none"),
    "as_json": (["--json"], options("as_json"), True),
    "missing": (["--missing", "zero"], options("missing"), Missing.ZERO),
    "junit": (["--junit", "j.xml"], options("junit"), Path("j.xml")),
    "no_attempt_files": (["--no-attempt-files"], options("attempt_files"), False),
    "log_level": (["--log-level", "ERROR"], options("log_level"), "ERROR"),
    "file_log_level": (["--file-log-level", "ERROR"], options("file_log_level"), "ERROR"),
    "reuse": (["--reuse=20260101_000000"], reusing("run_id"), {"20260101_000000"}),
    "rerun": (["--reuse", "--rerun=all"], reusing("rerun"), {Rerun.ALL}),
    "no_checkpoint_resume": (["--reuse", "--no-checkpoint-resume"], reusing("checkpoint_resume"), {False}),
}
"""By the parameter of an option: how it is typed, where it is read, and what is found there."""

ELSEWHERE = {"dry", "all_slots"}
"""What a command does itself: tested with it."""


class Caught(BaseException):
    """Ends a command where it would begin to run."""

    def __init__(self, found: Found) -> None:
        self.found = found


@pytest.fixture
def caught(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Found]:
    """Give a command up to where it would begin to run, and return what would be run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proctor.yaml").write_text("")
    (tmp_path / "more.yaml").write_text("runtime: {cleanup_grace_seconds: 11.5}")
    requests = [{"name": name, "benchmark": "trivial", "harness": "nop"} for name in ("one", "two")]
    (tmp_path / "launch.yaml").write_text(json.dumps({"requests": requests}))
    (tmp_path / "experiments").mkdir()
    text = 'from proctor import Experiment\nexperiment = Experiment(benchmark="trivial", harness="nop")\n'
    (tmp_path / "experiments/one.py").write_text(text)

    def call(command: str, *arguments: str) -> Found:
        module = importlib.import_module(f"proctor.cli.commands.{command}")

        def catch(resolved: Sequence[Resolved], options: Options, *_: Any, **__: Any) -> Any:
            raise Caught((resolved, options))

        for name in ("execute", "dry_run"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, catch)
        try:
            code = run_main([command, *COMMANDS[command], *arguments])
        except Caught as end:
            return end.found
        raise AssertionError(f"exit code {code}")

    return call


def params_of(command: str) -> dict[str, click.Option]:
    found = importlib.import_module(f"proctor.cli.commands.{command}").command
    return {param.name or "": param for param in found.params if isinstance(param, click.Option)}


CASES = [(command, name) for command in COMMANDS for name in params_of(command) if name not in ELSEWHERE]


@pytest.mark.parametrize(("command", "name"), CASES)
def test_159_an_option_has_the_same_effect_on_every_command_that_takes_it(
    caught: Callable[..., Found], command: str, name: str
) -> None:
    assert name in TABLE, f"`{command}` takes an option that the table does not have"
    typed, read, expected = TABLE[name]
    assert read(caught(command, *typed)) == expected
    if name not in ("reuse", "rerun", "no_checkpoint_resume"):
        assert read(caught(command)) != expected, "without it there is another value"


@pytest.mark.parametrize("command", COMMANDS)
def test_02_every_command_shares_the_options_of_all(command: str) -> None:
    shared = set(TABLE) - {"attempts", "early_exit", "budget", "fail_under", "reuse", "rerun", "no_checkpoint_resume"}
    assert shared - set(params_of(command)) == set()


@pytest.mark.parametrize("option", ["--attempts=2", "--reuse", "--fail-under=1", "--budget=1", "--early-exit"])
def test_159_an_option_that_makes_no_sense_is_refused_and_not_ignored(proctor: Callable[..., Any], option: str) -> None:
    """A check runs each task once and has a gate of its own."""
    ended = proctor("check", "trivial", option)
    assert ended.code == 2
    assert "unknown option" in ended.err
