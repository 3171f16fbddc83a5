"""What the end of a run leaves as files: `--missing`, `--junit`, summary.html (spec 02, 08, 09 M1, M3)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from program import HANG_SECONDS, Ended
from test_interrupts import SLOW, sealed, wait_until

import proctor as door
from proctor.cli.exits import Exit
from proctor.cli.outcome import Outcome, exit_code
from proctor.core.aggregate import Missing
from proctor.errors import UsageError
from proctor.model.attempt import Verdict
from proctor.model.events import StopReason
from proctor.report.view import RunView

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]

BROKEN = ["run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=5", "--task-concurrency", "1"]
"""Of ten attempts eight pass and two are errored."""

TWO = """\
defaults: {benchmark: trivial}
requests:
  - {name: gold, harness: oracle}
  - {name: nothing done, harness: nop}
"""


def summary(ended: Ended) -> dict[str, Any]:
    return json.loads((ended.run_dir / "summary.json").read_text())


# ------------------------------------------------------------------------------------------------------ --missing

SAID = {
    None: ("80.0–100.0% incomplete (8/10 passed, 2 errored)", None, 10),  # noqa: RUF001 - an en dash
    "zero": ("80.0% (8/10 passed, 2 errored: counted as not passed)", 0.8, 10),
    "exclude": ("100.0% (8/8 passed, 2 errored: left out)", 1.0, 8),
    "fail": ("no rate (8/10 passed, 2 errored: none may be missing)", None, 10),
}


@pytest.mark.parametrize("missing", SAID, ids=str)
def test_M1_the_policy_is_printed_with_the_number_and_hides_nothing_from_the_exit_code(
    proctor: Proctor, missing: str | None
) -> None:
    policy = [] if missing is None else ["--missing", missing]
    ended = proctor(*BROKEN, *policy, "--fail-under", "0.9")
    headline, rate, base = SAID[missing]
    assert ended.code == 3
    assert f"trivial/plugins:Sleeper: {headline}" in ended.err
    found = summary(ended)
    assert (found["headline"], found["missing"], found["rate"], found["base"]) == (headline, missing, rate, base)
    assert found["counts"]["errored"] == 2, "whatever becomes of them in the rate"
    assert headline in (ended.run_dir / "summary.md").read_text()
    assert headline in unescape((ended.run_dir / "summary.html").read_text())


def ended_as(missing: Missing | None, **counts: int) -> Outcome:
    view = RunView("e", total=sum(counts.values()), missing=missing)
    view.not_dispatched[StopReason.BUDGET] = counts.pop("cut", 0)
    for verdict, number in counts.items():
        view.verdicts[Verdict(verdict)] = number
    view.scored = view.score_sum = counts.get("passed", 0)
    view.scored += counts.get("failed", 0)
    view.final = view.total
    return Outcome({"e": view}, {}, Exit.OK)


STATES: list[tuple[dict[str, int], dict[float | None, int]]] = [
    ({"passed": 9, "failed": 1}, {None: 0, 0.0: 0, 0.9: 0, 0.95: 1}),
    ({"failed": 10}, {None: 0, 0.0: 0, 0.9: 1, 0.95: 1}),
    ({"passed": 9, "failed": 1, "skipped": 5}, {None: 0, 0.0: 0, 0.9: 0, 0.95: 1}),
    ({"passed": 9, "errored": 1}, {None: 3, 0.0: 3, 0.9: 3, 0.95: 3}),
    ({"passed": 9, "cancelled": 1}, {None: 3, 0.0: 3, 0.9: 3, 0.95: 3}),
    ({"passed": 9, "cut": 1}, {None: 3, 0.0: 3, 0.9: 3, 0.95: 3}),
    ({"errored": 10}, {None: 3, 0.0: 3, 0.9: 3, 0.95: 3}),
    ({"skipped": 10}, {None: 3, 0.0: 3, 0.9: 3, 0.95: 3}),
]


@pytest.mark.parametrize(("state", "missing"), list(product(STATES, [None, *Missing])))
def test_02_what_is_missing_exits_3_whatever_is_made_of_it(
    state: tuple[dict[str, int], dict[float | None, int]], missing: Missing | None
) -> None:
    counts, codes = state
    assert {gate: int(exit_code(ended_as(missing, **counts), gate)) for gate in codes} == codes


def test_M1_python_says_the_policy_too(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    harness: Any = {"id": "plugins:Sleeper", "params": {"every": 2}}
    limits: dict[str, Any] = {"limit": 4, "task_concurrency": 1}
    found = {
        missing: asyncio.run(door.arun("trivial", harness, missing=missing, **limits))
        for missing in ("zero", "exclude", "fail")
    }
    assert {missing: run.rate for missing, run in found.items()} == {"zero": 0.5, "exclude": 1.0, "fail": None}
    assert {run.exit_code for run in found.values()} == {3}
    with pytest.raises(UsageError, match="missing"):
        door.run("trivial", "nop", missing="drop")  # pyright: ignore[reportArgumentType] - that is the point
    assert len(list(tmp_path.rglob("journal.jsonl"))) == 3


# -------------------------------------------------------------------------------------------------------- --junit


def suites(path: Path) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(path.read_bytes()))


def numbers(suite: ElementTree.Element) -> dict[str, int]:
    return {name: int(suite.get(name) or "") for name in ("tests", "failures", "errors", "skipped")}


def test_02_junit_has_every_slot_of_a_run(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*BROKEN, "--junit", "results.xml")
    assert ended.code == 3
    [suite] = suites(tmp_path / "results.xml")
    assert numbers(suite) == {"tests": 10, "failures": 0, "errors": 2, "skipped": 0}
    assert suite.get("name") == "trivial/plugins:Sleeper"
    assert [case.get("name") for case in suite] == [f"t{number:04} #0" for number in range(10)]
    [first, _] = [child for case in suite for child in case]
    assert (first.get("type"), first.get("message")) == ("harness.crashed", "RuntimeError: t0004 was told to fail")


def test_02_junit_of_a_launch_has_a_suite_for_each_experiment(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(TWO)
    (tmp_path / "out").mkdir()
    ended = proctor("launch", "launch.yaml", "--junit", "out/results.xml", "--k", "2")
    assert ended.code == 0, ended.err
    found = {suite.get("name"): numbers(suite) for suite in suites(tmp_path / "out/results.xml")}
    assert found == {
        "gold": {"tests": 20, "failures": 0, "errors": 0, "skipped": 0},
        "nothing done": {"tests": 20, "failures": 20, "errors": 0, "skipped": 0},
    }


def test_M3_what_early_exit_left_out_is_skipped(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(
        "run",
        "trivial",
        "oracle",
        "--k",
        "3",
        "--early-exit",
        "--limit",
        "2",
        "--task-concurrency",
        "1",
        "--junit",
        "r.xml",
    )
    assert ended.code == 0, ended.err
    [suite] = suites(tmp_path / "r.xml")
    assert numbers(suite) == {"tests": 6, "failures": 0, "errors": 0, "skipped": 4}
    assert {child.get("type") for case in suite for child in case} == {"early-exit"}


def test_05_junit_says_skipped_of_a_task_that_does_not_apply(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([("no", "skip", []), ("yes", "right", [])]))
    rows = ("--set", "benchmark.params.path=rows.json", "--junit", "r.xml")
    ended = proctor("run", "scoring_plugins:Rows", "scoring_plugins:Does", *rows)
    assert ended.code == 0, ended.err
    [suite] = suites(tmp_path / "r.xml")
    assert numbers(suite) == {"tests": 2, "failures": 0, "errors": 0, "skipped": 1}


@pytest.mark.long
def test_10_junit_of_a_run_that_was_interrupted(process: Process, tmp_path: Path) -> None:
    started = process(*SLOW, "--json", "--junit", "r.xml", env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_until(lambda: sealed(tmp_path) >= 2, started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    [run] = Ended(130, out, err, tmp_path).receipt["runs"]
    [suite] = suites(tmp_path / "r.xml")
    counts = run["counts"]
    assert numbers(suite) == {"tests": 40, "failures": 0, "errors": 40 - counts["passed"], "skipped": 0}
    kinds = [child.get("type") for case in suite for child in case]
    assert kinds.count("not-dispatched") == counts["not_dispatched"]["interrupt"]
    assert "interrupted" in (tmp_path / run["directory"] / "summary.html").read_text()


@pytest.mark.parametrize("place", ["nowhere/r.xml", "folder"])
def test_02_a_place_that_cannot_be_written_is_an_error_before_anything_starts(
    proctor: Proctor, tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    ended = proctor("run", "trivial", "oracle", "--junit", place)
    assert ended.code == 2
    assert place.partition("/")[0] in ended.err
    assert not (tmp_path / "results").exists()


def test_D5_a_file_that_cannot_be_written_at_the_end_is_told_and_the_results_are_kept(
    proctor: Proctor, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    take_away = f"harness.params.command=rmdir {tmp_path}/out; touch {tmp_path}/out"
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--limit", "1", "--set", take_away, "--junit", f"{tmp_path}/out/r.xml"
    )
    assert ended.code == 3
    assert re.search(r"^error: .*out/r\.xml", ended.err, re.MULTILINE), ended.err
    assert summary(ended)["counts"]["passed"] == 1
    assert (ended.run_dir / "summary.html").is_file()


# --------------------------------------------------------------------------------------------------- summary.html


def test_08_each_run_of_a_launch_has_a_page_with_a_point_for_every_run(proctor: Proctor, tmp_path: Path) -> None:
    model = "{id: mock/fixed, params: {text: ok}}"
    (tmp_path / "launch.yaml").write_text(
        f"defaults: {{benchmark: trivial, harness: chat, model: {model}}}\nrequests: [{{name: one}}, {{name: two}}]\n"
    )
    ended = proctor("launch", "launch.yaml", "--limit", "2")
    assert len(ended.run_dirs) == 2
    for directory in ended.run_dirs:
        page = (directory / "summary.html").read_text()
        found = json.loads((directory / "summary.json").read_text())
        assert f"<h1>{found['experiment']}</h1>" in page
        assert found["headline"] in unescape(page)


def test_accepted_attempts_have_a_page_too(proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORK_TRACE", str(tmp_path / "trace"))
    (tmp_path / "trace").touch()
    first = proctor("run", "reuse_plugins:Counted", "reuse_plugins:Worker", "--limit", "1", "--run-id", "one")
    [attempt] = [json.loads(path.read_text())["attempt"] for path in first.run_dir.rglob("result.json")]
    ended = proctor("accept", f"@{attempt}", "--set", "harness.params.style=new", "--run-id", "two")
    assert ended.code == 0, ended.err
    [page] = tmp_path.glob("results/**/two/summary.html")
    found = json.loads(page.with_name("summary.json").read_text())
    assert found["headline"] in unescape(page.read_text())
