"""Comparisons of many tasks that all differ by the same, or by nearly the same (spec 09 M4, M5)."""

from __future__ import annotations

import pytest

from proctor.core.compare import paired
from proctor.core.statistics import mean_of


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.0, 0.0], [1.0, 1.0]), ([0.2], [0.5]), ([1.0, 1.0], [0.0, 1.0])],
)
def test_M4_many_equal_differences_have_the_exact_p_value_of_their_signs(before: list[float], after: list[float]):
    tasks = [str(number) for number in range(30)]
    found = paired(dict.fromkeys(tasks, before), dict.fromkeys(tasks, after))
    assert found is not None
    assert found.test == "permutation of signs, exact"
    assert found.p_value == pytest.approx(2 / 2**30)


def test_M4_differences_that_only_rounding_sets_apart_are_equal():
    pairs = {str(number): (0.3, 0.1) if number % 2 else (0.4, 0.2) for number in range(30)}
    found = paired({task: [pair[0]] for task, pair in pairs.items()}, {task: [pair[1]] for task, pair in pairs.items()})
    assert found is not None
    assert found.p_value == pytest.approx(2 / 2**30)
    assert found.interval is None


def test_M2_rounding_makes_no_interval_of_scores_that_are_all_the_same():
    found = mean_of([[0.7]] * 3)
    assert found is not None
    assert found.interval is None


@pytest.mark.parametrize(("tasks", "small"), [(21, 0.17), (27, 0.24), (33, 0.11), (39, 0.23)])
def test_M5_a_p_value_is_never_below_0(tasks: int, small: float):
    after = {str(number): [0.5 + small * (number % 2)] for number in range(tasks)}
    found = paired({task: [0.0] for task in after}, after)
    assert found is not None
    assert found.test == "Student's, paired by task"
    assert found.p_value is not None
    assert 0.0 <= found.p_value <= 1.0
