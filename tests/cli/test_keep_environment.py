"""`--keep-environment`: sandboxes of tries that did not pass live on, are named at the end and by `show` (06 V2)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, Ended

from proctor.cli.sandbox_labels import owner_in, project_label
from proctor.model.events import Event, SandboxDisposed, SandboxKept, SandboxOpened
from proctor.providers.local import LocalProvider
from proctor.store.owner import this_owner
from proctor.store.reader import read_journal

Proctor = Callable[..., Ended]

TWO_TASKS = ["run", "plugins:Gradeable", "plugins:Sleeper", "--set", "harness.params.command=echo hello > made"]
ONE_FAILS = [*TWO_TASKS, "--set", "harness.params.every=2"]


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where provider local makes its folders; what is kept goes with the test."""
    there = tmp_path / "temporary"
    there.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(there))
    monkeypatch.setenv("TMPDIR", str(there))
    return there


def events_of(where: Path, kind: type[Event]) -> list[Any]:
    return [
        event for path in where.rglob("journal.jsonl") for event, _ in read_journal(path) if isinstance(event, kind)
    ]


def folders(base: Path) -> set[str]:
    return {path.name for path in base.glob("proctor-*/local-*")}


def test_V2_what_did_not_pass_is_kept_and_can_be_entered_and_stopped(
    proctor: Proctor, tmp_path: Path, base: Path
) -> None:
    ended = proctor(*ONE_FAILS, "--keep-environment")
    assert ended.code == 3
    [kept] = events_of(tmp_path, SandboxKept)
    assert folders(base) == {kept.sandbox}
    [work] = base.glob(f"proctor-*/{kept.sandbox}/**/made")
    assert work.read_text() == "hello\n", "as the agent left it"
    assert "1 sandbox kept, until stopped:" in ended.err
    line = f"`proctor sandbox enter {kept.sandbox}`, `proctor sandbox stop {kept.sandbox}`"
    assert line in ended.err
    assert line in proctor("show", f"@{kept.attempt}").out
    [run_dir] = [path.parent for path in tmp_path.rglob("journal.jsonl")]
    assert "1 sandbox was kept: `proctor sandbox list --kept`" in proctor("show", str(run_dir)).out
    assert json.loads(proctor("show", str(run_dir), "--json").out)["kept_sandboxes"] == [kept.sandbox]
    assert kept.sandbox in proctor("sandbox", "list", "--kept").out
    assert proctor("sandbox", "stop", kept.sandbox).code == 0
    assert not folders(base)


def test_V2_a_failed_try_is_kept_also_where_a_later_one_passed(proctor: Proctor, tmp_path: Path, base: Path) -> None:
    ended = proctor(*ONE_FAILS, "--keep-environment=failed", "--max-retries", "1")
    assert ended.code == 0, "every attempt passed in the end"
    [kept] = events_of(tmp_path, SandboxKept)
    assert kept.try_number == 1
    assert folders(base) == {kept.sandbox}
    assert len(events_of(tmp_path, SandboxOpened)) == 3
    assert len(events_of(tmp_path, SandboxDisposed)) == 2


def test_V2_all_keeps_those_of_every_try(proctor: Proctor, tmp_path: Path, base: Path) -> None:
    ended = proctor(*ONE_FAILS, "--keep-environment=all", "--max-retries", "1")
    kept = events_of(tmp_path, SandboxKept)
    assert len(kept) == len(events_of(tmp_path, SandboxOpened)) == 3
    assert folders(base) == {event.sandbox for event in kept}
    assert "3 sandboxes kept, until stopped:" in ended.err
    results = [json.loads(path.read_text()) for path in tmp_path.rglob("result.json")]
    boxes = [box for result in results for each in result["tries"] for box in each["sandboxes"]]
    assert all(box["kept"] is True and "disposed" not in box for box in boxes)
    data = json.loads(proctor("show", f"@{kept[0].attempt}", "--json").out)
    assert data["tries"][0]["kept"][0] == {"sandbox": kept[0].sandbox, "purpose": "agent", "provider": "local"}


def test_without_it_nothing_is_kept_and_nothing_said(proctor: Proctor, tmp_path: Path, base: Path) -> None:
    ended = proctor(*ONE_FAILS)
    assert "kept" not in ended.err
    assert not folders(base)
    assert not events_of(tmp_path, SandboxKept)


def test_V1_a_kept_sandbox_says_whose_it_is(proctor: Proctor, tmp_path: Path, base: Path) -> None:
    proctor(*ONE_FAILS, "--keep-environment")
    [kept] = events_of(tmp_path, SandboxKept)
    [labels] = asyncio.run(LocalProvider().list({"kept": "true"}))
    assert owner_in(labels) == this_owner()
    assert labels["project"] == project_label(tmp_path / "results")
    assert (labels["attempt"], labels["try"], labels["purpose"]) == (kept.attempt, "1", "agent")


@pytest.mark.long
def test_V2_what_a_provider_of_the_project_keeps_is_found_by_the_commands_that_are_printed(
    program: Proctor, tmp_path: Path, base: Path
) -> None:
    (tmp_path / "own_providers.py").write_text(
        "from proctor.providers.local import LocalProvider\nclass Own(LocalProvider):\n    name = 'own'\n"
    )
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/a.py").write_text(
        "from proctor import task\n@task()\nasync def one(t):\n    t.check('no', False)\n"
    )
    name = "own_providers:Own"
    ended = program("run", "evals", "chat", "mock/echo", "--env", name, "--keep-environment")
    [kept] = events_of(tmp_path, SandboxKept)
    assert kept.provider == name
    stop = f"proctor sandbox stop {kept.sandbox} --env {name}"
    assert f"`{stop}`" in ended.err
    assert kept.sandbox in program("sandbox", "list", "--env", name).out
    stopped = program(*stop.split()[1:])
    assert stopped.code == 0, stopped.err
    assert not list(base.glob("proctor-*/own-*"))


@pytest.mark.long
def test_V2_what_an_interrupt_cancels_is_disposed_of(
    process: Callable[..., subprocess.Popen[str]], tmp_path: Path, base: Path
) -> None:
    started = process(*TWO_TASKS, "--set", "harness.params.seconds=600", "--keep-environment=all")
    assert started.stderr is not None
    trace = tmp_path
    while len(list(base.glob("proctor-*/local-*/**/made"))) < 2:
        assert started.poll() is None, started.stderr.read()
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, said
    assert not folders(base)
    assert not events_of(trace, SandboxKept)
    assert "2 sandboxes removed" in said
