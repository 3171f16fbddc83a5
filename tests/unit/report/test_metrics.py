"""What a run says of its attempts: intervals, pass@k, tags, medians, worked out by hand (spec 09 M1-M3, M5, M6)."""

# ruff: noqa: RUF001 - ranges have an en dash

from __future__ import annotations

import json

import pytest

from proctor.cli.exits import Exit
from proctor.cli.outcome import Outcome, exit_code
from proctor.core.aggregate import Counts, Missing, headline, pass_rate, rate_of
from proctor.core.statistics import wilson
from proctor.model.attempt import Grade, TryResult, Usage, Verdict
from proctor.model.attempt import Outcome as Ended
from proctor.model.events import AttemptSealed, RunStarted, SlotFilled, TryEnded, TryStarted
from proctor.report.metrics import ks_of, metrics_of, spread
from proctor.report.metrics_text import metrics_data, metrics_lines, metrics_of_view
from proctor.report.samples import Samples
from proctor.report.summary import run_headline, run_rate, summary_data, summary_lines
from proctor.report.view import RunView

P, F, E, S, C = Verdict.PASSED, Verdict.FAILED, Verdict.ERRORED, Verdict.SKIPPED, Verdict.CANCELLED


def samples(*rows, **about):
    made = Samples()
    for task, verdict in rows:
        score = {P: 1.0, F: 0.0}.get(verdict)
        made.add(task, verdict, score, **about)
    return made


def test_M1_only_scored_attempts_are_samples():
    """Case 130: 10 tasks: 4 solved, 3 wrong, 3 without a score for reasons of ours."""
    rows = [(f"t{n}", verdict) for n, verdict in enumerate([P] * 4 + [F] * 3 + [E] * 3)]
    found = metrics_of(samples(*rows), attempts=1)
    assert found.passes is not None
    assert (found.passes.mean, found.passes.samples) == (4 / 7, 7)
    assert found.passes.interval == wilson(4, 7)
    assert found.at_k == ()


def test_M2_pass_at_k_over_tasks_with_enough_attempts():
    rows = [("a", P), ("a", F), ("a", F), ("b", P), ("b", P), ("b", P), ("c", E), ("c", P), ("c", E)]
    found = metrics_of(samples(*rows), attempts=3)
    values = [
        (one.k, one.at and round(one.at.mean, 6), one.hat and round(one.hat.mean, 6), one.left_out)
        for one in found.at_k
    ]
    # a: 1/3, 2/3, 1; b: 1, 1, 1; c has one scored attempt. pass^k of a: 1/3, 0, 0.
    assert values == [
        (1, round((1 / 3 + 1 + 1) / 3, 6), round((1 / 3 + 1 + 1) / 3, 6), 0),
        (2, round((2 / 3 + 1) / 2, 6), 0.5, 1),
        (3, 1.0, 0.5, 1),
    ]
    lines = metrics_lines(found)
    assert any("1 task with fewer than 2 scored attempts left out" in line for line in lines)


def test_M3_with_early_exit_a_task_counts_once_and_there_is_no_pass_at_k():
    rows = [("a", F), ("a", P), ("b", F), ("b", F), ("b", F), ("c", F), ("c", C)]
    found = metrics_of(samples(*rows), attempts=3, early_exit=True)
    assert found.at_k == ()
    assert found.passes is not None
    # a is solved, b is not; c is not decided: one attempt was cancelled.
    assert (found.passes.mean, found.passes.samples) == (0.5, 2)


def test_M3_with_early_exit_what_is_solved_counts_whatever_its_score():
    made = Samples()
    for task, verdict, score in (("a", P, 0.8), ("b", F, 1.0), ("b", F, 0.4), ("b", S, None), ("c", S, None)):
        made.add(task, verdict, score)
    found = metrics_of(made, attempts=3, early_exit=True, tags={"a": ["x"], "b": ["x"]})
    # a is solved by one of three; b is not, by all of its three; of c nothing was scored.
    assert found.passes == found.score == found.by_tag["x"].passes
    assert found.passes is not None
    assert (found.passes.mean, found.passes.samples) == (0.5, 2)


