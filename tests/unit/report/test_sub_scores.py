"""Sub-scores of a run: means with intervals, and differences between runs, worked out by hand (spec 09 M2, M4)."""

# ruff: noqa: RUF001 - ranges have an en dash

from __future__ import annotations

import json
import math
import re

import pytest

from proctor.core.statistics import mean_of_numbers, wilson
from proctor.model.attempt import Grade, Outcome, TryResult, Verdict, issue_of
from proctor.model.events import AttemptSealed, Completion, RunEnded, RunStarted, TryEnded, TryStarted
from proctor.report.compare import side_of, versus, versus_data
from proctor.report.compare_text import compare_lines
from proctor.report.metrics_text import metrics_data, metrics_lines, metrics_of_view
from proctor.report.sub_scores import NAMES_AT_MOST, OTHERS_AT_MOST, SubScores
from proctor.report.summary import summary_data
from proctor.report.summary_html import points_of, summary_html
from proctor.report.view import RunView

BROKEN = TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "gone"),))


def run(*tries, early_exit=False, attempts=1, slots=None):
    """A run of graded attempts: each (task, sub-scores of its tries); None is a try that broke off."""
    view = RunView("e")
    tasks = len({task for task, *_ in tries})
    view.add(
        RunStarted(1, "i", "r", "e", "0", "h", 1, slots=slots or tasks * attempts, tasks=tasks, early_exit=early_exit),
        0.0,
    )
    for place, (task, *own) in enumerate(tries):
        attempt = f"a{place:011}"
        grade = None
        for number, sub_scores in enumerate(own, 1):
            grade = None if sub_scores is None else Grade(True, 1.0, sub_scores)
            view.add(TryStarted(attempt, task, place, number), 1.0)
            view.add(TryEnded(attempt, number, TryResult(Outcome.GRADED, grade) if grade else BROKEN), 2.0)
        verdict = Verdict.PASSED if grade else Verdict.ERRORED
        view.add(AttemptSealed(attempt, task, place, verdict, 1.0 if grade else None, len(own)), 2.0)
    view.add(RunEnded("e", Completion.COMPLETE), 3.0)
    return view


def side(view, name="r"):
    return side_of(view, run=name, directory=name, parts={})


def test_M2_a_sub_score_is_summed_up_over_the_attempts_that_have_it():
    view = run(("x", {"attack": 1.0}), ("y", {"attack": 0.0, "tokens": 250.0}), ("z", {"tokens": 150.0}), ("w", {}))
    found = metrics_of_view(view).sub_scores
    assert (found["attack"].mean, found["attack"].samples, found["attack"].interval) == (0.5, 2, wilson(1, 2))
    # Numbers of any size: Student's, with 12.706 for one degree of freedom, 200 ± 12.706 * 50.
    assert (found["tokens"].mean, found["tokens"].error) == (200.0, pytest.approx(50.0))
    assert found["tokens"].interval == pytest.approx((200 - 635.31, 200 + 635.31), abs=0.02)
    data = summary_data(view, run="r", directory="d")
    html = re.sub("<[^>]*>", " ", summary_html(data, points_of([data])))
    assert "attack 0.500 0.095 to 0.905 2 samples of 2 tasks" in " ".join(html.split())
    lines = metrics_lines(metrics_of_view(view))
    assert "sub-score attack: 0.500 [0.095–0.905] over 2 tasks" in lines
    assert any(line.startswith("sub-score tokens: 200.000 [-435.310 to 835.310] over 2 tasks") for line in lines)


def test_M2_attempts_of_a_task_are_one_cluster_of_a_sub_score():
    """As `mean_of` has it for scores: 1, 1 and 0, 1 of two tasks; deviations 0.5 and -0.5, so sqrt(2 * 0.5) / 4."""
    one = metrics_of_view(run(("x", {"s": 1.0}), ("x", {"s": 1.0}), ("y", {"s": 0.0}), ("y", {"s": 1.0}), attempts=2))
    assert (one.sub_scores["s"].mean, one.sub_scores["s"].clusters) == (0.75, 2)
    assert one.sub_scores["s"].error == pytest.approx(0.25)


