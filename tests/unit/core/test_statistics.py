"""Intervals, pass@k and paired tests against published values, never against themselves (spec 09 M7)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.compare import holm, mcnemar, paired, sign_flips
from proctor.core.statistics import at_k, mean_of, pass_at_k, pass_hat_k, student_quantile, student_tail, wilson


# The table of critical values of Student's distribution, upper tail 0.025 (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
@pytest.mark.parametrize(
    ("df", "value"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (20, 2.086), (29, 2.045),
     (30, 2.042), (60, 2.000), (100, 1.984)],
)  # fmt: skip
def test_M7_students_quantile_is_that_of_the_published_table(df, value):
    assert student_quantile(df) == pytest.approx(value, abs=0.0006)


# The same table, other columns: the probability below the tabulated value.
@pytest.mark.parametrize(
    ("df", "value", "probability"),
    [(1, 3.078, 0.90), (2, 2.920, 0.95), (4, 3.747, 0.99), (7, 1.415, 0.90), (8, 4.501, 0.999), (30, 1.697, 0.95)],
)
def test_M7_students_distribution_is_that_of_the_published_table(df, value, probability):
    assert student_tail(value, df) == pytest.approx(2 * (1 - probability), abs=1e-4)
    assert student_tail(-value, df) == student_tail(value, df)
    assert student_tail(0.0, df) == 1.0


# scipy 1.17.1: 2 * stats.t.sf(t, df), and stats.t.ppf(0.975, df).
@pytest.mark.parametrize(
    ("t", "df", "p"),
    [(12.706, 1, 5.000080236e-02), (1e4, 1, 6.366197702e-05), (0.3, 2, 7.924856608e-01), (40.0, 10, 2.280857743e-12),
     (8.0, 60, 4.900265148e-11), (0.9, 999, 3.683371438e-01), (30.0, 1000, 1.537468744e-141),
     (3.0, 24999, 2.702455975e-03), (20.0, 99999, 8.223526794e-89), (1e200, 5, 0.0)],
)  # fmt: skip
def test_M7_small_chances_are_those_of_scipy(t, df, p):
    assert student_tail(t, df) == pytest.approx(p, rel=2e-9)


@pytest.mark.parametrize(("df", "value"), [(1000, 1.962339081), (24999, 1.960058884), (999999, 1.959966357)])
def test_M7_students_quantile_of_many_tasks_is_that_of_scipy(df, value):
    assert student_quantile(df) == pytest.approx(value, abs=1e-8)


def test_students_quantile_falls_to_the_normal_distributions():
    values = [student_quantile(df) for df in range(1, 400)]
    assert values == sorted(values, reverse=True)
    assert student_quantile(10**9) == pytest.approx(1.959964, abs=1e-6)


# Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_M7_wilsons_interval_is_that_of_newcombes_table(passed, total, low, high):
    assert wilson(passed, total) == pytest.approx((low, high), abs=5e-5)
    assert wilson(total - passed, total) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_M5_nothing_has_no_interval_and_no_mean():
    assert wilson(0, 0) is None
    assert mean_of([]) is None
    assert mean_of([[], []]) is None
    assert paired({}, {}) is None
    assert paired({"a": [1.0]}, {"a": [], "b": [1.0]}) is None


def test_M2_one_attempt_per_task_has_wilsons_interval():
    found = mean_of([[1.0]] * 81 + [[0.0]] * 182)
    assert found is not None
    assert (found.mean, found.samples, found.clusters) == (81 / 263, 263, 263)
    assert found.interval == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_M2_attempts_of_a_task_are_one_cluster():
    """Worked by hand: means 1, 0 and 1/2; sums of deviations 1, -1, 0; error sqrt(3/2 * 2) / 6."""
    found = mean_of([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    assert found is not None
    assert found.mean == 0.5
    assert found.error == pytest.approx(math.sqrt(3) / 6)
    assert found.interval == (0.0, 1.0)  # 0.5 -+ 4.303 * 0.2887, cut to what a score can be
    many = mean_of([[1.0, 1.0], [0.0, 0.0]] * 50)
    copied = mean_of([[1.0] * 10, [0.0] * 10] * 50)
    assert many is not None
    assert copied is not None
    assert copied.interval == pytest.approx(many.interval)  # copies of an attempt teach nothing


# statsmodels 0.15.0: OLS on a constant, cov_type="cluster" with the tasks as groups, use_t=True: params, bse, conf_int.
@pytest.mark.parametrize(
    ("scores", "mean", "error", "interval"),
    [([[1, 1, 0], [0, 0], [1], [0.5, 0.25, 0, 1], [0, 0, 0]], 0.36538462, 0.14991273, (0.0, 0.78160909)),
     ([[0.2, 0.4], [0.9], [0.5, 0.7, 0.6], [0.1, 0.3], [0.8, 0.8], [0.35]], 0.51363636, 0.10666537,
      (0.2394443, 0.78782843))],
)  # fmt: skip
def test_M7_the_interval_of_unequal_tasks_is_that_of_clustered_regression(scores, mean, error, interval):
    found = mean_of(scores)
    assert found is not None
    assert (found.mean, found.error) == (pytest.approx(mean, abs=1e-8), pytest.approx(error, abs=1e-8))
    assert found.interval == pytest.approx(interval, abs=1e-7)  # the first ends below 0: cut to what a score can be


# Scores 1, 2, ..., 9 of a standard example, divided by 10: standard error sd / sqrt(n) = 0.2738613 / 3.
def test_M2_scores_in_between_have_students_interval():
    found = mean_of([[n / 10] for n in range(1, 10)])
    assert found is not None
    assert found.error == pytest.approx(0.2738612788 / 3)
    assert found.interval == pytest.approx((0.5 - 2.306004 * 0.0912871, 0.5 + 2.306004 * 0.0912871), abs=1e-6)


def test_M2_scores_that_are_all_equal_say_little_about_other_tasks():
    every = mean_of([[1.0, 1.0, 1.0]] * 20)
    assert every is not None
    assert every.interval == pytest.approx((1 - 0.1611, 1.0), abs=5e-5)  # as 20 of 20, not as 60 of 60
    half = mean_of([[0.5], [0.5]])
    assert half is not None
    assert half.interval is None
    one = mean_of([[0.25]])
    assert one is not None
    assert (one.mean, one.error, one.interval) == (0.25, None, None)


# Case 133: an estimator outside of its range is not available, never 1.
@pytest.mark.parametrize(
    ("attempts", "passed", "k", "value"),
    [(2, 0, 5, None), (2, 1, 5, None), (5, 0, 5, 0.0), (5, 5, 5, 1.0), (5, 2, 1, 0.4), (0, 0, 1, None),
     (10, 3, 2, 8 / 15)],
)  # fmt: skip
def test_M2_pass_at_k(attempts, passed, k, value):
    assert pass_at_k(attempts, passed, k) == (None if value is None else pytest.approx(value))


def test_M2_tasks_with_too_few_attempts_are_counted_not_hidden():
    found = at_k([(4, 2), (4, 0), (1, 1), (0, 0)], 2)
    assert found.left_out == 2
    assert found.at is not None
    assert found.hat is not None
    assert found.at.mean == pytest.approx((1 - 1 / 6 + 0) / 2)
    assert found.hat.mean == pytest.approx((1 / 6 + 0) / 2)
    nothing = at_k([(1, 1)], 2)
    assert (nothing.at, nothing.hat, nothing.left_out) == (None, None, 1)


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_M7_pass_at_k_is_the_share_of_all_choices(counts):
    attempts, passed, k = counts
    outcomes = [True] * passed + [False] * (attempts - passed)
    chosen = list(itertools.combinations(outcomes, k))
    assert pass_at_k(attempts, passed, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
    assert pass_hat_k(attempts, passed, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


@pytest.mark.parametrize(("attempts", "passed", "k"), [(2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_counts_that_are_none_are_refused(attempts, passed, k):
    with pytest.raises(ValueError, match="no counts"):
        pass_at_k(attempts, passed, k)
    with pytest.raises(ValueError, match="no counts"):
        pass_hat_k(attempts, passed, k)


# statsmodels 0.14, stats.contingency_tables.mcnemar(exact=True): [[101, 121], [59, 33]] gives 4.434e-06;
# Fay 2011, "Exact McNemar's test and matching confidence intervals": 2 against 9 discordant pairs, p = 0.06543.
@pytest.mark.parametrize(
    ("won", "lost", "p"), [(121, 59, 4.434e-06), (2, 9, 0.06543), (0, 0, 1.0), (3, 3, 1.0), (0, 5, 0.0625)]
)
def test_M7_mcnemars_test_is_that_of_published_examples(won, lost, p):
    assert mcnemar(won, lost) == pytest.approx(p, rel=5e-4)
    assert mcnemar(lost, won) == mcnemar(won, lost)


# scipy 1.17.1, stats.binomtest(won, won + lost).pvalue.
@pytest.mark.parametrize(
    ("won", "lost", "p"),
    [(50, 90, 9.13112874e-04), (30, 1_000, 1.070531856e-252), (24_000, 25_000, 6.386559476e-06),
     (49_000, 51_000, 2.588716038e-10), (100_000, 100_600, 0.1810919222), (0, 5_000, 0.0)],
)  # fmt: skip
def test_M7_mcnemars_test_of_many_tasks_is_scipys(won, lost, p):
    assert mcnemar(won, lost) == pytest.approx(p, rel=2e-9)


# Darwin's pairs of Zea mays (Fisher 1935, "The design of experiments", section 21): in eighths of an inch;
# 1,726 of 32,768 sums are as far from 0 as 314 (863 on each side): 0.05267.
def test_M7_the_permutation_test_is_fishers():
    darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sum(darwin) == 314
    assert sign_flips([float(one) for one in darwin]) == pytest.approx(1726 / 32768)


# Holm 1979; the example of the documentation of R's p.adjust: 0.01, 0.02, 0.03, 0.04, 0.05 give 0.05, 0.08, 0.09, ...
def test_M7_holms_correction():
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    # statsmodels 0.15.0, stats.multitest.multipletests(method="holm")
    assert holm([0.011, 0.04, 0.001, 0.04, 0.3]) == pytest.approx([0.044, 0.12, 0.005, 0.12, 0.3])
    assert holm([0.04, 0.01]) == pytest.approx([0.04, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_M4_single_passes_are_compared_by_mcnemar():
    first = {f"t{n}": [1.0 if n < 9 else 0.0] for n in range(30)}
    second = {f"t{n}": [1.0 if 7 <= n < 16 else 0.0] for n in range(30)} | {"other": [1.0]}
    found = paired(first, second)
    assert found is not None
    assert (found.tasks, len(found.won), len(found.lost)) == (30, 7, 7)
    assert found.test == "McNemar's, exact"
    assert found.p_value == 1.0
    assert found.difference == 0.0


def test_M4_several_attempts_are_compared_task_by_task():
    """Worked by hand: differences 1/2, 1/2, 1, 0; mean 1/2, error sqrt(0.5 / 3 / 4); signs: 2 of 8 with a sum of 2."""
    first = {"a": [0.0, 0.0], "b": [0.0, 1.0], "c": [0.0, 0.0], "d": [1.0, 1.0]}
    second = {"a": [0.0, 1.0], "b": [1.0, 1.0], "c": [1.0, 1.0], "d": [1.0, 1.0]}
    found = paired(first, second)
    assert found is not None
    assert (found.difference, found.won, found.lost) == (0.5, ("a", "b", "c"), ())
    assert found.error == pytest.approx(math.sqrt(0.5 / 3 / 4))
    assert found.test == "permutation of signs, exact"
    assert found.p_value == pytest.approx(2 / 8)
    back = paired(second, first)
    assert back is not None
    assert (back.difference, back.lost, back.p_value) == (-0.5, ("a", "b", "c"), found.p_value)


# The paired example of R's documentation ("sleep", Student 1908): t = 4.0621 with 9 degrees of freedom, p = 0.002833,
# 95 % interval from 0.7001142 to 2.4598858. Divided by 10 here, since scores are at most 1.
def test_M7_students_paired_test_is_the_published_one(monkeypatch):
    monkeypatch.setattr("proctor.core.compare.EXACT_DIFFERENCES", 0)
    one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    two = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired({str(n): [x / 10] for n, x in enumerate(one)}, {str(n): [x / 10] for n, x in enumerate(two)})
    assert found is not None
    assert found.test == "Student's, paired by task"
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)
    assert found.interval == pytest.approx((0.07001142, 0.24598858), abs=1e-7)


def test_runs_without_any_difference_have_no_test():
    found = paired({"a": [1.0], "b": [0.0]}, {"a": [1.0], "b": [0.0]})
    assert found is not None
    assert (found.test, found.p_value, found.difference, found.interval) == (None, None, 0.0, None)
