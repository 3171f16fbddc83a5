"""Reading journals: torn ends, damage, live writers (spec 08 D1, D4; 04 R5)."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from store_cases import AT, rich_run, tree

from proctor.errors import JournalDamaged, StoreError
from proctor.model.events import GradingQueued, RunStarted
from proctor.store.codec import FORMAT_VERSION, NewerFormat, decode, encode
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, read_plan, write_plan
from proctor.store.reader import TornTail, read_journal

LINES = [encode(event, at) for event, at in rich_run()]
EVENTS = [decode(line) for line in LINES]


def test_D1_a_last_line_cut_at_every_byte_is_set_aside_and_reported_once(tmp_path: Path) -> None:
    """Store 64: also inside a character of several bytes; every complete line is there."""
    path = tmp_path / "journal.jsonl"
    last = encode(GradingQueued("日本é𝔸" * 3), AT)
    before = b"".join(LINES[:3])
    for cut in range(len(last)):
        path.write_bytes(before + last[:cut])
        reader = read_journal(path)
        assert list(reader) == EVENTS[:3]
        assert reader.torn == (TornTail(len(before), cut) if cut else None)
        assert list(reader) == []


def test_I2_a_whole_journal_cut_anywhere_gives_its_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = b"".join(LINES)
    for cut in range(0, len(whole) + 1, 23):
        path.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n")
        reader = read_journal(path)
        assert list(reader) == EVENTS[:complete]
        assert (reader.torn is None) == (whole[:cut].endswith(b"\n") or cut == 0)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff\xfe", b"{" * 100])
def test_an_end_without_a_newline_is_torn_whatever_is_in_it(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(LINES[0] + tail)
    reader = read_journal(path)
    assert list(reader) == EVENTS[:1]
    assert reader.torn == TornTail(len(LINES[0]), len(tail))


@pytest.mark.parametrize("damage", [b"\0" * 50 + b"\n", b'{"type":"TryStarted"}\n', b"\n", LINES[1][10:]])
def test_damage_in_the_middle_is_named_by_line_and_what_was_before_it_is_had(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(LINES[:5]) + damage + b"".join(LINES[5:]))
    reader = read_journal(path)
    items = iter(reader)
    read = [next(items) for _ in range(5)]
    with pytest.raises(JournalDamaged, match="damaged at line 6") as caught:
        next(items)
    assert str(path) in caught.value.message
    assert read == EVENTS[:5]
    assert reader.offset == sum(map(len, LINES[:5]))


def test_D4_a_newer_journal_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(encode(RunStarted(FORMAT_VERSION + 1, "i", "r", "e", "9", "h", 1, 1), AT))
    with pytest.raises(NewerFormat) as caught:
        list(read_journal(path))
    assert caught.value.message == f"journal `{path}`, line 1: journal of format 2: written by a newer proctor"
    assert "upgrade" in str(caught.value.hint)


def test_a_live_journal_is_followed_and_its_unfinished_line_is_not_torn(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = encode(GradingQueued("x"), AT)
    with Journal.create(path, at=AT) as journal:
        reader = read_journal(path)
        assert list(reader) == []
        journal.append(GradingQueued("x"), AT)
        journal.flush()
        with path.open("ab") as file:  # as a reader may see a write that is under way
            file.write(line[:20])
        assert list(reader) == [(GradingQueued("x"), AT)]
        assert reader.torn is None, "the writer lives, so the rest of the line is still to come"
        with path.open("ab") as file:
            file.write(line[20:])
        assert list(reader) == [(GradingQueued("x"), AT)]
        with path.open("ab") as file:
            file.write(line[:20])
    assert list(reader) == []
    assert reader.torn == TornTail(2 * len(line), 20)


def test_a_line_that_ends_while_its_writer_goes_away_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer ends the line and leaves between our read and our look at its lock."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(LINES[0][:-20])

    def finish(journal: Path) -> bool:
        journal.write_bytes(LINES[0])
        return False

    monkeypatch.setattr("proctor.store.reader.is_being_written", finish)
    reader = read_journal(path)
    assert list(reader) == EVENTS[:1]
    assert reader.torn is None


def test_reading_streams(tmp_path: Path) -> None:
    """The memory for a journal of 20 MB is that of a few lines."""
    path = tmp_path / "journal.jsonl"
    line = encode(GradingQueued("x" * 900), AT)
    path.write_bytes(line * 20_000)
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_journal(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 1_000_000


def test_a_journal_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no journal") as caught:
        list(read_journal(tmp_path / "journal.jsonl"))
    assert caught.value.hint
    with pytest.raises(StoreError, match="is a directory"):
        list(read_journal(tmp_path))


def test_R2_reading_a_run_changes_nothing(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    plan = PlanFile({"name": "e"}, (PlannedSlot("t", 0, "i"),))
    write_plan(layout.plan, plan)
    layout.journal.write_bytes(b"".join(LINES) + b'{"type":"TryEn')
    before = tree(tmp_path)
    reader = read_journal(layout.journal)
    assert read_plan(layout.plan) == plan
    assert list(reader) == EVENTS
    assert reader.torn is not None
    assert tree(tmp_path) == before