def folded(*rows, attempts, **about):
    """A run of the sealed attempts of tasks of so many slots each."""
    view = RunView("e")
    tasks = len({task for task, _ in rows})
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, slots=tasks * attempts, tasks=tasks, **about), 0.0)
    for place, (task, verdict) in enumerate(rows):
        score = {P: 1.0, F: 0.0}.get(verdict)
        view.add(AttemptSealed(f"a{place:011}", task, place, verdict, score, 1), 1.0)
    return view


def test_M3_with_early_exit_a_task_that_is_skipped_is_no_part_of_the_base():
    rows = [("a", P), ("b", F), ("b", F), ("b", S), ("c", S), ("c", S), ("c", S), ("d", E), ("d", E), ("d", S)]
    view = folded(*rows, attempts=3, early_exit=True)
    # a is solved, b is not; c is skipped; of d nothing is known.
    rate = run_rate(view)
    assert (rate.passed, rate.scored, rate.base) == (1, 2, 3)
    assert run_headline(view).startswith("33.3–66.7% incomplete (1/3 tasks solved at least once, 1 skipped; early exit")
    view.missing = Missing.ZERO
    assert "(1/3 tasks solved at least once, 1 not decided: counted as not passed, 1 skipped;" in run_headline(view)
    view.missing = Missing.EXCLUDE
    assert (run_rate(view).rate, run_rate(view).base) == (0.5, 2)
    found = metrics_of_view(view).passes
    assert found is not None
    assert (found.mean, found.samples) == (0.5, 2)


def test_M3_only_what_is_not_skipped_meets_fail_under():
    view = folded(("a", P), ("b", S), attempts=1, early_exit=True)
    assert run_rate(view).rate == 1.0
    assert exit_code(Outcome({"e": view}, {}, Exit.OK), fail_under=0.9) is Exit.OK
    nothing = folded(("a", S), ("b", S), attempts=1, early_exit=True)
    assert run_rate(nothing).rate is None
    assert exit_code(Outcome({"e": nothing}, {}, Exit.OK), fail_under=0.9) is Exit.INCOMPLETE


def test_M2_pass_at_k_goes_up_to_the_most_attempts_that_a_task_has():
    view = folded(("a", P), ("a", F), ("a", F), ("b", P), attempts=2)
    assert [(one.k, one.left_out) for one in metrics_of_view(view).at_k] == [(1, 0), (2, 1), (3, 1)]


def test_M5_costs_that_cannot_be_added_up_are_unknown_together():
    largest = Usage(calls=1, cost_usd=1.7e308)
    total = largest + largest
    assert (total.calls, total.cost_usd, total.known_cost_usd, total.unpriced_calls) == (2, None, None, 2)
    view = folded(attempts=1)
    for task in "ab":
        view.add(TryStarted(f"try-{task}", task, 0, 1), 1.0)
        view.add(TryEnded(f"try-{task}", 1, TryResult(Ended.GRADED, Grade(True, 1.0), largest)), 2.0)
        view.add(AttemptSealed(f"try-{task}", task, 0, P, 1.0, 1), 2.0)
        view.add(SlotFilled(f"was-{task}", task, 1, "e/r", P, 1.0, 1.7e308), 2.0)
    view.total = 4
    data = summary_data(view, run="r", directory="d")
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["cost_usd"], data["reused_cost_usd"]) == (None, None)
    assert (data["unpriced_calls"], data["reused_unpriced_attempts"]) == (2, 1)
    assert data["metrics"]["cost_per_task_usd"] is None
    assert "cost" in "\n".join(summary_lines(view, directory="d"))


def test_M2_tags_have_numbers_of_their_own_and_an_empty_one_has_none():
    """Case 135: a group without a task divides nothing by zero."""
    rows = [("a", P), ("b", F), ("c", E), ("d", S)]
    tags = {"a": ("easy", "x"), "b": ("easy",), "c": ("hard",), "d": ("medium",), "e": ("never",)}
    found = metrics_of(samples(*rows), attempts=1, tags=tags)
    assert {tag: (one.passed, one.scored, one.final) for tag, one in found.by_tag.items()} == {
        "easy": (1, 2, 2), "hard": (0, 0, 1), "medium": (0, 0, 0), "never": (0, 0, 0), "x": (1, 1, 1),
    }  # fmt: skip
    lines = metrics_lines(found)
    assert "tag hard: - (nothing scored of 1)" in lines
    assert "tag x: 100.0% (1/1 passed)" in lines
    assert not any(line.startswith("tag easy") for line in lines)  # it has all that was scored


