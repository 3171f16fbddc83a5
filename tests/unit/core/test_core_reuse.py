"""The decision table of spec 04, enumerated."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.reuse import (
    GONE,
    NEW,
    SANDBOX_WANTED,
    TABLE,
    Decided,
    Door,
    Kind,
    Rerun,
    Saved,
    SavedAttempt,
    changed,
    closed_by_early_exit,
    decide,
    endpoint_changed,
    saved_as,
)
from proctor.model.attempt import Phase, Verdict, issue_of

E, R, G = Kind.EXECUTE, Kind.REUSE, Kind.GRADE_ONLY
CRASH = issue_of("harness.exit_nonzero", "connection reset by peer", Phase.AGENT)
TOO_LONG = issue_of("grade.time", "connection reset", Phase.GRADE)
LIMITS = Door(patterns=("connection.*reset",), agent_seconds=60.0, try_seconds=100.0)


def saved(verdict: Verdict | None, name: str = "aaaaaaaaaaaa", **given) -> SavedAttempt:
    return SavedAttempt(name, verdict, **given)


ROWS = [
    # what is saved, row of the table, usually, --rerun failed, --rerun all
    (saved(Verdict.PASSED), Saved.PASSED, R, R, E),
    (saved(Verdict.FAILED), Saved.FAILED, R, E, E),
    (saved(Verdict.PASSED, issues=(CRASH,)), Saved.MATCHES, E, E, E),
    (saved(Verdict.FAILED, issues=(CRASH,)), Saved.MATCHES, E, E, E),
    (saved(Verdict.FAILED, issues=(TOO_LONG,)), Saved.FAILED, R, E, E),  # permanent: its result stands and carries
    (saved(Verdict.PASSED, agent_seconds=60.0, try_seconds=100.0), Saved.PASSED, R, R, E),
    (saved(Verdict.PASSED, agent_seconds=60.1), Saved.DOES_NOT_FIT, E, E, E),
    (saved(Verdict.FAILED, try_seconds=100.1), Saved.DOES_NOT_FIT, E, E, E),
    (saved(Verdict.ERRORED, gradable=True), Saved.GRADABLE, G, G, E),
    (saved(None, gradable=True), Saved.GRADABLE, G, G, E),
    (saved(Verdict.CANCELLED, gradable=True), Saved.GRADABLE, G, G, E),
    (saved(Verdict.ERRORED, gradable=True, intact=False), Saved.DAMAGED, E, E, E),
    (saved(Verdict.ERRORED), Saved.ERRORED, E, E, E),
    (saved(Verdict.SKIPPED), Saved.SKIPPED, E, E, E),
    (saved(Verdict.CANCELLED), Saved.CANCELLED, E, E, E),
    (saved(None), Saved.CUT_OFF, E, E, E),
]


@pytest.mark.parametrize(("attempt", "row", "usually", "failed", "everything"), ROWS)
def test_04_the_decision_table(attempt, row, usually, failed, everything):
    assert saved_as(attempt, LIMITS) is row
    for rerun, kind in ((None, usually), (Rerun.FAILED, failed), (Rerun.ALL, everything)):
        door = Door(rerun, patterns=LIMITS.patterns, agent_seconds=60.0, try_seconds=100.0)
        decided = decide([attempt], door)
        assert decided.kind is kind
        assert decided.source == (attempt.attempt if kind is not E else None)
        assert bool(decided.reason) is (kind is E)


def test_04_every_row_of_the_table_is_tried_here():
    assert {row for _, row, *_ in ROWS} | {Saved.RESUME_OFF} == set(TABLE) == set(Saved)


def test_04_without_checkpoint_resume_nothing_is_only_graded():
    off = Door(checkpoint_resume=False)
    for verdict in (Verdict.ERRORED, Verdict.CANCELLED, None):
        assert decide([saved(verdict, gradable=True)], off) == Decided(E, "checkpoint resume off")


def test_P4_the_words_of_the_plan():
    assert str(decide([], Door())) == str(NEW) == "execute: new"
    assert str(decide([saved(Verdict.PASSED)], Door())) == "reuse @aaaaaaaaaaaa"
    assert str(decide([saved(None, gradable=True)], Door())) == "grade only @aaaaaaaaaaaa"
    assert str(decide([saved(Verdict.FAILED)], Door(Rerun.FAILED))) == "execute: rerun failed"
    assert str(decide([saved(Verdict.PASSED)], Door(Rerun.ALL))) == "execute: rerun all"
    assert str(decide([saved(Verdict.ERRORED)], Door(Rerun.ALL))) == "execute: previous errored"
    assert str(decide([saved(Verdict.PASSED)], Door(sandbox_wanted=True))) == str(SANDBOX_WANTED)
    assert str(decide([saved(Verdict.PASSED, agent_seconds=9)], Door(agent_seconds=8))) == "execute: limit lowered"
    assert str(Decided(Kind.NOT_DISPATCHED, "early exit", "b" * 12)) == f"not dispatched: early exit @{'b' * 12}"


def test_R1_a_run_that_broke_off_does_not_hide_the_complete_one_before_it():
    older = saved(Verdict.PASSED, "o" * 12)
    for verdict in (Verdict.ERRORED, Verdict.SKIPPED, Verdict.CANCELLED, None):
        assert decide([saved(verdict, "n" * 12), older], Door()) == Decided(R, None, "o" * 12)


def test_R1_work_that_lacks_its_grade_hides_no_score_and_is_taken_where_no_score_can_be():
    newer, older = saved(None, "n" * 12, gradable=True), saved(Verdict.FAILED, "o" * 12, agent_seconds=9)
    assert decide([newer, older], Door()) == Decided(R, None, "o" * 12)
    grade_it = Decided(G, None, "n" * 12)
    assert decide([newer, older], Door(Rerun.FAILED)) == grade_it, "that it is made again is what was asked for"
    assert decide([newer, older], Door(agent_seconds=8)) == grade_it
    assert decide([older, newer], Door(Rerun.FAILED)) == Decided(E, "rerun failed")
    assert decide([newer, older], Door(Rerun.ALL)) == Decided(E, "rerun all")


def test_R1_the_newest_score_decides_and_no_better_one_is_looked_for():
    newer, older = saved(Verdict.FAILED, "n" * 12), saved(Verdict.PASSED, "o" * 12)
    assert decide([newer, older], Door()) == Decided(R, None, "n" * 12)
    assert decide([newer, older], Door(Rerun.FAILED)) == Decided(E, "rerun failed")
    slow = saved(Verdict.FAILED, "n" * 12, agent_seconds=99)
    assert decide([slow, older], Door(agent_seconds=60)) == Decided(E, "limit lowered")


def test_C1_raising_a_limit_reuses_all_and_lowering_runs_those_above_it():
    took = [saved(Verdict.PASSED, agent_seconds=float(seconds)) for seconds in range(1, 11)]
    for limit in (None, 10.0, 20.0):
        assert all(decide([one], Door(agent_seconds=limit)).kind is R for one in took)
    assert [decide([one], Door(agent_seconds=7.0)).kind for one in took] == [R] * 7 + [E] * 3


def test_E2_a_reused_passed_attempt_closes_its_task():
    reuse = Decided(R, None, "p" * 12)
    lost = Decided(R, None, "f" * 12)
    closed = Decided(Kind.NOT_DISPATCHED, "early exit", "p" * 12)
    slots = [lost, reuse, NEW, Decided(G, None, "g" * 12)]
    assert closed_by_early_exit(slots, [False, True, False, False]) == [lost, reuse, closed, closed]
    assert closed_by_early_exit(slots, [False] * 4) == slots


def test_P2_the_part_that_differs_is_named():
    old, new = {"model": "1" * 16, "task": "2" * 16}, {"model": "3" * 16, "task": "2" * 16}
    assert str(changed(new, old)) == "execute: model changed (11111111 -> 33333333)"
    both = changed(new | {"flags": "4" * 16}, old)
    assert str(both) == "execute: flags changed (absent -> 44444444), model changed"


def test_P2_an_endpoint_that_alone_differs_is_named_with_what_to_do():
    moved = endpoint_changed("b.example", "a.example")
    assert str(moved) == (
        "execute: model changed (a.example -> b.example), only its endpoint: "
        "`model.identity=a.example` says that both are the same"
    )
    assert "give both one `model.identity`" in str(endpoint_changed("b.example", None))
    assert str(GONE) == "execute: previous run deleted"


VERDICTS = st.sampled_from([*Verdict, None])
ATTEMPTS = st.builds(
    SavedAttempt, st.text("abc", min_size=12, max_size=12), VERDICTS, st.sampled_from([(), (CRASH,), (TOO_LONG,)]),
    st.sampled_from([0.0, 70.0]), st.sampled_from([0.0, 170.0]), st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(ATTEMPTS, max_size=5), st.sampled_from([None, *Rerun]), st.booleans())
def test_04_a_decision_never_rests_on_what_is_older_than_a_score(history, rerun, resume):
    door = Door(rerun, resume, patterns=LIMITS.patterns, agent_seconds=60.0, try_seconds=100.0)
    decided = decide(history, door)
    newest = next((n for n, one in enumerate(history) if one.scored), len(history) - 1)
    assert decided == decide(history[: newest + 1], door)
    if decided.kind is R:
        source = next(one for one in history if one.attempt == decided.source and one.scored)
        assert saved_as(source, door) in (Saved.PASSED, Saved.FAILED)
    if rerun is Rerun.ALL:
        assert decided.kind is E


def test_04_every_combination_has_a_decision():
    for row, kinds in TABLE.items():
        assert all(kind in (E, R, G) for kind in kinds), row
    assert all(len(list(itertools.chain(row))) == 3 for row in TABLE.values())
