"""Runs while they go on, and runs that take the place of others: what is remembered of them is never wrong."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from viewer_runs import START, Told, good_try, make_run, sealed, started

from proctor.model.attempt import Verdict
from proctor.model.events import RunEnded
from proctor.model.reasons import Completion
from proctor.store.codec import encode
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer import results as results_module
from proctor.viewer.page import NotFound, render
from proctor.viewer.results import Results
from proctor.viewer.run_page import CELLS_OF_A_TASK, TASKS_ON_A_PAGE, run_page

A, B = "abcdefghijkl", "bbcdefghijkl"
RUN = "e/r1"


def append(layout: RunLayout, *events: Told) -> None:
    with layout.journal.open("ab") as file:
        file.writelines(encode(event, at) for event, at in events)


def shown(results: Results, run: str = RUN, language: str = "en", **query: str) -> Content:
    reader = asked(language, **query)
    return Content(render(run_page(results, reader, run), reader))


def planned(layout: RunLayout, tasks: int, ordinals: int = 1, tags: dict[str, list[int]] | None = None) -> None:
    slots = [PlannedSlot(f"task-{n:04}", o, "0" * 16) for n in range(tasks) for o in range(ordinals)]
    parts = {slot.task: {"task": "1" * 16} for slot in slots}
    write_plan(layout.plan, PlanFile({"name": "x"}, slots, {}, parts, {"tags": tags} if tags else {}))


def test_a_run_that_goes_on_is_followed(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started()], RUN)
    results = Results(tmp_path)
    assert "0 slots of 0 tasks" in shown(results).text
    append(layout, *good_try(A, "first", START))
    assert "running 1" in " ".join(shown(results).text.split())
    append(layout, sealed(A, "first", START + 10), *good_try(B, "second", START + 11))
    page = shown(results)
    assert "passed 1" in " ".join(page.text.split())
    assert "1 slots of" not in page.text
    append(
        layout,
        sealed(B, "second", START + 30, verdict=Verdict.FAILED),
        (RunEnded("e", Completion.COMPLETE), START + 31),
    )
    page = shown(results)
    assert "failed 1" in " ".join(page.text.split())
    assert "50.0%" in page.text, "the headline is made where summary.json is not there yet"
    layout.summary_json.write_text(json.dumps({"headline": "what summary.json says"}))
    assert "what summary.json says" in shown(results).text


@pytest.mark.parametrize("same_file", [False, True], ids=["another file", "the same inode"])
def test_a_run_in_the_place_of_another_is_not_taken_for_it(tmp_path: Path, same_file: bool) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "first", START), sealed(A, "first", START + 10)], RUN)
    results = Results(tmp_path)
    assert "first" in shown(results).text
    other = make_run(tmp_path / "other", [started(), *good_try(B, "second", START)], RUN)
    if same_file:
        layout.journal.write_bytes(other.journal.read_bytes()[:-400])
    else:
        os.replace(other.journal, layout.journal)
    page = shown(results)
    assert "second" in page.text
    assert "first" not in page.text


def test_a_longer_run_in_the_same_file_is_not_taken_for_it(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "first", START), sealed(A, "first", START + 10)], RUN)
    results = Results(tmp_path)
    assert "first" in shown(results).text
    size = layout.journal.stat().st_size
    later = [
        (event, at + 3600) for event, at in (started(), *good_try(B, "second", START), *good_try(B, "second", START))
    ]
    other = make_run(tmp_path / "other", later, RUN)
    layout.journal.write_bytes(other.journal.read_bytes())
    assert layout.journal.stat().st_size > size
    page = shown(results)
    assert "second" in page.text
    assert "first" not in page.text


@pytest.mark.parametrize("name", ["summary.json", "progress.json", "plan.json"])
def test_a_pipe_is_not_read(tmp_path: Path, name: str) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "first", START), sealed(A, "first", START + 10)], RUN)
    pipe = layout.directory / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    text = json.dumps({"format": 1, "experiment": "out of the pipe", "headline": "out of the pipe"})
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()  # waits for a reader
    try:
        page = shown(Results(tmp_path))
        assert writer.is_alive()
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer.join()
        os.close(reader)
    assert "first" in page.text
    assert "out of the pipe" not in page.text


def test_a_run_that_was_removed_is_not_found(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started()], RUN)
    results = Results(tmp_path)
    shown(results)
    layout.journal.unlink()
    with pytest.raises(NotFound):
        shown(results)


def test_no_more_is_remembered_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        planned(make_run(tmp_path, [started()], f"e/r{number}"), 10)
    monkeypatch.setattr(results_module, "SLOTS_KEPT", 25)
    results = Results(tmp_path)
    for number in range(4):
        assert "10 slots of 10 tasks" in shown(results, f"e/r{number}").text
    again = results.slots("e/r3")
    assert results.slots("e/r3") is again
    first = results.slots("e/r0")
    assert results.slots("e/r0") is first
    monkeypatch.setattr(results_module, "SLOTS_KEPT", 1)
    assert len(results.slots("e/r1")) == 10, "the one that was asked for is kept, however large"


def test_the_grid_is_paged_and_filtered_by_the_plan(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "task-0070", START), sealed(A, "task-0070", START + 9)], RUN)
    planned(layout, TASKS_ON_A_PAGE + 20, tags={"<hard>": [1, 70]})
    results = Results(tmp_path)
    first = shown(results)
    assert "task-0000" in first.text
    assert "task-0070" not in first.text
    assert [link for link in first.links if "page=2" in link]
    assert "task-0070" in shown(results, page="2").text
    assert "1 of 80 tasks" in shown(results, state="passed").text
    assert "79 of 80 tasks" in shown(results, state="not dispatched").text
    assert "2 of 80 tasks" in shown(results, tag="<hard>").text
    assert "1 of 80 tasks" in shown(results, tag="<hard>", q="TASK 70").text
    assert "0 of 80 tasks" in shown(results, tag="no such tag").text


def test_a_task_with_very_many_attempts_has_some_cells_and_a_number(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started()], RUN)
    planned(layout, 1, ordinals=CELLS_OF_A_TASK + 36)
    page = shown(Results(tmp_path))
    assert page.html.count('class="cell not dispatched"') == CELLS_OF_A_TASK
    assert "and 36 more" in page.text


def test_a_journal_that_is_long_is_not_folded_for_a_headline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, [started(), *good_try(A, "first", START), sealed(A, "first", START + 10)], RUN)
    monkeypatch.setattr(results_module, "FOLDED_BYTES", 10)
    page = shown(Results(tmp_path))
    assert "first" in page.text
    assert "100.0%" not in page.text


def test_damage_is_said_on_the_page(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started()], RUN)
    with layout.journal.open("ab") as file:
        file.write(b'{"type":"AttemptSealed","at":1}\n')
    page = shown(Results(tmp_path))
    assert "damaged lines" in page.text
    assert "plan.json cannot be read" in page.text


def test_a_journal_of_a_newer_proctor_shows_what_is_known_of_it(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [started(), *good_try(A, "first", START), sealed(A, "first", START + 10)], RUN)
    with layout.journal.open("ab") as file:
        file.write(b'{"type":"SomethingNew","at":"2026-11-30T16:30:35.123456Z","attempt":"abcdefghijkl"}\n')
    assert "first" in shown(Results(tmp_path)).text


def test_files_that_are_there_are_linked_and_no_others(tmp_path: Path) -> None:
    make_run(tmp_path, [started()], RUN).log.write_text("said")
    linked = [link.partition("path=")[2] for link in shown(Results(tmp_path)).links if link.startswith("/file/")]
    assert linked == ["journal.jsonl", "run.log"]
