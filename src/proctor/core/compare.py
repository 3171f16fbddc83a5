"""The paired comparison of runs, task by task (spec 09 M4). Tests are exact where that is cheap; nothing is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proctor.core.statistics import NEAR, Interval, student_quantile, student_tail

EXACT_DIFFERENCES = 20
"""Up to so many tasks with a difference every assignment of signs is looked at: about a million of them."""


@dataclass(frozen=True, slots=True)
class Paired:
    """How two runs differ on the tasks that both have scores of: the second less the first, task by task.

    `p_value` is of the test that is named: the chance of a difference at least as large if there were none.
    """

    tasks: int
    first: float
    second: float
    difference: float
    error: float | None
    interval: Interval | None
    won: tuple[str, ...]
    """Tasks on which the second has the higher mean score."""
    lost: tuple[str, ...]
    test: str | None
    p_value: float | None


def paired(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> Paired | None:
    """Compare the scores of two runs, given by task; None where no task has scores of both.

    The interval is Student's over the differences of the tasks' means. The test is exact: McNemar's where every task
    has one score of 0 or 1 on both sides; else all signs of up to `EXACT_DIFFERENCES` differences; else Student's.
    """
    tasks = [task for task in first if first[task] and second.get(task)]
    if not tasks:
        return None
    means = {task: (_mean(first[task]), _mean(second[task])) for task in tasks}
    differences = [after - before for before, after in means.values()]
    count, difference = len(tasks), _mean(differences)
    error = _standard_error(differences)
    interval: Interval | None = None
    if error and error > NEAR:
        reach = student_quantile(count - 1) * error
        interval = Interval(max(-1.0, difference - reach), min(1.0, difference + reach))
    won = tuple(task for task, (before, after) in means.items() if after > before)
    lost = tuple(task for task, (before, after) in means.items() if after < before)
    single = all(len(side[task]) == 1 and side[task][0] in (0, 1) for side in (first, second) for task in tasks)
    test, p_value = _test(differences, won=len(won), lost=len(lost), single=single)
    averages = [_mean([pair[side] for pair in means.values()]) for side in (0, 1)]
    return Paired(count, averages[0], averages[1], difference, error, interval, won, lost, test, p_value)


def _test(differences: Sequence[float], *, won: int, lost: int, single: bool) -> tuple[str | None, float | None]:
    differing = [difference for difference in differences if difference]
    if not differing:
        return None, None
    if single:
        return "McNemar's, exact", mcnemar(won, lost)
    if len(differing) <= EXACT_DIFFERENCES:
        return "permutation of signs, exact", sign_flips(differing)
    if max(differences) - min(differences) <= NEAR:  # no spread to measure by; only all signs alike are as far from 0
        return "permutation of signs, exact", mcnemar(won, lost)
    error = _standard_error(differences)
    assert error, "differences that differ"
    t = abs(_mean(differences)) / error
    return "Student's, paired by task", student_tail(t, len(differences) - 1)


def mcnemar(won: int, lost: int) -> float:
    """Return the two-sided exact p-value of `won` against `lost` tasks, of which each is a toss of a coin (McNemar)."""
    tosses, fewer = won + lost, min(won, lost)
    # Of the tail only its largest term is worked out in whole numbers: each one below it is a share of the one before.
    tail = term = 1.0
    for n in range(fewer, 0, -1):
        term *= n / (tosses - n + 1)
        tail += term
        if term < tail * 1e-17:
            break
    return min(1.0, 2 * tail * (math.comb(tosses, fewer) / 2**tosses))


def sign_flips(differences: Sequence[float]) -> float:
    """Return the share of all assignments of signs whose sum is at least as far from 0 as that of the differences."""
    observed = abs(math.fsum(differences))
    scale = max(1.0, math.fsum(map(abs, differences)))
    sums = [0.0]
    for difference in differences[1:]:  # the first keeps its sign: the other half is the same with all signs turned
        sums = [total + signed for total in sums for signed in (difference, -difference)]
    near = observed - 1e-12 * scale  # sums that differ by the order of adding only are equal
    return sum(abs(total + differences[0]) >= near for total in sums) / len(sums)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979), in the order in which they are given."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = highest
    return corrected


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _standard_error(values: Sequence[float]) -> float | None:
    count = len(values)
    if count < 2:
        return None
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