def test_M5_a_run_in_which_nothing_was_scored():
    for found in (metrics_of(samples(("a", E), ("b", S)), attempts=2), metrics_of(Samples(), attempts=1)):
        assert found.passes is None
        assert found.score is None
        data = metrics_data(found)
        assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert metrics_lines(metrics_of(Samples(), attempts=1)) == []


def test_M6_costs_by_attempt_task_and_pass_and_unknown_ones():
    made = Samples()
    made.add("a", P, 1.0, seconds=2.0, usage=Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.30))
    made.add("a", F, 0.0, seconds=4.0, usage=Usage(calls=2, input_tokens=20, output_tokens=5, cost_usd=0.10))
    made.add("b", E, None, usage=Usage(calls=1, input_tokens=1, cost_usd=0.20))
    made.add_reused("c", P, 1.0, 5.0)
    found = metrics_of(made, attempts=2)
    assert found.cost_per_task_usd == pytest.approx(0.30)  # 0.60 over a and b; what is reused was paid elsewhere
    assert found.cost_per_pass_usd == pytest.approx(0.60)
    assert found.seconds is not None
    assert (found.seconds.median, found.seconds.samples, found.seconds.unknown) == (3.0, 2, 1)
    assert found.tokens is not None
    assert found.tokens.median == 15
    made.add("d", F, 0.0, usage=Usage(calls=1))
    unknown = metrics_of(made, attempts=2)
    assert (unknown.cost_per_task_usd, unknown.cost_per_pass_usd) == (None, None)
    assert unknown.cost_usd is not None
    assert unknown.cost_usd.unknown == 1


def test_quantiles_are_those_of_r_type_7():
    """R: quantile(c(1, 2, 3, 4, 10), c(0.5, 0.9)) gives 3 and 7.6."""
    found = spread([10, 2, 4, None, 1, 3])
    assert found is not None
    assert (found.median, found.p90, found.samples, found.unknown) == (3, pytest.approx(7.6), 5, 1)
    assert spread([]) is None
    nothing = spread([None])
    assert nothing is not None
    assert (nothing.median, nothing.unknown) == (None, 1)


def test_many_attempts_have_few_k():
    assert ks_of(4) == [1, 2, 3, 4]
    assert ks_of(10) == list(range(1, 11))
    assert ks_of(100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert ks_of(64) == [1, 2, 4, 8, 16, 32, 64]


# 164 slots: 100 passed, 57 failed, 3 errored, 4 skipped.
COUNTS = Counts(total=164, passed=100, failed=57, errored=3, skipped=4)


@pytest.mark.parametrize(
    ("missing", "rate", "says"),
    [
        (None, (None, 100 / 160, 103 / 160), "62.5–64.4% incomplete (100/160 passed, 3 errored, 4 skipped)"),
        (Missing.ZERO, (100 / 160,) * 3, "62.5% (100/160 passed, 3 errored: counted as not passed, 4 skipped)"),
        (Missing.EXCLUDE, (100 / 157,) * 3, "63.7% (100/157 passed, 3 errored: left out, 4 skipped)"),
        (Missing.FAIL, (None, 100 / 160, 103 / 160),
         "no rate (100/160 passed, 3 errored: none may be missing, 4 skipped)"),
    ],
)  # fmt: skip
def test_M1_what_becomes_of_missing_slots_is_said_with_the_number(missing, rate, says):
    found = pass_rate(COUNTS, missing)
    assert (found.rate, found.low, found.high) == rate
    assert headline(COUNTS, missing) == says


@pytest.mark.parametrize("missing", [None, *Missing])
def test_M1_a_policy_changes_nothing_where_nothing_is_missing(missing):
    counts = Counts(total=10, passed=4, failed=6)
    assert headline(counts, missing) == "40.0% (4/10 passed)"
    assert pass_rate(counts, missing).rate == 0.4
    assert pass_rate(Counts(total=2, errored=2), missing).rate is None
    assert headline(Counts(total=2, errored=2), missing) == "no score (2 errored)"
    assert rate_of(0, 0, 0, missing).rate is None