def test_only_the_try_that_counts_has_sub_scores_and_only_if_the_attempt_has_a_score():
    view = run(("x", {"s": 0.0}, {"s": 1.0}), ("y", {"s": 0.0}, {}), ("z", {"s": 0.0}, None))
    found = metrics_of_view(view).sub_scores["s"]
    assert (found.mean, found.samples) == (1.0, 1)


def test_M3_with_early_exit_nothing_is_said_of_sub_scores():
    view = run(("x", {"s": 1.0}), early_exit=True)
    assert metrics_of_view(view).sub_scores == side(view).sub_scores == {}


def test_a_run_without_sub_scores_says_nothing_of_them():
    found = metrics_of_view(run(("x", {}), ("y", {})))
    assert metrics_data(found)["sub_scores"] == {}
    assert not any("sub-score" in line for line in metrics_lines(found))


def test_names_are_bounded_and_those_that_are_left_out_are_counted():
    many = {f"n{n:03}": 0.5 for n in range(NAMES_AT_MOST + 7)}
    found = metrics_of_view(run(("x", many), ("y", many)))
    assert (len(found.sub_scores), found.sub_scores_left_out) == (NAMES_AT_MOST, 7)
    lines = metrics_lines(found)
    assert "40 sub-scores more: see summary.json" in lines
    assert "left out: 7 sub-scores more, of other names" in lines
    columns = SubScores()
    columns.add(0, {str(n): 1.0 for n in range(NAMES_AT_MOST + 2 * OTHERS_AT_MOST)})
    assert columns.left_out == OTHERS_AT_MOST


def test_M5_numbers_that_are_too_large_to_add_up_have_no_mean():
    largest = {"huge": 1.7e308}
    view = run(("x", largest), ("y", largest), ("z", {"huge": -1.7e308}))
    data = metrics_data(metrics_of_view(view))
    assert data["sub_scores"] == {"huge": None}
    assert "sub-score huge: too large to add up" in metrics_lines(metrics_of_view(view))
    one = versus(side(view), side(view))
    assert json.loads(json.dumps(versus_data(one), allow_nan=False))["sub_scores"].keys() <= {"huge"}
    for numbers in ([[1e200], [-1e200]], [[1.7e308], [1.7e308]]):
        with pytest.raises(OverflowError):
            mean_of_numbers(numbers)


def test_M4_sub_scores_are_compared_task_by_task():
    first = side(run(("x", {"s": 0.0}), ("y", {"s": 0.5}), ("z", {"s": 1.0}), ("w", {}), ("only", {"s": 1.0})), "a")
    second = side(run(("x", {"s": 1.0}), ("y", {"s": 0.5}), ("z", {"s": 1.0, "other": 1.0}), ("w", {"s": 1.0})), "b")
    one = versus(first, second)
    # Of x, y, z: +1, 0, 0; mean 1/3, standard error 1/3, and Student's quantile for 2 degrees of freedom is 4.3027.
    assert list(one.sub_scores) == ["s"]
    found = one.sub_scores["s"]
    assert (found.mean, found.clusters, found.error) == (pytest.approx(1 / 3), 3, pytest.approx(1 / 3))
    assert found.interval == (-1.0, 1.0)
    text = "\n".join(compare_lines([first, second], [one]))
    assert "  sub-score s, 3 tasks: +0.333 [-1.000 to +1.000]" in text
    data = versus_data(one)["sub_scores"]
    assert data == {"s": {"tasks": 3, "difference": pytest.approx(1 / 3), "low": -1.0, "high": 1.0}}


def test_M4_differences_that_are_all_0_or_1_are_no_tosses_of_a_coin():
    first = side(run(("x", {"s": 0.0}), ("y", {"s": 0.0}), ("z", {"s": 0.0})), "a")
    second = side(run(("x", {"s": 1.0}), ("y", {"s": 1.0}), ("z", {"s": 1.0})), "b")
    assert versus(first, second).sub_scores["s"].interval is None


def test_a_mean_is_finite_or_refused():
    found = mean_of_numbers([[1e100], [2e100]])
    assert found is not None
    assert found.interval is not None
    assert all(map(math.isfinite, found.interval))
