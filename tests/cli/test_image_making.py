"""Images through the program: made once, in plan order from the start, and what becomes of those that fail (06 V4)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from image_plugins import TRACE
from program import HANG_SECONDS, Ended

from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, IssueRaised, SandboxOpened, TryEnded
from proctor.store.reader import read_journal

Proctor = Callable[..., Ended]

RUN = [
    "run", "image_plugins:Wanting", "plugins:Sleeper", "--env", "image_plugins:Imaged",
    "--set", "harness.params.command=true",
]  # fmt: skip


def images(*names: str) -> list[str]:
    return ["--set", f"benchmark.params.images={json.dumps(names)}"]


def events(tmp_path: Path) -> list[Any]:
    [journal] = tmp_path.rglob("journal.jsonl")
    return [event for event, _ in read_journal(journal)]


def trace(tmp_path: Path) -> list[list[str]]:
    return [line.split() for line in (tmp_path / TRACE).read_text().splitlines()]


def test_V4_each_image_is_made_once_in_plan_order_and_so_many_at_a_time(proctor: Proctor, tmp_path: Path) -> None:
    names = ["one", "two", "one", "three", "four", "two"]
    ended = proctor(*RUN, *images(*names), "--max-build-concurrency", "2")
    assert ended.code == 0, ended.err
    found = trace(tmp_path)
    assert [name for name, _ in found] == ["one", "two", "three", "four"]
    assert max(int(busy) for _, busy in found) <= 2
    assert sum(isinstance(event, SandboxOpened) for event in events(tmp_path)) == 6


def test_V4_tasks_that_share_an_image_that_is_missing_are_errored_and_the_others_run(
    proctor: Proctor, tmp_path: Path
) -> None:
    ended = proctor(*RUN, *images("missing", "good", "missing", "missing"), "--task-concurrency", "1")
    assert ended.code == 3
    sealed = {event.task: event.verdict for event in events(tmp_path) if isinstance(event, AttemptSealed)}
    assert sealed == {
        "t0": Verdict.ERRORED, "t1": Verdict.PASSED, "t2": Verdict.ERRORED, "t3": Verdict.ERRORED,
    }  # fmt: skip
    told = [issue for event in events(tmp_path) if isinstance(event, TryEnded) for issue in event.result.issues]
    told += [event.issue for event in events(tmp_path) if isinstance(event, IssueRaised)]
    assert {issue.code for issue in told} == {"image.missing"}
    assert all("no such image: missing" in issue.message for issue in told)
    assert [name for name, *_ in trace(tmp_path)].count("missing") == 1, "nobody tries again what cannot be"


def test_V4_what_is_said_while_an_image_is_made_is_in_its_log_without_credentials(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-verysecretvalue1234")
    proctor(*RUN, *images("one", "missing"))
    logs = {path.name.rpartition("-")[0]: path.read_text() for path in tmp_path.rglob("images/*.log")}
    assert set(logs) == {"one", "missing"}
    assert "fetching one with key" in logs["one"]
    assert "verysecret" not in "".join(logs.values())


def test_V4_nothing_is_begun_before_a_setup_hook_that_may_make_the_images(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*RUN, *images("one"), "--set", "setup=image_plugins:make_images")
    assert ended.code == 0, ended.err
    assert [name for name, *_ in trace(tmp_path)] == ["hook", "one"]


@pytest.mark.long
def test_10_I1_a_second_interrupt_leaves_what_ignores_its_end_to_itself_and_the_run_is_still_summed_up(
    process: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    started = process(*RUN, *images("one"), "--env", "image_plugins:Deaf")
    assert started.stderr is not None
    while not (tmp_path / TRACE).exists():
        assert started.poll() is None, started.stderr.read()
    said = ""
    started.send_signal(signal.SIGINT)
    while " cancelled " not in said:
        line = started.stderr.readline()
        assert line, said
        said += line
    started.send_signal(signal.SIGINT)
    _, rest = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, said + rest
    assert "left at once" not in rest
    assert "missing: 1 attempt of 1 task (1 cancelled)" in rest
    assert list(tmp_path.rglob("summary.json"))


def test_without_images_nothing_is_made(proctor: Proctor, tmp_path: Path) -> None:
    assert proctor("run", "trivial", "plugins:Sleeper", "--limit", "2").code == 0
    assert not list(tmp_path.rglob("images"))
