"""Indexing journals: whatever the order and the pieces in which they are read, the rows are the same (spec 08 D2)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from record_rig import (
    attempt,
    content,
    lines_of,
    made_anew,
    make_run,
    odd_journals,
    query,
    slots_of,
    started,
)
from store_cases import AT, EVENT_STRATEGIES, rich_run

from proctor.errors import JournalDamaged, UsageError
from proctor.model.attempt import Phase, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    Event,
    Interrupted,
    IssueRaised,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SetupEnded,
    SlotFilled,
    StopReason,
    TeardownEnded,
    TryEnded,
    TryStarted,
)
from proctor.store.codec import NewerFormat, encode
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, write_plan
from proctor.store.reader import read_journal
from proctor.store.record import Record
from proctor.store.record_database import RecordDatabase
from proctor.store.record_index import RunIndex
from proctor.store.record_lookup import RootView
from proctor.store.results import fold_attempts


def private(root: Path) -> Record:
    return Record(RecordDatabase.private(), root, "", RecordDatabase.private)


def empty_run(root: Path) -> RunLayout:
    layout = make_run(root, [], slots=slots_of("one", "two"), end=False)
    layout.journal.write_bytes(b"")
    return layout


# ------------------------------------------------------------------------------------------- the same, in any pieces


@pytest.mark.long
@settings(max_examples=40)
@given(events=odd_journals, data=st.data())
def test_D2_a_rebuild_equals_an_index_that_grew(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], data: st.DataObject
) -> None:
    """Cut anywhere, also inside lines; followed by one process, or taken up by another one after each piece."""
    root = tmp_path_factory.mktemp("results")
    layout = empty_run(root)
    journal = b"".join(lines_of([started(), *events]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(journal)), max_size=6), label="cuts"))
    anew_each_time = data.draw(st.booleans(), label="anew each time")
    record = private(root)
    try:
        for cut in [*cuts, len(journal)]:
            layout.journal.write_bytes(journal[:cut])
            view = RootView(record.database, root, "")
            index = RunIndex(
                view, "gpt-x_humaneval_chat/r1", batch_bytes=data.draw(st.integers(1, 3000), label="batch")
            )
            if anew_each_time:
                list(index.steps())
            else:
                record.index_run(layout.directory)
            assert content(record.database) == made_anew(root)
    finally:
        record.close()


@pytest.mark.long
def test_R5_a_torn_tail_at_every_offset_is_not_there_yet(tmp_path: Path) -> None:
    layout = empty_run(tmp_path)
    issue = issue_of("time.agent", "日本")
    short = [TryStarted("bbbbbbbbbbbb", "日", 0, 1), IssueRaised("bbbbbbbbbbbb", issue)]
    sealed_at_once = AttemptSealed("cccccccccccc", "one", 0, Verdict.SKIPPED, None, 0)
    events = [
        started(),
        *short,
        sealed_at_once,
        *list(attempt("aaaaaaaaaaaa", "one"))[7:],
        *list(attempt("bbbbbbbbbbbb", "日"))[-2:],
    ]
    lines = lines_of(events)
    whole = b"".join(lines)
    record = private(tmp_path)
    sealed = [isinstance(event, AttemptSealed) for event in events]
    for end in range(len(whole) + 1):
        layout.journal.write_bytes(whole[:end])
        record.index_run(layout.directory)
        complete = whole[:end].count(b"\n")
        [(indexed, events_indexed)] = query(record, "SELECT bytes, lines FROM journal")
        assert (indexed, events_indexed) == (len(b"".join(lines[:complete])), complete)
        assert query(record, "SELECT count(*) FROM attempt WHERE verdict IS NOT NULL") == [(sum(sealed[:complete]),)]
        if whole[:end].endswith(b"\n"):
            assert content(record.database) == made_anew(tmp_path)
    record.close()


def test_D2_a_run_is_followed_without_reading_it_again(tmp_path: Path) -> None:
    layout = empty_run(tmp_path)
    record = private(tmp_path)
    lines = lines_of([started(), *attempt("aaaaaaaaaaaa", "one"), *attempt("bbbbbbbbbbbb", "two")])
    counts = []
    for end in range(0, len(lines) + 1, 4):
        layout.journal.write_bytes(b"".join(lines[:end]))
        counts.append(record.index_run(layout.directory))
    assert counts == [0] + [4] * (len(counts) - 1)
    record.close()


# ----------------------------------------------------------------------------------------- as the other readers read it


def test_D3_opening_results_reads_no_journal_that_is_known(tmp_path: Path) -> None:
    """Each journal and plan is replaced by something else that looks the same from outside: nobody may notice."""
    runs = [
        make_run(
            tmp_path, attempt(f"{number:012d}", "one"), slots=slots_of("one"), run=f"r{number}", group=f"g{number % 7}"
        )
        for number in range(50)
    ]
    with Record.open(tmp_path) as record:
        before = content(record.database)
    for path in [path for run in runs for path in (run.journal, run.plan)]:
        seen = path.stat()
        with path.open("r+b") as file:
            file.write(b"?" * seen.st_size)
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    for opened in (Record.open, Record.look):
        with opened(tmp_path) as record:
            assert record.problems == {}
            assert content(record.database) == before


def test_rows_say_what_result_json_says(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [], end=False, plan=False)
    layout.journal.write_bytes(b"".join(encode(event, at) for event, at in rich_run()))
    record = private(tmp_path)
    record.catch_up()
    for fold in fold_attempts(read_journal(layout.journal)):
        result = fold.result()
        name = fold.attempt
        [row] = query(record, f"SELECT task, ordinal, verdict, score, tries, started_at, ended_at FROM attempt WHERE attempt_id = '{name}'")  # fmt: skip  # noqa: E501
        tries = result.get("tries", [])
        assert row == (
            result["task"], result["ordinal"], result["verdict"], result.get("score"), len(tries),
            result.get("started"), result["ended"],
        )  # fmt: skip
        phases = ", ".join(f"{phase}_seconds" for phase in Phase)
        kept = query(record, f"SELECT try_number, outcome, {phases} FROM try WHERE attempt_id = '{name}'")
        for plain, (number, outcome, *seconds) in zip(tries, kept, strict=True):
            assert (plain["number"], plain.get("outcome")) == (number, outcome)
            found = {phase: s for phase, s in zip(Phase, seconds, strict=True) if s is not None}
            ended = {phase: s for phase, s in plain.get("phases", {}).items() if s is not None}
            assert found == pytest.approx(ended, abs=1e-6)
            issues = query(record, f"SELECT code, message FROM issue WHERE attempt_id = '{name}' AND try_number = {number} ORDER BY position")  # fmt: skip  # noqa: E501
            assert issues == [(i["code"], i["message"].replace("\0", "\\0")) for i in plain.get("issues", [])]
    record.close()


@settings(max_examples=40)
@given(kind=st.sampled_from(list(EVENT_STRATEGIES)), data=st.data())
def test_the_index_finds_the_line_damaged_that_the_reader_does(
    tmp_path_factory: pytest.TempPathFactory, kind: type, data: st.DataObject
) -> None:
    """Any byte of a line is replaced: both read on, or both stop there."""
    root = tmp_path_factory.mktemp("results")
    line = bytearray(encode(data.draw(EVENT_STRATEGIES[kind]), AT))
    place = data.draw(st.integers(0, len(line) - 2), label="place")
    line[place] = data.draw(st.sampled_from(b'0-"x,}{[ '), label="byte")
    layout = empty_run(root)
    layout.journal.write_bytes(encode(started(), AT) + bytes(line) + encode(Interrupted(2), AT))
    reader = read_journal(layout.journal)
    try:
        count = sum(1 for _ in reader)
    except (JournalDamaged, NewerFormat):
        count = reader.lines
    record = private(root)
    record.catch_up()
    [(lines, problem)] = query(record, "SELECT lines, problem FROM journal")
    assert lines == count
    assert (problem is None) == (count == 3)
    record.close()


@settings(max_examples=15)
@example(values=(-1, 0.5))
@example(values=(1, 1.5))
@given(values=st.tuples(st.integers(-2, 2), st.floats(-1, 2)))
def test_values_that_the_model_refuses_are_damage(tmp_path_factory: pytest.TempPathFactory, values: Any) -> None:
    calls, score = values
    line = (
        b'{"type":"TryEnded","at":"2026-11-30T16:30:35.123456Z","attempt":"aaaaaaaaaaaa","try_number":1,"result":'
        b'{"outcome":"graded","grade":{"solved":true,"score":%s},"usage":{"calls":%d}}}\n'
        % (repr(score).encode(), calls)
    )
    layout = empty_run(tmp_path_factory.mktemp("results"))
    layout.journal.write_bytes(encode(started(), AT) + line)
    try:
        whole = sum(1 for _ in read_journal(layout.journal)) == 2
    except JournalDamaged:
        whole = False
    record = private(layout.directory.parent.parent)
    record.catch_up()
    assert query(record, "SELECT problem IS NULL FROM journal") == [(whole,)]
    record.close()


# -------------------------------------------------------------------------------------------------- what rows there are


def test_01_an_attempt_is_there_from_its_first_try_on_and_final_when_it_is_sealed(tmp_path: Path) -> None:
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one", grade=False), slots=slots_of("one", "two"), end=False)
    record = private(tmp_path)
    record.catch_up()
    columns = "attempt_id, identity, verdict, agent_seconds, execution_seconds, cost_usd, checkpoint_try"
    assert query(record, f"SELECT {columns} FROM attempt") == [
        ("aaaaaaaaaaaa", "identity of one", None, 2.0, 2.75, None, 1)
    ]
    assert query(record, "SELECT calls, cost_usd FROM usage") == [(2, 0.25)]
    with layout.journal.open("ab") as journal:
        rest = list(attempt("aaaaaaaaaaaa", "one"))[8:]
        journal.write(b"".join(lines_of(rest, at=AT + 100)))
    record.catch_up()
    assert query(record, f"SELECT {columns} FROM attempt") == [
        ("aaaaaaaaaaaa", "identity of one", "passed", 2.0, 3.75, 0.25, 1)
    ]
    assert query(record, "SELECT task, attempt_id, kind FROM member") == [("one", "aaaaaaaaaaaa", "origin")]
    record.close()


def test_09_unknown_cost_is_null_and_no_call_costs_nothing(tmp_path: Path) -> None:
    from proctor.model.attempt import NO_USAGE, Usage

    events = [
        *attempt("aaaaaaaaaaaa", "free", usage=NO_USAGE),
        *attempt("bbbbbbbbbbbb", "unknown", usage=Usage(calls=1)),
        *attempt("cccccccccccc", "known"),
    ]
    make_run(tmp_path, events)
    record = private(tmp_path)
    record.catch_up()
    assert query(record, "SELECT task, cost_usd FROM attempt ORDER BY task") == [
        ("free", 0.0), ("known", 0.25), ("unknown", None),
    ]  # fmt: skip
    record.close()


def test_what_comes_after_the_end_of_an_attempt_changes_nothing(tmp_path: Path) -> None:
    late: list[Event] = [
        SandboxDisposed("aaaaaaaaaaaa", "box"),
        IssueRaised("aaaaaaaaaaaa", issue_of("dispose.failed", "late")),
        TryStarted("aaaaaaaaaaaa", "other", 1, 2),
        TryEnded("aaaaaaaaaaaa", 2, list(attempt("x", "y"))[-2].result),
        AttemptSealed("aaaaaaaaaaaa", "other", 1, list(attempt("x", "y", solved=False))[-1].verdict, 0.0, 2),
    ]
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), end=False)
    record = private(tmp_path)
    record.catch_up()
    before = {name: rows for name, rows in content(record.database).items() if name != "journal"}
    for number, event in enumerate(late):
        with layout.journal.open("ab") as journal:
            journal.write(encode(event, AT + 100 + number))
        record.index_run(layout.directory)
    assert {name: rows for name, rows in content(record.database).items() if name != "journal"} == before
    assert content(record.database) == made_anew(tmp_path)
    record.close()


def test_what_concerns_a_whole_run_is_in_its_row_and_its_issues(tmp_path: Path) -> None:
    events: list[Event] = [
        SetupEnded("base", issue_of("experiment.setup_failed", "no database")),
        DispatchStopped("base", StopReason.SCOPE_STOPPED, 3),
        DispatchStopped("base", StopReason.INTERRUPT, 2),
        Interrupted(15),
        TeardownEnded("base", issue_of("experiment.teardown_failed", "still no database")),
        RunEnded("base", Completion.INTERRUPTED),
    ]
    layout = empty_run(tmp_path)
    record = private(tmp_path)
    for count in range(len(events) + 1):  # piece by piece, so that counts go on where they stood
        layout.journal.write_bytes(b"".join(lines_of([started(), *events[:count]])))
        private_record = private(tmp_path)
        record.index_run(layout.directory)
        private_record.close()
    columns = "experiment, benchmark, harness, model, slots, completion, not_dispatched, signal, agent_timeout_seconds"
    assert query(record, f"SELECT {columns} FROM run") == [
        ("base", "humaneval", "chat", "gpt-x", 2, "interrupted", 5, 15, 60.0)
    ]
    assert query(record, "SELECT attempt_id, position, code FROM issue ORDER BY position") == [
        (None, 0, "experiment.setup_failed"), (None, 1, "experiment.teardown_failed"),
    ]  # fmt: skip
    assert query(record, "SELECT invocation_id, runs, signal FROM invocation") == [("invocation01", 1, 15)]
    record.close()


def test_an_invocation_has_ended_when_all_its_runs_have(tmp_path: Path) -> None:
    make_run(tmp_path, [], run="r1", at=AT)
    make_run(tmp_path, [], run="r2", at=AT + 50, end=False)
    record = private(tmp_path)
    record.catch_up()
    assert query(record, "SELECT runs, started_at, ended_at FROM invocation") == [
        (2, "2026-11-30T16:30:35.123456Z", None)
    ]
    with RunLayout(tmp_path / "gpt-x_humaneval_chat" / "r2").journal.open("ab") as journal:
        journal.write(encode(RunEnded("base", Completion.COMPLETE), AT + 99))
    record.catch_up()
    assert query(record, "SELECT ended_at FROM invocation") == [("2026-11-30T16:32:14.123456Z",)]
    record.close()


def test_C3_a_reused_slot_is_a_reference_with_its_reason(tmp_path: Path) -> None:
    slots = [
        *slots_of("one", decision="reuse", reason="identity equal", source="zzzzzzzzzzzz"),
        *slots_of("two", decision="accept", reason="reviewed", source="yyyyyyyyyyyy"),
        *slots_of("three", decision="grade only", source="xxxxxxxxxxxx"),
        *slots_of("four", decision="not dispatched", reason="early exit", source="wwwwwwwwwwww"),
    ]
    layout = make_run(tmp_path, [], slots=slots, parts={"one": {"task": "t1"}}, end=False)
    record = private(tmp_path)
    record.catch_up()
    members = "SELECT task, attempt_id, kind, source_directory FROM member ORDER BY task"
    assert query(record, members) == [
        ("one", "zzzzzzzzzzzz", "reference", None), ("two", "yyyyyyyyyyyy", "reference", None),
    ]  # fmt: skip
    filled = SlotFilled("zzzzzzzzzzzz", "one", 0, "group/r0", Verdict.PASSED, 1.0)
    with layout.journal.open("ab") as journal:
        journal.write(encode(filled, AT + 9) + encode(filled, AT + 9))
    record.catch_up()
    assert query(record, members) == [
        ("one", "zzzzzzzzzzzz", "reference", "group/r0"), ("two", "yyyyyyyyyyyy", "reference", None),
    ]  # fmt: skip
    assert content(record.database) == made_anew(tmp_path)
    reasons = "SELECT decision, reason FROM slot JOIN member USING (run_key, task, ordinal) ORDER BY task"
    assert query(record, reasons) == [("reuse", "identity equal"), ("accept", "reviewed")]
    assert query(record, "SELECT task, position FROM slot ORDER BY position") == [
        ("one", 0), ("two", 1), ("three", 2), ("four", 3),
    ]  # fmt: skip
    assert query(record, "SELECT task, part, hash FROM identity_part ORDER BY task") == [
        ("", "model", "m1"), ("one", "task", "t1"),
    ]  # fmt: skip
    record.close()


# ------------------------------------------------------------------------------------------- files that change under it


def test_D1_a_damaged_line_ends_the_index_and_is_looked_at_again(tmp_path: Path) -> None:
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), end=False)
    whole = layout.journal.read_bytes()
    layout.journal.write_bytes(whole + b"{oops}\n" + encode(Interrupted(2), AT))
    record = private(tmp_path)
    found = record.catch_up()
    [problem] = found.problems.values()
    assert "line 14" in problem
    assert f"byte {len(whole)}" in problem
    assert record.catch_up().problems == found.problems
    assert query(record, "SELECT signal FROM run") == [(None,)]
    layout.journal.write_bytes(whole + encode(Interrupted(2), AT))
    assert record.catch_up().problems == {}
    assert content(record.database) == made_anew(tmp_path)
    record.close()


CHANGES = ["shorter", "other", "other and longer", "plan", "no plan"]


@pytest.mark.parametrize(
    ("change", "followed"), [*((change, False) for change in CHANGES), ("shorter", True), ("renamed over", True)]
)
def test_a_journal_or_plan_that_is_not_what_it_was_is_indexed_anew(tmp_path: Path, change: str, followed: bool) -> None:
    """By whoever starts, and, as far as it can be noticed, by the one who has followed it so far."""
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one", "two"))
    record = private(tmp_path)
    record.index_run(layout.directory) if followed else record.catch_up()
    other = lines_of([started(), *attempt("bbbbbbbbbbbb", "two")])
    if change == "shorter":
        layout.journal.write_bytes(b"".join(layout.journal.read_bytes().splitlines(keepends=True)[:5]))
    elif change == "other":
        layout.journal.write_bytes(b"".join(other)[: layout.journal.stat().st_size])
    elif change == "other and longer":
        layout.journal.write_bytes(b"".join(other) * 2)
    elif change == "renamed over":
        layout.journal.with_name("other").write_bytes(b"".join(other) * 2)
        layout.journal.with_name("other").replace(layout.journal)
    else:
        layout.plan.unlink()
        if change == "plan":
            write_plan(layout.plan, PlanFile({"name": "other"}, slots_of("three"), {"model": "m2"}, {}))
        with layout.journal.open("ab") as journal:
            journal.write(encode(Interrupted(2), AT))
    record.index_run(layout.directory) if followed else record.catch_up()
    assert content(record.database) == made_anew(tmp_path)
    record.close()


def test_D7_a_copied_results_root_is_known_again_by_content(tmp_path: Path) -> None:
    layout = make_run(tmp_path / "results", attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    Record.open(tmp_path / "results").close()
    shutil.copytree(tmp_path / "results", tmp_path / "moved")
    for path in (tmp_path / "moved").rglob("*.json*"):
        os.utime(path, ns=(1, 1))
    with Record.open(tmp_path / "moved", catch_up=False) as record:
        found = record.catch_up()
        assert (found.runs, found.events) == (1, 0), "nothing is indexed again"
        [info] = record.runs()
        assert info.directory == tmp_path / "moved" / layout.directory.relative_to(tmp_path / "results")


def test_a_run_that_was_copied_within_the_results_is_a_run_of_its_own(tmp_path: Path) -> None:
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    shutil.copytree(layout.directory, layout.directory.with_name("copy"))
    record = private(tmp_path)
    record.catch_up()
    assert query(record, "SELECT count(*), count(DISTINCT run_key) FROM attempt") == [(2, 2)]
    assert len(record.attempts("aaaa")) == 2
    record.close()


def test_problems_are_told_and_leave_the_other_runs_alone(tmp_path: Path) -> None:
    good = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), run="good")
    newer = make_run(tmp_path, [], run="newer")
    newer.journal.write_bytes(newer.journal.read_bytes().replace(b'"format":1', b'"format":99'))
    no_plan = make_run(tmp_path, attempt("bbbbbbbbbbbb", "two"), run="no-plan")
    no_plan.plan.write_text("{")
    record = private(tmp_path)
    problems = record.catch_up().problems
    assert {name.rpartition("/")[2] for name in problems} == {"newer", "no-plan"}
    assert "newer proctor" in problems[f"{newer.directory.parent.name}/newer"]
    assert query(record, "SELECT attempt_id FROM attempt ORDER BY 1") == [("aaaaaaaaaaaa",), ("bbbbbbbbbbbb",)]
    write_plan(no_plan.plan, PlanFile({"name": "base"}, slots_of("two"), {}, {}))
    assert len(record.catch_up().problems) == 1
    assert content(record.database) == made_anew(tmp_path)
    assert good.directory.is_dir()
    record.close()


def test_a_run_that_is_removed_meanwhile_is_no_error(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [])
    shutil.rmtree(layout.directory)
    record = private(tmp_path)
    assert record.index_run(layout.directory) == 0
    record.close()


def test_a_run_outside_of_the_results_is_refused(tmp_path: Path) -> None:
    record = private(tmp_path / "results")
    with pytest.raises(UsageError, match="is not in"):
        record.index_run(tmp_path / "elsewhere" / "r1")
    record.close()


def test_numbers_beyond_what_a_database_holds_are_cut(tmp_path: Path) -> None:
    layout = make_run(tmp_path, [], end=False)
    big = RunStarted(1, "i", "r", "base", "0.1.0", "host", 2**63, 2**63)
    layout.journal.write_bytes(encode(big, AT) + encode(TryStarted("aaaaaaaaaaaa", "one", 2**63, 2**63), AT))
    record = private(tmp_path)
    record.catch_up()
    assert query(record, "SELECT pid, slots FROM run") == [(2**63 - 1, 2**63 - 1)]
    assert query(record, "SELECT ordinal FROM attempt") == [(2**63 - 1,)]
    record.close()
