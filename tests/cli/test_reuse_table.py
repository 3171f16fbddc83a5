"""The whole decision table of spec 04, row by row, through every door that reuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from doors import write
from program import Ended

Proctor = Callable[..., Ended]

EXPERIMENT: dict[str, Any] = {
    "benchmark": {"id": "reuse_plugins:Counted", "params": {"tasks": 12}}, "harness": "reuse_plugins:Worker",
    "max_retries": 0, "retry_pattern_list": ["connection reset"],
}  # fmt: skip

ROWS: dict[str, tuple[str, tuple[str, str, str]]] = {
    "n0": ("passed", ("reuse", "reuse", "execute: rerun all")),
    "n1": ("failed", ("reuse", "execute: rerun failed", "execute: rerun all")),
    "n2": ("passed, an ERROR matches", ("execute: retry pattern matches",) * 3),
    "n3": ("failed, an ERROR matches", ("execute: retry pattern matches",) * 3),
    "n4": ("passed, does not fit", ("execute: limit lowered",) * 3),
    "n5": ("errored", ("execute: previous errored",) * 3),
    "n6": ("skipped", ("execute: previous skipped",) * 3),
    "n7": ("cancelled", ("execute: previous cancelled",) * 3),
    "n8": ("cut off", ("execute: previous cut off",) * 3),
    "n9": ("grading pending", ("grade only", "grade only", "execute: rerun all")),
    "n10": ("grading errored", ("grade only", "grade only", "execute: rerun all")),
    "n11": (
        "grading pending, an input is damaged",
        ("execute: saved data damaged", "execute: saved data damaged", "execute: rerun all"),
    ),
}
"""What is saved of each task, and what is done without `--rerun`, with `--rerun failed`, with `--rerun all`."""


def edited(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a run in which each task came to something else."""
    task_of: dict[str, str] = {}
    for event in events:
        kind, attempt = event["type"], event.get("attempt")
        if kind == "TryStarted":
            task_of[event["attempt"]] = event["task"]
        task = task_of.get(attempt or "")
        unseen = {"n8": {"TryStarted", "PhaseStarted"}, "n9": UNTIL_SAVED, "n11": UNTIL_SAVED}.get(task or "")
        if kind == "RunEnded" or (unseen is not None and kind not in unseen):
            continue
        if task in ("n6", "n7"):
            if kind == "WorkCheckpointed":
                continue
            outcome = "skipped" if task == "n6" else "cancelled"
            if kind == "TryEnded":
                event["result"] = {"outcome": outcome}
            if kind == "AttemptSealed":
                event["verdict"] = outcome
                event.pop("score")
        if task == "n4" and kind == "PhaseEnded" and event["phase"] == "agent":
            event["seconds"] = 500.0
        yield event


UNTIL_SAVED = {"TryStarted", "PhaseStarted", "PhaseEnded", "WorkCheckpointed"}


def break_off(folder: Path) -> None:
    """Make of the one run there is one that was killed, with everything that an attempt can have come to."""
    [journal] = folder.glob("results/**/journal.jsonl")
    events = map(json.loads, journal.read_text().splitlines())
    journal.write_text("".join(f"{json.dumps(event)}\n" for event in edited(events)))
    [answer] = [path for path in journal.parent.glob("attempts/n11/**/checkpoint/*") if path.is_file()]
    answer.write_text("another answer")
    for path in (folder / "results/.proctor").iterdir():
        path.unlink()


def by_run(*options: str) -> list[str]:
    sets = [f"{name}={json.dumps(EXPERIMENT[name])}" for name in ("max_retries", "retry_pattern_list")]
    sets.append("benchmark.params.tasks=12")
    return [
        "run", "reuse_plugins:Counted", "reuse_plugins:Worker", *(w for one in sets for w in ("--set", one)), *options,
    ]  # fmt: skip


def by_launch(*options: str) -> list[str]:
    return ["launch", write("launch.yaml", {"requests": [{"name": "e", **EXPERIMENT}]}), *options]


def by_launch_file(*options: str) -> list[str]:
    request = {"name": "e", **EXPERIMENT, "runtime": {"reuse": True}}
    return ["launch", write("launch.yaml", {"requests": [request]}), *options]


def by_exp(*options: str) -> list[str]:
    write("proctor.yaml", {})
    Path("experiments").mkdir(exist_ok=True)
    Path("experiments/e.py").write_text(f"from proctor import Experiment\nexperiment = Experiment(**{EXPERIMENT!r})\n")
    return ["exp", *options]


