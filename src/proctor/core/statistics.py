"""Statistics of scores: intervals and pass@k (spec 09 M2). Nothing is drawn by chance.

Tasks are what was drawn; the attempts of one task are alike. So every interval treats a task as one cluster, and no
number of attempts makes up for few tasks. What cannot be estimated is None, never 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

NORMAL_QUANTILE = 1.959963984540054
"""What a normal variable stays below with a probability of 0.975: every interval here is of 95 %."""
NEAR = 1e-12
"""Numbers that are no further apart are equal: rounding makes as much."""


class Interval(NamedTuple):
    """A confidence interval; both ends belong to it."""

    low: float
    high: float


EVERYTHING = Interval(-math.inf, math.inf)
"""No bounds."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `clusters` tasks with its standard error and 95 % interval; None where there are too few of them."""

    mean: float
    samples: int
    clusters: int
    error: float | None
    interval: Interval | None


# ------------------------------------------------------------------------------------------------------ distributions


def student_tail(t: float, df: int) -> float:
    """Return the chance of being at least as far from 0 as `t`, on either side, by Student's distribution.

    It is I(df / (df + t^2); df / 2, 1 / 2) (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.5.27), not 1
    less the rest: a chance of 1e-100 is not rounded to 0.
    """
    square = t * t / df
    if math.isinf(square):
        return 0.0
    below, above = 1 / (1 + square), square / (1 + square)
    if below < (df / 2 + 1) / (df / 2 + 2.5):
        return _beta(below, above, df / 2, 0.5)
    return 1 - _beta(above, below, 0.5, df / 2)


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function of `x`, with `rest` = 1 - x, where x < (a + 1) / (a + b + 2).

    By its continued fraction (26.5.8), worked out forwards (Lentz 1976).
    """
    if x == 0:
        return 0.0
    power = a * (math.log1p(-rest) if rest < 0.5 else math.log(x)) + b * (math.log1p(-x) if x < 0.5 else math.log(rest))
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + power) / a
    above, below = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value, step = below, 1
    change = 0.0
    while abs(change - 1) > 1e-15 and step < 10_000:
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        below, above = 1 / (1 + even * below), 1 + even / above
        value *= below * above
        below, above = 1 / (1 + odd * below), 1 + odd / above
        change = below * above
        value *= change
        step += 1
    return front * value


@lru_cache(maxsize=1024)
def student_quantile(df: int) -> float:
    """Return what a variable of Student's distribution stays below with a probability of 0.975."""
    low = high = NORMAL_QUANTILE
    while student_tail(high, df) > 0.05:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, df) > 0.05 else (low, middle)
    return high


def wilson(passed: int, total: int) -> Interval | None:
    """Return the score interval of a share (Wilson 1927; method 3 of Newcombe 1998); None of nothing."""
    if not total:
        return None
    z = NORMAL_QUANTILE
    share, spread = passed / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    reach = z * math.sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return Interval(0.0 if passed == 0 else middle - reach, 1.0 if passed == total else middle + reach)


# -------------------------------------------------------------------------------------------------------------- means


def mean_of(scores: Iterable[Sequence[float]]) -> Estimate | None:
    """Return the mean of scores in [0, 1], given task by task; None without any score.

    Where the scores of each task are all 0 or all 1, and as many as of any other, tasks are tosses of a coin, and the
    interval is Wilson's for them. Otherwise it is that of `mean_of_numbers`.
    """
    tasks = [tuple(task) for task in scores if task]
    found = mean_of_numbers(tasks, Interval(0.0, 1.0))
    kinds = {(min(task), max(task), len(task)) for task in set(tasks)}
    if (
        found is not None
        and all(low == high in (0.0, 1.0) for low, high, _ in kinds)
        and (len({count for *_, count in kinds}) == 1 or len({low for low, *_ in kinds}) == 1)
    ):
        return replace(found, interval=wilson(round(found.mean * found.clusters), found.clusters))
    return found


def mean_of_numbers(numbers: Iterable[Sequence[float]], within: Interval = EVERYTHING) -> Estimate | None:
    """Return the mean of numbers that lie `within` some bounds, given task by task; None without any number.

    The interval is Student's with the error of tasks as clusters:
    sqrt(C / (C - 1) * sum((sum of the deviations of a task)^2)) / N, for N numbers of C tasks (Miller 2024, "Adding
    error bars to evals", with the correction for few clusters). Raises `OverflowError` for numbers too large to add.
    """
    tasks = [tuple(task) for task in numbers if task]
    samples = sum(map(len, tasks))
    if not samples:
        return None
    clusters = len(tasks)
    mean = math.fsum(chain.from_iterable(tasks)) / samples
    alike = Counter(tasks)  # of many tasks most have the numbers of another one
    deviations = math.fsum(times * math.fsum(number - mean for number in task) ** 2 for task, times in alike.items())
    error = math.sqrt(clusters / (clusters - 1) * deviations) / samples if clusters > 1 else None
    interval: Interval | None = None
    if error and error > NEAR * max(1.0, abs(mean)):
        reach = student_quantile(clusters - 1) * error
        interval = Interval(max(within.low, mean - reach), min(within.high, mean + reach))
    if not all(map(math.isfinite, (mean, error or 0.0, *(interval or ())))):
        raise OverflowError("numbers too large for a mean with an interval")
    return Estimate(mean, samples, clusters, error, interval)


def pass_at_k(attempts: int, passed: int, k: int) -> float | None:
    """Return the chance that at least one of `k` attempts passes, from `passed` of `attempts`; None with fewer than k.

    The unbiased estimator 1 - C(n - c, k) / C(n, k) of Chen and others 2021, "Evaluating large language models trained
    on code". Raises `ValueError` for counts that are none.
    """
    _check_counts(attempts, passed, k)
    return None if attempts < k else 1 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, passed: int, k: int) -> float | None:
    """Return the chance that `k` attempts all pass, or None with fewer: C(c, k) / C(n, k) (Yao and others 2024).

    Raises `ValueError` for counts that are none.
    """
    _check_counts(attempts, passed, k)
    return None if attempts < k else math.comb(passed, k) / math.comb(attempts, k)


def _check_counts(attempts: int, passed: int, k: int) -> None:
    if not 0 <= passed <= attempts or k < 1:
        raise ValueError(f"{passed} of {attempts} attempts and k = {k} are no counts")


@dataclass(frozen=True, slots=True)
class AtK:
    """pass@k and pass^k over the tasks with at least k scored attempts; `left_out` tasks have fewer."""

    k: int
    at: Estimate | None
    hat: Estimate | None
    left_out: int


def at_k(counts: Sequence[tuple[int, int]], k: int) -> AtK:
    """Return both for tasks of which (scored, passed) attempts are given."""
    enough = [(scored, passed) for scored, passed in counts if scored >= k]
    found = {one: (pass_at_k(*one, k), pass_hat_k(*one, k)) for one in set(enough)}
    at, hat = ([[value] for one in enough if (value := found[one][place]) is not None] for place in (0, 1))
    return AtK(k, mean_of(at), mean_of(hat), len(counts) - len(enough))
