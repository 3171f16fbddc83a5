"""What a run of everything at once comes to, with the shipped graders: cases 130, 132, 135, 136, 137 and 169."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, Ended
from test_interrupts import sealed, wait_until

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]
Row = tuple[str, str, list[str]]

SOLVED, WRONG = "reward echo '{\"reward\": 1}' > reward.json", "reward echo '{\"reward\": 0}' > reward.json"
NO_REWARD = "reward true"
WITHOUT_SCORE = {"errored", "cancelled", "skipped"}


def strict(text: str) -> Any:
    """Read JSON as those do who take nothing but JSON."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def arguments(folder: Path, does: Sequence[str] | Sequence[Row], *more: str) -> list[str]:
    rows = [(f"t{place:03}", one, []) if isinstance(one, str) else one for place, one in enumerate(does)]
    (folder / "rows.json").write_text(json.dumps(rows))
    return [
        "run", "scoring_plugins:Rows", "scoring_plugins:Does", "--env", "scoring_plugins:Crowded",
        "--set", "benchmark.params.path=rows.json", "--max-retries", "0", "--progress", "none", *more,
    ]  # fmt: skip


def summary(ended: Ended) -> dict[str, Any]:
    for path in ended.run_dir.rglob("*.json"):
        strict(path.read_text())
    for line in (ended.run_dir / "journal.jsonl").read_text().splitlines():
        strict(line)
    return strict((ended.run_dir / "summary.json").read_text())


def results(ended: Ended) -> dict[str, dict[str, Any]]:
    found = [strict(path.read_text()) for path in ended.run_dir.rglob("result.json")]
    return {one["task"]: one for one in found}


def issues(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(issue["code"], issue["message"]) for one in result["tries"] for issue in one["issues"]]


def adds_up(data: dict[str, Any]) -> None:
    counts = dict(data["counts"])
    total, stopped = counts.pop("total"), counts.pop("not_dispatched")
    assert sum(counts.values()) + sum(stopped.values()) == total
    assert data["base"] == total - counts["skipped"]
    assert data["scored"] == counts["passed"] + counts["failed"] + counts["reused_passed"] + counts["reused_failed"]


def test_case_130_a_missing_reward_is_no_0_and_the_headline_names_its_base(proctor: Proctor, tmp_path: Path) -> None:
    does = [SOLVED] * 4 + [WRONG] * 3 + ["no room"] * 2 + [NO_REWARD]
    ended = proctor(*arguments(tmp_path, does))
    found = summary(ended)
    assert ended.code == 3
    assert found["headline"] == "40.0–70.0% incomplete (4/10 passed, 3 errored)"  # noqa: RUF001 - an en dash
    assert (found["scored"], found["base"], found["rate"]) == (7, 10, None)
    assert found["mean_score"] == pytest.approx(4 / 7)
    assert {one["code"]: one["count"] for one in found["issues"]} == {"provider.open_failed": 2, "grader.no_reward": 1}
    scores = Counter(one.get("score") for one in results(ended).values())
    assert scores == {1.0: 4, 0.0: 3, None: 3}
    adds_up(found)


def test_case_130_a_run_without_any_score_has_none(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments(tmp_path, [NO_REWARD, "no room"]), "--missing", "zero")
    found = summary(ended)
    assert (ended.code, found["headline"], found["rate"], found["mean_score"]) == (
        3,
        "no score (2 errored)",
        None,
        None,
    )
    assert found["metrics"]["passes"] is None


@pytest.mark.long
def test_case_132_failures_of_the_model_stay_in_the_base(proctor: Proctor, tmp_path: Path) -> None:
    right, wrong = ["right"] * 108, ["wrong"] * 40
    kinds = ["hangs"] * 8 + ["silent"] * 8 + ["code def two(:"] * 8
    ended = proctor(*arguments(tmp_path, [*right, *wrong, *kinds], "--timeout", "0.3", "--task-concurrency", "64"))
    found = summary(ended)
    assert (ended.code, found["headline"]) == (0, "62.8% (108/172 passed)")
    assert (found["base"], found["scored"], found["counts"]["failed"]) == (172, 172, 64)
    assert {one["code"]: one["count"] for one in found["issues"]}["time.agent"] == 8
    made = results(ended)
    assert {made[f"t{place}"]["verdict"] for place in range(148, 172)} == {"failed"}
    labels = [[check["label"] for check in made[f"t{place}"]["checks"] if not check["ok"]] for place in range(148, 172)]
    assert all(labels), "each says what was not met"


