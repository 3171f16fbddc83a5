"""What may fill a slot, as the record tells it: newest first, per slot, from a scope (spec 04, R1 and C1 to C3)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from record_rig import attempt, make_run, slots_of
from store_cases import AT

from proctor.errors import UsageError
from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Event,
    IssueRaised,
    PhaseEnded,
    SavedFile,
    TryEnded,
    TryStarted,
)
from proctor.store import record_candidates
from proctor.store.record import Candidate, Record, Scope
from proctor.store.record_candidate import CandidateIssue, Checkpoint, CheckpointFile
from proctor.store.record_lookup import EVERYTHING

ONE, TWO = "identity of one", "identity of two"
EVERY = [ONE, TWO]


@pytest.fixture(params=["scan", "join"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and many wanted slots are looked up in different ways, with the same answers."""
    monkeypatch.setattr(record_candidates, "_LOOKED_AT", 10**9 if request.param == "scan" else 0)


def found(root: Path, scope: Scope = EVERYTHING, **options: object) -> dict[str, list[Candidate]]:
    with Record.look(root) as record:
        return record.candidates(EVERY, scope, **options)  # type: ignore[arg-type]


def ids(candidates: dict[str, list[Candidate]]) -> dict[str, list[str]]:
    return {identity: [one.attempt_id for one in some] for identity, some in candidates.items()}


def test_R1_the_newest_run_comes_first_for_each_slot(tmp_path: Path) -> None:
    """A reuse that broke off early does not hide the complete run before it."""
    make_run(
        tmp_path,
        [*attempt("aaaaaaaaaaaa", "one"), *attempt("bbbbbbbbbbbb", "two", solved=False)],
        slots=slots_of("one", "two"),
        run="r1",
    )
    make_run(tmp_path, attempt("cccccccccccc", "one"), slots=slots_of("one", "two"), run="r2", at=AT + 100, end=False)
    assert ids(found(tmp_path)) == {ONE: ["cccccccccccc", "aaaaaaaaaaaa"], TWO: ["bbbbbbbbbbbb"]}


def test_a_candidate_says_what_a_plan_decides_on(tmp_path: Path) -> None:
    files = [SavedFile("checkpoint/b.txt", "b" * 64, 7), SavedFile("checkpoint/a.txt", "a" * 64, 5)]
    issue = issue_of("harness.exit_nonzero", "exit status 1", Phase.AGENT)
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one", issues=[issue], files=files), slots=slots_of("one"))
    [one] = found(tmp_path)[ONE]
    assert one.run_dir == layout.directory
    assert (one.run_id, one.task, one.ordinal, one.identity) == ("r1", "one", 0, ONE)
    assert (one.verdict, one.score, one.tries, one.sealed) == ("passed", 1.0, 1, True)
    assert (one.agent_seconds, one.execution_seconds) == (2.0, 3.75)
    assert one.issues == (CandidateIssue("harness.exit_nonzero", "ERROR", "exit status 1"),)
    assert (one.started_at, one.ended_at) == ("2026-11-30T16:30:36.123456Z", "2026-11-30T16:30:47.123456Z")
    assert one.checkpoint is None, "it has a grade"


@pytest.mark.parametrize("state", ["cut off", "errored"])
def test_what_was_saved_of_an_attempt_without_a_grade(tmp_path: Path, state: str) -> None:
    files = [SavedFile("checkpoint/b.txt", "b" * 64, 7), SavedFile("checkpoint/a.txt", "a" * 64, 5)]
    crashed = issue_of("grader.crashed", "no module", Phase.GRADE)
    events = attempt("aaaaaaaaaaaa", "one", files=files, grade=state == "errored", broken=True, issues=[crashed])
    make_run(tmp_path, events, slots=slots_of("one"), end=False)
    [one] = found(tmp_path)[ONE]
    assert one.verdict == (None if state == "cut off" else "errored")
    assert one.checkpoint == Checkpoint(
        1,
        "ab" * 32,
        (CheckpointFile("checkpoint/a.txt", "a" * 64, 5), CheckpointFile("checkpoint/b.txt", "b" * 64, 7)),
    )
    assert [issue.code for issue in one.issues] == ([] if state == "cut off" else ["grader.crashed"])


def test_only_the_issues_of_the_counted_try_count(tmp_path: Path) -> None:
    lost = issue_of("provider.lost", "gone", Phase.AGENT)
    events: list[Event] = [
        TryStarted("aaaaaaaaaaaa", "one", 0, 1),
        IssueRaised("aaaaaaaaaaaa", issue_of("usage.missing", "raised on the way")),
        TryEnded("aaaaaaaaaaaa", 1, TryResult(Outcome.BROKEN, issues=(lost,))),
        *attempt("aaaaaaaaaaaa", "one", number=2),
    ]
    make_run(tmp_path, events, slots=slots_of("one"))
    [one] = found(tmp_path)[ONE]
    assert (one.tries, one.issues) == (2, ())


