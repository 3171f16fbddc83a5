"""`proctor status` from another terminal: what goes on, since when, what will end it (spec 07, cases 10 and 165)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, Ended

Process = Callable[..., "subprocess.Popen[str]"]
Proctor = Callable[..., Ended]
Data = dict[str, Any]

HELD = ["run", "trivial", "watched_plugins:Held", "--task-concurrency", "3", "--set", "benchmark.params.tasks=5"]


def until(condition: Callable[[], Any]) -> Any:
    """Return what a condition comes to, once it is met."""
    end = time.monotonic() + HANG_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def asked(proctor: Proctor, *arguments: object) -> list[Data]:
    return json.loads(proctor("status", "--json", *arguments).out)["runs"]


def flights(run: Data) -> dict[str, Data]:
    return {each["task"]: each for each in run["progress"]["in_flight"]} if run["progress"] else {}


@pytest.fixture
def held(process: Process, tmp_path: Path) -> Callable[..., Any]:
    """Start a run that is held until it is let go."""

    @contextmanager
    def start(*more: str) -> Iterator[subprocess.Popen[str]]:
        go = tmp_path / "go"
        with process(*HELD, "--set", f"harness.params.until={go}", *more) as started:
            try:
                yield started
            finally:
                go.touch()
                if started.poll() is None:
                    started.send_signal(signal.SIGCONT)
                    started.terminate()
                started.communicate(timeout=HANG_SECONDS)

    return start


def running(proctor: Proctor, number: int = 3, phase: str = "agent") -> Data:
    """Return the one run, once so many attempts are in a phase."""

    def look() -> Data | None:
        runs = asked(proctor)
        inside = [each for run in runs for each in flights(run).values() if each.get("phase") == phase]
        return runs[0] if len(inside) >= number else None

    return until(look)


@pytest.mark.long
def test_07_10_of_each_attempt_in_flight_phase_ages_and_the_limit_that_ends_it(
    held: Callable[..., Any], proctor: Proctor
) -> None:
    options = ["--timeout", "3000", "--set", "agent_idle_timeout_seconds=900", "--set", "harness.params.loud=t0001"]
    with held(*options, "--set", "harness.params.backoff=t0002") as started:
        running(proctor)
        run = until(
            lambda: (found := asked(proctor)[0]) and flights(found)["t0000"]["seconds_since_output"] > 2 and found
        )
        silent, loud, waiting = (flights(run)[task] for task in ("t0000", "t0001", "t0002"))
        assert run["state"] == "running"
        assert run["process"]["living"] == "alive"
        assert run["progress"]["owner"]["pid"] == started.pid
        counts = run["progress"]["counts"]
        assert (counts["total"], counts["running"] + counts["queued"]) == (5, 5)
        assert sum(run["progress"]["waiting"].values()) == counts["queued"], "each queued attempt waits for something"
        assert silent["limit"] == "agent_idle_timeout_seconds"
        assert 0 < silent["ends_in_seconds"] < 900
        assert silent["seconds_in_phase"] >= silent["seconds_since_output"] - 1
        assert loud["seconds_since_output"] < silent["seconds_since_output"], "a line of its log is a sign of life"
        assert waiting["state"] == "backing off"
        assert waiting["backing_off"] == "model.rate_limited"
        assert "ends_at" not in waiting or waiting["ends_at"] is None, "no limit runs off while it waits"
        assert run["progress"]["backing_off"] == 1
        shown = proctor("status").out
        assert "t0000 #0" in shown
        assert "agent_idle_timeout_seconds 15m00s" in shown
        assert "backing off" in shown
        again = asked(proctor)[0]
        assert again["now"] > run["now"], "ages are of the moment of the answer"


@pytest.mark.long
def test_07_a_run_is_named_by_directory_or_id_and_is_told_of_when_it_has_ended(
    held: Callable[..., Any], proctor: Proctor, tmp_path: Path
) -> None:
    with held("--run-id", "mine", "--progress", "none") as started:
        running(proctor)
        [directory] = [path.parent for path in (tmp_path / "results").rglob("progress.json")]
        for name in ("mine", directory, directory.relative_to(tmp_path)):
            [run] = asked(proctor, name)
            assert run["state"] == "running"
        (tmp_path / "go").touch()
        started.communicate(timeout=HANG_SECONDS)
    ended = proctor("status", "mine", "--json")
    assert ended.code == 0
    [run] = json.loads(ended.out)["runs"]
    assert run["state"] == "ended"
    assert run["progress"]["completion"] == "complete"
    assert run["progress"]["counts"] == json.loads((directory / "summary.json").read_text())["counts"]
    nothing = proctor("status")
    assert nothing.code == 0
    assert nothing.out == ""
    assert "no run goes on below `results`" in nothing.err
    assert proctor("status", "nobody").code == 2


def test_10_I2_a_run_that_was_killed_is_lost(held: Callable[..., Any], proctor: Proctor, tmp_path: Path) -> None:
    with held() as started:
        running(proctor)
        started.kill()
        started.wait(HANG_SECONDS)
        [run] = asked(proctor)
        assert run["state"] == "lost"
        assert run["process"]["living"] == "dead"
        assert run["since"] is not None
        ended = proctor("status")
        assert ended.code == 0, "nothing that goes on is in trouble"
        assert " · lost since " in ended.out
        assert "`proctor show RUN`" in ended.err
        assert proctor("status", run["directory"]).code == 3


@pytest.mark.long
def test_07_a_stopped_process_does_not_answer(held: Callable[..., Any], proctor: Proctor) -> None:
    with held() as started:
        before = running(proctor)
        started.send_signal(signal.SIGSTOP)
        until(lambda: ") T " in Path(f"/proc/{started.pid}/stat").read_text())
        ended = proctor("status", "--json")
        assert ended.code == 3
        [run] = json.loads(ended.out)["runs"]
        assert run["state"] == "not answering"
        assert run["process"]["stopped"]
        assert f"kill -CONT {started.pid}" in run["why"]
        assert run["since"] >= before["progress"]["written_at"]
        started.send_signal(signal.SIGCONT)
        until(lambda: asked(proctor)[0]["state"] == "running")


@pytest.mark.long
def test_07_a_held_event_loop_does_not_answer(held: Callable[..., Any], proctor: Proctor) -> None:
    with held("--set", "harness.params.blocks=t0000"):
        [run] = until(lambda: [run for run in asked(proctor) if run["state"] == "not answering"])
        assert run["process"]["living"] == "alive"
        assert "event loop" in run["why"]


def test_07_the_results_of_the_project_are_looked_at(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proctor.yaml").write_text("runtime: {results_dir: elsewhere}\n")
    below = tmp_path / "some" / "folder"
    below.mkdir(parents=True)
    run = tmp_path / "elsewhere" / "e" / "run"
    run.mkdir(parents=True)
    for name in ("journal.jsonl", "journal.lock", "progress.json"):
        (run / name).write_text("?")
    monkeypatch.chdir(below)
    [found] = asked(proctor)
    assert Path(found["directory"]).resolve() == run
    (tmp_path / "proctor.yaml").write_text("runtime: [")
    ended = proctor("status")
    assert ended.code == 0, "a file that is wrong keeps nobody from looking"
    assert "looking for runs in `results`" in ended.err


def test_165_eighty_runs_of_which_some_are_damaged(proctor: Proctor, tmp_path: Path) -> None:
    template = proctor("run", "trivial", "oracle", "--limit", "1").run_dir
    progress = json.loads((template / "progress.json").read_text())
    progress |= {"ended": False, "completion": None, "written_at": time.time(), "every_seconds": 600.0}
    progress["owner"]["pid"] = os.getpid()
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    progress["owner"]["process_start_ticks"] = int(fields[19])
    for number in range(80):
        directory = tmp_path / "results" / "many" / f"e{number}" / "run"
        directory.mkdir(parents=True)
        (directory / "journal.jsonl").write_text('{"type":"RunStarted",')
        lock = {"pid": os.getpid(), "host": os.uname().nodename, "started": "now"}
        (directory / "journal.lock").write_text(json.dumps(lock))
        (directory / "progress.json").write_text(json.dumps(progress))
    bad = [tmp_path / "results" / "many" / f"e{number}" / "run" / "progress.json" for number in (7, 17, 27)]
    bad[0].write_text("{")
    bad[1].unlink()
    os.mkfifo(bad[1])
    bad[2].write_text(json.dumps(progress | {"format": 999}))
    ended = proctor("status", "--json")
    runs = {Path(run["directory"]).parent.name: run for run in json.loads(ended.out)["runs"]}
    assert len(runs) == 80
    assert {name for name, run in runs.items() if run["progress"] is None} == {"e7", "e17", "e27"}
    assert sum(run["state"] == "running" for run in runs.values()) == 77
    assert "is damaged" in runs["e7"]["why"]
    assert "format 999" in runs["e27"]["why"]
    assert proctor("status").out.count("\n") >= 80
