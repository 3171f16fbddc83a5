"""The quick index says of each slot what the whole journal says (spec 07: every view is a fold of the one stream)."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_runs import START, Told, broken_try, good_try, sealed, started

from proctor.model.attempt import Phase, Verdict
from proctor.model.events import AttemptSealed, PhaseStarted, SlotFilled, TryStarted
from proctor.store.codec import encode
from proctor.store.reader import read_journal
from proctor.viewer import journal_lines
from proctor.viewer.run_read import RunFold
from proctor.viewer.slot_index import SlotIndex

ATTEMPT = "abcdefghijkl"
TASKS = ["a", "task", 'quo"te', "\u202e\u0000line\nend", '{"type":"AttemptSealed","attempt":"', "\ud800", "任务"]


@st.composite
def stories(draw: st.DrawFn) -> list[Told]:
    """Events of some slots, each slot's in order, all of them mixed; some slots are left in the middle."""
    places = draw(st.lists(st.tuples(st.sampled_from(TASKS), st.integers(0, 3)), unique=True, max_size=8))
    lines: list[list[Told]] = []
    for number, (task, ordinal) in enumerate(places):
        attempt = f"abcdefghijk{'abcdefgh'[number]}"
        lines.append(draw(one_slot(attempt, task, ordinal))[: draw(st.integers(0, 40))])
    mixed = [started()]
    while lines := [line for line in lines if line]:
        mixed.append(draw(st.sampled_from(lines)).pop(0))
    return [(event, START + number) for number, (event, _) in enumerate(mixed)]


@st.composite
def one_slot(draw: st.DrawFn, attempt: str, task: str, ordinal: int) -> list[Told]:
    verdict = draw(st.sampled_from(Verdict))
    score = draw(st.sampled_from([None, 0.0, 0.25, 1.0]))
    kind = draw(st.sampled_from(["reused", "accepted", "run", "run again", "never tried"]))
    if kind in ("reused", "accepted"):
        return [(SlotFilled(attempt, task, ordinal, "m/r", verdict, score, accepted=kind == "accepted"), START)]
    tries = {"run": 1, "run again": 2, "never tried": 0}[kind]
    events: list[Told] = []
    for number in range(1, tries + 1):
        inside = broken_try(attempt, task, START, "no") if number < tries else good_try(attempt, task, START)
        events += [(TryStarted(attempt, task, ordinal, number), START), *inside[1:-1], inside[-1]]
    return [*events, (AttemptSealed(attempt, task, ordinal, verdict, score, tries), START)]


def folded(journal: Path) -> dict[tuple[str, int], tuple[object, ...]]:
    fold = RunFold(None)
    fold.follow(read_journal(journal))
    return {
        (row["task"], row["ordinal"]): (
            row.get("attempt"), row["verdict"], row.get("score"), row.get("accepted_from") or row.get("reused_from"),
        )
        for row in fold.rows()
    }  # fmt: skip


def indexed(index: SlotIndex) -> dict[tuple[str, int], tuple[object, ...]]:
    return {
        (one.task, one.ordinal): (one.attempt, one.verdict and one.verdict.value, one.score, one.source)
        for one in index
    }


@given(stories())
def test_it_says_what_the_whole_journal_says(story: list[Told]) -> None:
    with TemporaryDirectory() as directory:
        journal = Path(directory, "journal.jsonl")
        journal.write_bytes(b"".join(encode(event, at) for event, at in story))
        index = SlotIndex(journal)
        index.follow()
        assert indexed(index) == folded(journal)
        assert not index.damaged
        assert index.offset == journal.stat().st_size


@settings(max_examples=60)
@given(stories(), st.lists(st.integers(0, 10**6), max_size=6), st.integers(20, 900))
def test_a_live_run_is_followed_in_pieces_cut_at_any_byte(story: list[Told], cuts: list[int], chunk: int) -> None:
    content = b"".join(encode(event, at) for event, at in story)
    places = sorted({cut % (len(content) + 1) for cut in cuts} | {len(content)})
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_lines, "CHUNK_BYTES", chunk)
        journal = Path(directory, "journal.jsonl")
        journal.touch()
        index, whole = SlotIndex(journal), Path(directory, "whole.jsonl")
        for place in places:
            journal.write_bytes(content[:place])
            index.follow()
            whole.write_bytes(content[: content.rfind(b"\n", 0, place) + 1])
            assert indexed(index) == folded(whole)


@given(stories(), st.data())
def test_damaged_lines_are_said_and_take_nothing_else_with_them(story: list[Told], data: st.DataObject) -> None:
    lines = [encode(event, at) for event, at in story]
    hurt = data.draw(st.integers(0, len(lines) - 1))
    kept = data.draw(st.integers(0, len(lines[hurt]) - 2))
    with TemporaryDirectory() as directory:
        journal = Path(directory, "journal.jsonl")
        journal.write_bytes(b"".join([*lines[:hurt], lines[hurt][:kept] + b"\xff\n", *lines[hurt + 1 :]]))
        index = SlotIndex(journal)
        index.follow()
        read = lines[hurt][:kept].startswith(
            (b'{"type":"TryStarted",', b'{"type":"AttemptSealed",', b'{"type":"SlotFilled",')
        )
        assert index.damaged or not read or isinstance(story[hurt][0], TryStarted)  # not looked at once it has ended
        journal.write_bytes(b"".join([*lines[:hurt], *lines[hurt + 1 :]]))
        without = SlotIndex(journal)
        without.follow()
        assert indexed(index) == indexed(without)


def test_lines_that_say_the_right_things_of_no_attempt_are_damage(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(
        b'{"type":"AttemptSealed","at":"2026-11-30T16:30:35.123456Z","task":"a","ordinal":0,"verdict":"passed"}\n'
        b'{"type":"SlotFilled","attempt":"abcdefghijkl","task":"a","ordinal":0,"verdict":"unheard of"}\n'
        b'{"type":"TryStarted","attempt":5}\n'
    )
    index = SlotIndex(journal)
    index.follow()
    assert (len(index), index.damaged) == (0, True)
    assert index.of("a", 0).verdict is None


def test_other_events_about_an_attempt_do_not_make_a_slot(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(encode(PhaseStarted("abcdefghijkl", Phase.AGENT), START))
    index = SlotIndex(journal)
    index.follow()
    assert len(index) == 0
    assert index.by_id("abcdefghijkl") is None


def test_M5_a_score_that_cannot_be_is_damage(tmp_path: Path) -> None:
    lines = [
        encode(event, START) for event, _ in [started(), *good_try(ATTEMPT, "x", START), sealed(ATTEMPT, "x", START)]
    ]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines).replace(b'"score":1.0,"tries"', b'"score":1.5,"tries"'))
    index = SlotIndex(tmp_path / "journal.jsonl")
    index.follow()
    assert index.damaged
    assert index.of("x", 0).score is None