def test_an_attempt_without_a_try_has_the_issues_that_kept_it_from_one(tmp_path: Path) -> None:
    events: list[Event] = [
        IssueRaised("aaaaaaaaaaaa", issue_of("image.missing", "no image")),
        AttemptSealed("aaaaaaaaaaaa", "one", 0, Verdict.ERRORED, None, 0),
    ]
    make_run(tmp_path, events, slots=slots_of("one"))
    [one] = found(tmp_path)[ONE]
    assert (one.verdict, one.tries, one.agent_seconds) == ("errored", 0, None)
    assert [issue.code for issue in one.issues] == ["image.missing"]


@pytest.mark.parametrize(("code", "agent", "execution"), [("time.agent", 60.0, 62.35), ("time.attempt", 60.6, 300.0)])
def test_C1_what_a_limit_ended_counts_as_exactly_that_limit(
    tmp_path: Path, code: str, agent: float, execution: float
) -> None:
    issue = issue_of(code, "limit reached", Phase.AGENT)
    events = attempt("aaaaaaaaaaaa", "one", issues=[issue], agent_seconds=60.6)
    make_run(tmp_path, events, slots=slots_of("one"))
    [one] = found(tmp_path)[ONE]
    assert (one.agent_seconds, one.execution_seconds) == (agent, execution)


def test_C1_a_try_that_only_graded_counts_the_work_that_it_graded(tmp_path: Path) -> None:
    """Within one run, and over three of them."""
    graded = TryResult(Outcome.GRADED, Grade(True, 1.0))
    again: list[Event] = [
        TryStarted("aaaaaaaaaaaa", "one", 0, 2, grading_only=True),
        PhaseEnded("aaaaaaaaaaaa", Phase.GRADE, 8.0),
        TryEnded("aaaaaaaaaaaa", 2, graded),
        AttemptSealed("aaaaaaaaaaaa", "one", 0, Verdict.PASSED, 1.0, 2),
    ]
    make_run(
        tmp_path,
        [*list(attempt("aaaaaaaaaaaa", "one", broken=True))[:-1], *again],
        slots=slots_of("one"),
        group="within",
    )
    [one] = found(tmp_path)[ONE]
    assert (one.agent_seconds, one.execution_seconds) == (2.0, 10.75)

    make_run(tmp_path, attempt("bbbbbbbbbbbb", "two", grade=False), slots=slots_of("two"), end=False)
    for number, (name, source, sealed) in enumerate(
        [("cccccccccccc", "bbbbbbbbbbbb", False), ("dddddddddddd", "cccccccccccc", True)], 2
    ):
        events: list[Event] = [TryStarted(name, "two", 0, 1, grading_only=True), PhaseEnded(name, Phase.GRADE, 4.0)]
        if sealed:
            events += [TryEnded(name, 1, graded), AttemptSealed(name, "two", 0, Verdict.PASSED, 1.0, 1)]
        slots = slots_of("two", decision="grade only", source=source)
        make_run(tmp_path, events, slots=slots, run=f"r{number}", at=AT + 100 * number, end=sealed)
    newest, *_ = found(tmp_path)[TWO]
    assert newest.attempt_id == "dddddddddddd"
    assert (newest.agent_seconds, newest.execution_seconds) == (2.0, 6.75)