def test_case_135_an_empty_group_and_a_run_in_which_all_is_skipped(proctor: Proctor, tmp_path: Path) -> None:
    rows: list[Row] = [("a", "right", ["easy"]), ("b", "wrong", ["medium"]), ("c", "no room", ["hard"])]
    found = summary(proctor(*arguments(tmp_path, rows, "--run-id", "groups")))
    groups = {tag: (one["passed"], one["scored"], one["final"]) for tag, one in found["metrics"]["by_tag"].items()}
    assert groups == {"easy": (1, 1, 1), "hard": (0, 0, 1), "medium": (0, 1, 1)}
    assert found["metrics"]["by_tag"]["hard"]["passes"] is None
    [page] = tmp_path.rglob("summary.md")
    assert "tag hard: - (nothing scored of 1)" in page.read_text()


def test_case_135_all_skipped(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments(tmp_path, ["skip", "skip"]))
    found = summary(ended)
    assert (ended.code, found["headline"]) == (3, "no score (2 skipped)")
    assert (found["base"], found["rate"], found["low"], found["high"]) == (0, None, None, None)
    assert (ended.run_dir / "summary.html").is_file()


REWARDS = {
    "NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", '"NaN"': "'NaN'", "null": "None", "1e400": "inf",
    "true": None, "-0.0": None, "2": "2",
}  # fmt: skip
"""What a reward file has as its number, and how the issue shows it; None where it is a score."""


def test_case_136_what_is_no_finite_number_is_an_error_with_the_value_as_text(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments(tmp_path, [f"reward echo '{{\"reward\": {value}}}' > reward.json" for value in REWARDS]))
    found, made = summary(ended), results(ended)
    assert found["counts"]["errored"] == 7
    assert (found["scored"], found["mean_score"]) == (2, 0.5), "true is 1 (docs/graders.md), -0.0 is 0"
    for place, (value, shown) in enumerate(REWARDS.items()):
        one = made[f"t{place:03}"]
        if shown is None:
            assert one["verdict"] == ("passed" if value == "true" else "failed")
        else:
            [(code, message)] = issues(one)
            assert (code, one.get("score")) == ("grader.invalid_score", None), value
            assert shown in message
    adds_up(found)


UNREADABLE = {"true": "no reward file", "touch reward.json": "empty", "echo '{' > reward.json": "no JSON",
              "mkdir reward.json": "directory", "printf '\\377' > reward.json": "no text"}  # fmt: skip


def test_case_137_what_cannot_be_read_is_an_error_and_no_row_is_lost(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments(tmp_path, [*(f"reward {one}" for one in UNREADABLE), SOLVED]))
    found, made = summary(ended), results(ended)
    assert found["counts"]["total"] == len(made) == 6
    assert (found["counts"]["passed"], found["counts"]["errored"]) == (1, 5)
    assert found["headline"] == "16.7–100.0% incomplete (1/6 passed, 5 errored)"  # noqa: RUF001 - an en dash
    said = [issues(made[f"t{place:03}"])[0][1] for place in range(5)]
    assert len(set(said)) == 5, said
    assert all(word in one for word, one in zip(UNREADABLE.values(), said, strict=True)), said
    adds_up(found)


@pytest.mark.long
def test_case_169_every_counter_is_disjoint_and_has_its_ids(process: Process, proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text("")
    does = [SOLVED, "right", WRONG, "wrong", "silent", "setup fails", "no room", "judge maybe", "skip", "hangs"]
    words = arguments(tmp_path, does, "--judge", "mock/fixed", "--set", "judge.params.text=I cannot say")
    started = process(*words, env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_until(lambda: sealed(tmp_path) == 9 and (tmp_path / "hangs").exists(), started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    ended = Ended(130, out, err, tmp_path)
    found = summary(ended)
    wanted = {"passed": 2, "failed": 3, "errored": 3, "skipped": 1, "cancelled": 1}
    assert {name: found["counts"][name] for name in wanted} == wanted
    assert found["headline"].endswith("% incomplete (2/9 passed, 3 errored, 1 cancelled, 1 skipped)")
    assert {one["code"] for one in found["issues"] if one["severity"] == "FATAL"} == {
        "task.setup_failed", "provider.open_failed", "grader.judge_failed",
    }  # fmt: skip
    adds_up(found)
    shown = json.loads(proctor("show", str(ended.run_dir), "--json").out)["attempts"]
    assert Counter(one["verdict"] for one in shown) == wanted, "each counter has the list of its ids"
    assert len({one["attempt"] for one in shown}) == found["counts"]["total"] == 10
    assert all((one.get("score") is None) == (one["verdict"] in WITHOUT_SCORE) for one in shown)
