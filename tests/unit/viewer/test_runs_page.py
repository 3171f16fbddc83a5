"""The list of runs: filtered, sorted, page by page, whatever is missing or damaged in the files of a run."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from viewer_runs import START, good_try, make_run, sealed, started

from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer.page import render
from proctor.viewer.results import Results
from proctor.viewer.run_list import SORTS, STATES, RunEntry, chosen
from proctor.viewer.run_page import run_page
from proctor.viewer.runs_page import RUNS_ON_A_PAGE, runs_page

A = "abcdefghijkl"


def run_of(root: Path, name: str, **summary: Any) -> RunLayout:
    layout = make_run(root, [started(), *good_try(A, "task", START), sealed(A, "task", START + 10)], name)
    if summary:
        layout.summary_json.write_text(json.dumps({"format": 1, "completion": "complete", **summary}))
    return layout


def shown(root: Path, language: str = "en", **query: str) -> Content:
    reader = asked(language, **query)
    return Content(render(runs_page(Results(root), reader), reader))


def names_in(page: Content) -> list[str]:
    return [link.rpartition("/")[2] for link in page.links if link.startswith("/run/")]


def test_runs_are_found_at_every_depth_and_nothing_inside_of_them(tmp_path: Path) -> None:
    for name in ("e/r1", "night/e/r2", "a/b/c/d/e/r3", "r4", "e/r1/attempts/x", ".hidden/r5"):
        run_of(tmp_path, name)
    assert list(Results(tmp_path).runs()) == ["a/b/c/d/e/r3", "e/r1", "night/e/r2", "r4"]


def test_links_and_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "results"
    run_of(root, "e/r1")
    run_of(tmp_path, "elsewhere/r2")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "e" / "loop").symlink_to(root)
    os.makedirs(os.fsencode(root) + b"/e/\xff")
    (root / "e" / os.fsdecode(b"\xff") / "journal.jsonl").touch()
    assert list(Results(root).runs()) == ["e/r1"]
    assert names_in(shown(root)) == ["r1"]


def test_a_root_that_goes_while_it_is_shown_has_no_runs(tmp_path: Path) -> None:
    assert list(Results(tmp_path / "gone").runs()) == []
    assert "no run is here" in shown(tmp_path / "gone").text


def test_pages_sorting_and_text_are_kept_together(tmp_path: Path) -> None:
    for number in range(RUNS_ON_A_PAGE + 5):
        run_of(tmp_path, f"e/r{number:03}", seconds=float(number))
    first = shown(tmp_path, sort="-time", q="r")
    assert len(names_in(first)) == RUNS_ON_A_PAGE
    assert names_in(first)[0] == f"r{RUNS_ON_A_PAGE + 4:03}"
    [after] = [link for link in first.links if "page=2" in link]
    assert "sort=-time" in after
    assert "q=r" in after
    second = shown(tmp_path, sort="-time", q="r", page="2")
    assert names_in(second) == ["r004", "r003", "r002", "r001", "r000"]
    for page in ("0", "-1", "99999999999999999999", "x", "\uff12", ""):
        assert names_in(shown(tmp_path, sort="-time", page=page))[0] in ("r104", "r004")


def test_unknown_comes_last_whichever_way_they_are_sorted(tmp_path: Path) -> None:
    run_of(tmp_path, "e/cheap", cost_usd=0.5, seconds=1)
    run_of(tmp_path, "e/dear", cost_usd=2.5, seconds=1)
    run_of(tmp_path, "e/unknown", cost_usd=None, seconds=1)
    run_of(tmp_path, "e/odd", cost_usd="much", seconds=1)
    assert names_in(shown(tmp_path, sort="cost"))[:2] == ["cheap", "dear"]
    assert names_in(shown(tmp_path, sort="-cost"))[:2] == ["dear", "cheap"]
    assert "cost unknown" in shown(tmp_path).text


numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-5, 5))
entries = st.lists(
    st.builds(
        RunEntry, st.text("abc/", min_size=1, max_size=5), st.sampled_from(STATES), experiment=st.text(max_size=4),
        model=st.one_of(st.none(), st.text("mn", max_size=3)), low=numbers, started_at=numbers, seconds=numbers,
        cost_usd=numbers,
    ),
    max_size=8,
)  # fmt: skip


@given(entries, st.sampled_from(SORTS))
def test_every_column_sorts_both_ways_and_loses_none(found: list[RunEntry], sort: str) -> None:
    up, down = chosen(found, sort=sort), chosen(found, sort=f"-{sort}")
    assert sorted(map(id, up)) == sorted(map(id, down)) == sorted(map(id, found))
    unknown = {"passed": "low", "started": "started_at", "time": "seconds", "cost": "cost_usd"}.get(sort)
    if unknown:
        for listed in (up, down):
            known = [getattr(one, unknown) is not None for one in listed]
            assert known == sorted(known, reverse=True)


def test_filters_by_state_and_by_every_word(tmp_path: Path) -> None:
    run_of(tmp_path, "e/one", experiment="fast model")
    run_of(tmp_path, "e/two", experiment="slow model", completion="stopped")
    assert names_in(shown(tmp_path, q="MODEL fast")) == ["one"]
    assert names_in(shown(tmp_path, state="stopped")) == ["two"]
    assert names_in(shown(tmp_path, state="stopped", q="fast")) == []
    assert len(names_in(shown(tmp_path, state="", sort="nothing"))) == 2


def test_a_run_is_running_while_its_journal_is_written_and_killed_when_nobody_does(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / "e" / "r1")
    layout.directory.mkdir(parents=True)
    results = Results(tmp_path)
    with Journal.create(layout.journal, at=START) as journal:
        for event, at in [started(), *good_try(A, "task", START)]:
            journal.append(event, at)
        journal.sync()
        assert results.entry("e/r1").state == "running"
        assert 'data-live="true"' in shown(tmp_path).html
        lock = layout.lock.read_bytes()
    layout.lock.write_bytes(lock)  # as a process leaves it that was killed
    assert results.entry("e/r1").state == "killed"
    assert "data-live" not in shown(tmp_path).html


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format":1}', b"[" * 100_000, b'{"headline":{"a":[1]},"counts":[1,2]}',
    b'{"seconds":"x","cost_usd":true,"low":NaN,"metrics":[1]}', b'{"seconds":1e400,"started_at":-1e300,"written_at":5}',
    b'{"completion":["complete"],"experiment":5,"rate":{},"counts":{"passed":"many","failed":1e99}}',
    b'{"issues":7,"metrics":{"pass_at_k":5,"by_tag":[],"tokens":3,"score":"x"},"usage":[1]}',
    b'{"issues":[1,{"code":[]}],"metrics":{"pass_at_k":[1,{"k":{}}],"by_tag":{"t":5},"passes":{"mean":"x"}},"usage":"u"}',
    b'{"metrics":{"score":{"mean":1,"low":null},"tokens":{"median":1},"passes":{"mean":0.5,"low":0.1}}}',
    b'{"started_at":99999999999999,"written_at":1}',
])  # fmt: skip
@pytest.mark.parametrize("name", ["summary.json", "progress.json", "plan.json"])
def test_damaged_small_files_hide_no_run(tmp_path: Path, name: str, content: bytes) -> None:
    for number in (1, 2):
        layout = run_of(tmp_path, f"e/r{number}")
        (layout.directory / name).write_bytes(content)
    page = shown(tmp_path)
    assert {*names_in(page)} == {"r1", "r2"}
    html = render(run_page(Results(tmp_path), asked(), "e/r1"), asked())
    assert "task" in Content(html).text


def test_a_run_with_no_file_but_an_empty_journal_is_there(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path / "e" / "r1")
    layout.directory.mkdir(parents=True)
    layout.journal.touch()
    assert names_in(shown(tmp_path)) == ["r1"]
    assert "0 slots of 0 tasks" in Content(render(run_page(Results(tmp_path), asked(), "e/r1"), asked())).text


def test_a_summary_of_before_there_were_metrics_opens(tmp_path: Path) -> None:
    old = {
        "run": "r1", "experiment": "b", "headline": "50.0% (1/2)", "rate": 0.5, "low": 0.5, "high": 0.5, "scored": 2,
        "base": 2, "mean_score": 0.5, "counts": {"passed": 1, "failed": 1}, "tries": 2, "seconds": 3.5, "usage": None,
        "cost_usd": 0.25, "issues": [{"severity": "FATAL", "code": "harness.crashed", "count": 3}],
    }  # fmt: skip
    run_of(tmp_path, "e/r1", **old)
    assert "50.0% (1/2)" in shown(tmp_path).text
    page = Content(render(run_page(Results(tmp_path), asked(), "e/r1"), asked()))
    assert "50.0% (1/2)" in page.text
    assert "harness.crashed" in page.text
    assert "pass@k" not in page.text


def test_an_entry_is_read_again_when_a_file_of_it_changes(tmp_path: Path) -> None:
    layout = run_of(tmp_path, "e/r1", seconds=1)
    results = Results(tmp_path)
    assert results.entry("e/r1").seconds == 1
    layout.summary_json.write_text(json.dumps({"completion": "complete", "seconds": 12}))
    assert results.entry("e/r1").seconds == 12


def test_the_plan_says_what_was_run(tmp_path: Path) -> None:
    layout = run_of(tmp_path, "e/r1", seconds=1)
    said = {"name": "x", "benchmark": {"id": "bench"}, "harness": {"id": "harn"}, "model": {"id": "mod"}, "attempts": 1}
    write_plan(layout.plan, PlanFile(said, [PlannedSlot("task", 0, "0" * 16)], {}, {"task": {}}, {}))
    entry = Results(tmp_path).entry("e/r1")
    assert (entry.experiment, entry.benchmark, entry.harness, entry.model) == ("x", "bench", "harn", "mod")
    assert "mod" in shown(tmp_path).text