# -------------------------------------------------------------------------------------------------------------- scopes


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Two runs of one group, and a newer one of another, all for the same slot."""
    for number, (group, name) in enumerate([("a", "aaaaaaaaaaaa"), ("a", "bbbbbbbbbbbb"), ("b", "cccccccccccc")], 1):
        make_run(tmp_path, attempt(name, "one"), slots=slots_of("one"), group=group, run=f"r{number}", at=AT + number)
    return tmp_path


def test_scopes(three: Path) -> None:
    assert ids(found(three)) == {ONE: ["cccccccccccc", "bbbbbbbbbbbb", "aaaaaaaaaaaa"]}
    assert ids(found(three, Scope(group=three / "a"))) == {ONE: ["bbbbbbbbbbbb", "aaaaaaaaaaaa"]}
    assert ids(found(three, Scope(run=three / "a" / "r1"))) == {ONE: ["aaaaaaaaaaaa"]}
    assert ids(found(three, Scope(experiment="base", run=three / "b" / "r3"))) == {ONE: ["cccccccccccc"]}
    assert found(three, Scope(experiment="other")) == {}
    with Record.look(three) as record:
        assert [info.run_id for info in record.runs()] == ["r3", "r2", "r1"]
        assert [info.run_id for info in record.runs(Scope(group=three / "a"))] == ["r2", "r1"]
        with pytest.raises(UsageError, match="is not in"):
            record.runs(Scope(group=three.parent))


def test_R1_what_a_run_references_comes_with_it_wherever_it_is(three: Path) -> None:
    """A reference counts also in the plan of a killed run, and is as new as that run."""
    slots = slots_of("one", decision="reuse", reason="identity equal", source="aaaaaaaaaaaa")
    make_run(three, [], slots=slots, group="c", run="r4", at=AT + 100, end=False)
    assert ids(found(three, Scope(run=three / "c" / "r4"))) == {ONE: ["aaaaaaaaaaaa"]}
    assert ids(found(three)) == {ONE: ["aaaaaaaaaaaa", "cccccccccccc", "bbbbbbbbbbbb"]}


def test_R1_a_run_leads_to_the_work_that_it_only_graded_which_is_no_newer_for_it(three: Path) -> None:
    slots = slots_of("one", decision="grade only", reason=None, source="aaaaaaaaaaaa")
    make_run(three, [], slots=slots, group="c", run="r4", at=AT + 100, end=False)
    assert ids(found(three, Scope(run=three / "c" / "r4"))) == {ONE: ["aaaaaaaaaaaa"]}
    assert ids(found(three)) == {ONE: ["cccccccccccc", "bbbbbbbbbbbb", "aaaaaaaaaaaa"]}
    closed = slots_of("one", decision="not dispatched", reason="early exit", source="bbbbbbbbbbbb")
    make_run(three, [], slots=closed, group="c", run="r5", at=AT + 101)
    assert found(three, Scope(run=three / "c" / "r5")) == {}, "that attempt is of another slot"


def test_an_accepted_attempt_fills_slots_of_the_identity_that_it_was_accepted_for(three: Path) -> None:
    slots = slots_of("two", decision="accept", reason="reviewed", source="bbbbbbbbbbbb")
    make_run(three, [], slots=slots, group="c", run="r4", at=AT + 100)
    [one] = found(three)[TWO]
    assert (one.attempt_id, one.identity, one.task) == ("bbbbbbbbbbbb", ONE, "one")


def test_older_attempts_than_one_that_is_enough_may_be_left_out(three: Path) -> None:
    make_run(three, attempt("dddddddddddd", "one", solved=False), slots=slots_of("one"), group="b", run="r4", at=AT + 9)
    some = found(three, enough=lambda one: one.verdict == "passed")
    assert ids(some) == {ONE: ["dddddddddddd", "cccccccccccc"]}


def test_runs_that_are_gone_have_no_candidates(three: Path) -> None:
    with Record.open(three) as record:
        shutil.rmtree(three / "b")
        assert ids(record.candidates(EVERY)) == {ONE: ["bbbbbbbbbbbb", "aaaaaaaaaaaa"]}
        assert record.candidates([]) == {}
        assert record.candidates(["unknown"]) == {}


# -------------------------------------------------------------------------------------------------- what was before


def test_P4_what_filled_a_slot_before_says_which_part_has_changed(tmp_path: Path) -> None:
    for number, (shared, own) in enumerate([("m1", "t1"), ("m2", "t2")], 1):
        make_run(
            tmp_path,
            attempt(f"{number}" * 12, "one"),
            slots=slots_of("one", "two"),
            run=f"r{number}",
            at=AT + number * 100,
            shared={"model": shared},
            parts={"one": {"task": own}, "two": {"task": "other"}},
        )
    with Record.look(tmp_path) as record:
        before = record.previous([("one", 0), ("one", 1), ("two", 0)], Scope(experiment="base"))
        assert list(before) == [("one", 0)]
        last = before["one", 0]
        assert (last.attempt_id, last.run_dir.name, last.identity) == ("2" * 12, "r2", ONE)
        assert last.parts == {"model": "m2", "task": "t2"}
        assert record.previous([], Scope()) == {}


def test_P4_what_is_gone_is_said_where_there_is_nothing_else(three: Path) -> None:
    slots = slots_of("one", "two", decision="reuse", reason=None, source="cccccccccccc")
    make_run(three, [], slots=slots, group="b", run="r4", at=AT + 100, parts={"two": {"task": "t"}})
    with Record.open(three) as record:
        shutil.rmtree(three / "b" / "r3")
        wanted = [("one", 0), ("two", 0)]
        both = record.previous(wanted, Scope(group=three / "b"))
        assert [(one.attempt_id, one.gone) for one in both.values()] == [("cccccccccccc", True)] * 2
        assert both["two", 0].parts == {"model": "m1", "task": "t"}
        everywhere = record.previous(wanted)
        assert (everywhere["one", 0].attempt_id, everywhere["one", 0].gone) == ("bbbbbbbbbbbb", False)
        record.rebuild()
        assert record.previous(wanted, Scope(group=three / "b")) == both, "as far as other runs name it"


def test_attempts_are_found_by_the_beginning_of_their_ids(tmp_path: Path) -> None:
    make_run(tmp_path, [*attempt("abcdefghijkl", "one"), *attempt("abcdzzzzzzzz", "two", seal=False)])
    with Record.look(tmp_path) as record:
        assert [(one.attempt_id, one.task, one.verdict) for one in record.attempts("abcd")] == [
            ("abcdefghijkl", "one", "passed"), ("abcdzzzzzzzz", "two", None),
        ]  # fmt: skip
        assert [one.attempt_id for one in record.attempts("abcde")] == ["abcdefghijkl"]
        assert record.attempts("abcdf") == record.attempts("%") == record.attempts("abcdefghijklm") == []
