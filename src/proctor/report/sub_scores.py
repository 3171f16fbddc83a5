"""The sub-scores of the attempts of a run: columns of numbers by name, and what is said of them (spec 09 M2).

An attempt that has none of a name is missing there, and no 0. Numbers may be any; where all of a name are from 0 to 1,
they are taken for a share.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence

from proctor.core.statistics import EVERYTHING, Estimate, Interval, mean_of, mean_of_numbers

NAMES_AT_MOST = 50
"""So many names are kept, those that come first; an attempt takes 12 bytes a name."""
OTHERS_AT_MOST = 1_000
"""So many more are told apart, to say how many are left out."""

ByTask = Mapping[str, Sequence[float]]


class SubScores:
    """The sub-scores of the attempts of a run, each attempt known by its place."""

    __slots__ = ("_columns", "_others")

    def __init__(self) -> None:
        self._columns: dict[str, tuple[array[int], array[float]]] = {}
        self._others: set[str] = set()

    def add(self, place: int, sub_scores: Mapping[str, float]) -> None:
        """Take those of an attempt."""
        for name, value in sub_scores.items():
            column = self._columns.get(name)
            if column is None:
                if len(self._columns) >= NAMES_AT_MOST:
                    if len(self._others) < OTHERS_AT_MOST:
                        self._others.add(name)
                    continue
                column = self._columns[name] = array("I"), array("d")
            column[0].append(place)
            column[1].append(value)

    @property
    def left_out(self) -> int:
        """How many names are not kept; `OTHERS_AT_MOST` are that many or more."""
        return len(self._others)

    def by_task(self, tasks: Sequence[str]) -> dict[str, ByTask]:
        """Return the sub-scores of each name by task, given the tasks of the attempts."""
        found: dict[str, ByTask] = {}
        for name, (places, values) in sorted(self._columns.items()):
            own: defaultdict[str, list[float]] = defaultdict(list)
            for place, value in zip(places, values, strict=True):
                own[tasks[place]].append(value)
            found[name] = dict(own)
        return found


def mean_of_sub_score(by_task: ByTask) -> Estimate | None:
    """Return the mean of a sub-score with its interval; None where its numbers are too large to add up."""
    try:
        return mean_of(by_task.values()) if _is_share(by_task) else mean_of_numbers(by_task.values())
    except OverflowError:
        return None


def difference_of(first: ByTask, second: ByTask, tasks: Sequence[str]) -> Estimate | None:
    """Return the second less the first, paired by task over those of `tasks` that both have, as `mean_of_sub_score`."""
    both = [task for task in tasks if task in first and task in second]
    within = Interval(-1.0, 1.0) if _is_share(first) and _is_share(second) else EVERYTHING
    try:
        return mean_of_numbers([(_mean(second[task]) - _mean(first[task]),) for task in both], within)
    except OverflowError:
        return None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _is_share(by_task: ByTask) -> bool:
    return all(0 <= value <= 1 for values in by_task.values() for value in values)