DOORS: dict[str, tuple[Callable[..., list[str]], list[str]]] = {
    "run --reuse": (by_run, ["--reuse"]),
    "run --reuse=ID": (by_run, ["--reuse=one"]),
    "launch --reuse": (by_launch, ["--reuse"]),
    "launch --reuse=ID": (by_launch, ["--reuse=one"]),
    "launch with runtime.reuse": (by_launch_file, []),
    "exp": (by_exp, []),
}


def decisions(proctor: Proctor, words: list[str]) -> dict[str, str]:
    page = proctor("plan", *words, "--json")
    assert page.code == 0, page.err
    records = map(json.loads, page.out.splitlines())
    return {one["task"]: one["decision"].partition(" @")[0] for one in records if one["type"] == "slot"}


@pytest.mark.parametrize("door", DOORS)
def test_04_the_decision_table(door: str, proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORK_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("WORK_ISSUES", "n2,n3")
    monkeypatch.setenv("WORK_FAILS", "n5")
    monkeypatch.setenv("GRADER_FLAKY", "20")  # the tenth
    declared, asked = DOORS[door]
    from reuse_plugins import _GRADED

    _GRADED.clear()
    made = proctor(*declared("--run-id", "one", "--progress", "none", "--timeout", "600"))
    assert made.code == 3, made.err
    break_off(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.glob("results/*/**/*") if path.is_file()}
    for place, rerun in enumerate(([], ["--rerun"], ["--rerun", "all"])):
        found = decisions(proctor, declared(*asked, *rerun, "--timeout", "400"))
        assert found == {task: row[1][place] for task, row in ROWS.items()}, rerun
    found = decisions(proctor, declared(*asked, "--no-checkpoint-resume", "--timeout", "500"))
    assert {task: found[task] for task in ("n4", "n9", "n10", "n11")} == {
        "n4": "reuse", "n9": "execute: checkpoint resume off", "n10": "execute: checkpoint resume off",
        "n11": "execute: checkpoint resume off",
    }  # fmt: skip
    # What was decided is done: each slot once more that has to be, none of the others.
    for name in ("WORK_ISSUES", "WORK_FAILS", "GRADER_FLAKY"):
        monkeypatch.delenv(name)
    os.truncate(tmp_path / "trace", 0)
    ended = proctor(*declared(*asked, "--run-id", "two", "--progress", "none", "--timeout", "400"))
    assert ended.code in (0, 1), ended.err
    turns = [line.split()[0] for line in (tmp_path / "trace").read_text().splitlines()]
    executed = {task for task, row in ROWS.items() if row[1][0].startswith("execute")}
    assert sorted(turns) == sorted(executed)
    assert {path: path.read_bytes() for path in before} == before
    assert proctor("record", "check").code == 0
    if door != "exp" and "one" not in str(asked):
        assert set(decisions(proctor, declared(*asked, "--timeout", "400")).values()) == {"reuse"}


LIMITED = """\
import asyncio
from proctor import task

@task(agent_timeout_seconds={limit}, identity="v1")
async def slow(t):
    t.check("began", True)
    await asyncio.sleep(3600)
"""


def test_C1_the_limit_of_a_task_that_ended_it_counts_exactly_whoever_sets_it_now(
    proctor: Proctor, tmp_path: Path
) -> None:
    def limit(seconds: float, *options: str) -> str:
        (tmp_path / "evals/one.py").write_text(LIMITED.format(limit=seconds))
        return decisions(proctor, ["exp", *options])["one/slow"]

    write("proctor.yaml", {})
    write("evals/one.py", "")
    write("experiments/e.py", "")
    (tmp_path / "experiments/e.py").write_text(
        "from proctor import Experiment\nexperiment = Experiment(benchmark='evals', harness='nop')\n"
    )
    assert limit(0.4) == "execute: new"
    assert proctor("exp", "--progress", "none").code == 1
    assert limit(0.4) == "reuse"
    assert limit(3.0) == "reuse"
    assert limit(0.3) == "execute: limit lowered"
    assert limit(0.4, "--timeout", "0.4") == "reuse"
    assert limit(0.4, "--timeout", "0.3") == "execute: limit lowered"


def test_07_what_is_reused_is_not_expected_to_take_any_time(proctor: Proctor) -> None:
    run = ["run", "trivial", "oracle", "--set", "benchmark.params.tasks=20", "--progress", "plain"]
    assert "est. 0 s" not in proctor(*run).out
    ended = proctor(*run, "--reuse")
    assert "est. 0 s" in ended.out + ended.err
