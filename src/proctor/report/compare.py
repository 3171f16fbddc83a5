"""Runs against each other: what differs in their identities, and how their scores differ task by task (spec 09 M4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proctor.core.aggregate import Missing
from proctor.core.compare import Paired, holm, paired
from proctor.core.statistics import Estimate, Interval
from proctor.report.compare_side import Side, side_data, side_of
from proctor.report.sub_scores import difference_of

TASK_PARTS = frozenset({"task", "grader", "judge"})
"""Parts of the identity without which a task is another one: its content, how it is graded, and who judges."""

CODE = "code "
"""How the names of parts begin that are code of a task, its grading included."""


@dataclass(frozen=True, slots=True)
class Versus:
    """The second run against the first."""

    first: Side
    second: Side
    differs: tuple[str, ...] | None
    """The parts of the identity in which they differ, by name; those of tasks where any task that both have does.

    None where the identity of one of them is not known.
    """
    changed: Mapping[str, int]
    """Of those of tasks: in how many tasks."""
    settings: Mapping[str, tuple[str, str]]
    """What is in no identity, and differs between them."""
    left_out: tuple[str, ...]
    """Tasks that are not compared: their content or their grading is not the same."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    unscored: tuple[str, ...]
    """Tasks that both have, of which one run has no score."""
    lacking: tuple[int, int]
    """How many slots of tasks that both have, and that are not left out, are without a score in each run."""
    possible: Interval | None
    """Where any lack a score: between what the difference over all these tasks is, whatever they had scored."""
    paired: Paired | None
    """None where there is nothing to compare, or where nothing may be missing and something is."""
    sub_scores: Mapping[str, Estimate] = field(default_factory=dict[str, Estimate])
    """How the sub-scores of the tasks that are compared and have them in both differ, by name: second less first."""
    corrected_p_value: float | None = None
    """By Holm's correction for the number of comparisons that were made at once."""

    @property
    def ties(self) -> int:
        """Tasks without a difference."""
        return 0 if self.paired is None else self.paired.tasks - len(self.paired.won) - len(self.paired.lost)


def versus(first: Side, second: Side, *, include_changed: bool = False) -> Versus:
    """Compare two runs on the tasks that are the same in both; with `include_changed` on those of the same id."""
    here, there = set(first.tasks), set(second.tasks)
    shared = [task for task in first.tasks if task in there]
    changed, other = _changed(first, second, shared)
    left_out = set[str]() if include_changed else other
    alike = [task for task in shared if task not in left_out]
    lacking = tuple(sum(side.lacking.get(task, 0) for task in alike) for side in (first, second))
    refused = any(side.missing is Missing.FAIL and count for side, count in zip((first, second), lacking, strict=True))
    differs: tuple[str, ...] | None = None
    if first.parts is not None and second.parts is not None:
        names = {*first.parts, *second.parts}
        differs = tuple(sorted(name for name in names if first.parts.get(name) != second.parts.get(name)))
        differs += tuple(sorted(changed))
    return Versus(
        first,
        second,
        differs=differs,
        changed=dict(sorted(changed.items())),
        settings={
            name: (own, second.settings[name])
            for name, own in first.settings.items()
            if second.settings.get(name, own) != own
        },
        left_out=tuple(task for task in shared if task in left_out),
        only_first=tuple(task for task in first.tasks if task not in there),
        only_second=tuple(task for task in second.tasks if task not in here),
        unscored=tuple(task for task in alike if task not in first.scores or task not in second.scores),
        lacking=(lacking[0], lacking[1]),
        possible=_possible(first, second, alike) if any(lacking) else None,
        sub_scores={
            name: difference
            for name, own in first.sub_scores.items()
            if name in second.sub_scores
            and (difference := difference_of(own, second.sub_scores[name], alike)) is not None
        },
        paired=None
        if refused
        else paired({task: first.counted(task) for task in alike}, {task: second.counted(task) for task in alike}),
    )


def _changed(first: Side, second: Side, shared: Sequence[str]) -> tuple[Counter[str], set[str]]:
    """Return in how many tasks each part differs, and the tasks that are other ones by that."""
    changed: Counter[str] = Counter()
    other: set[str] = set()
    if first.parts is None or second.parts is None:
        return changed, other
    for task in shared:
        own, others = first.task_parts.get(task, {}), second.task_parts.get(task, {})
        if own == others:
            continue
        differing = [name for name in {*own, *others} if own.get(name) != others.get(name)]
        changed.update(differing)
        if any(name in TASK_PARTS or name.startswith(CODE) for name in differing):
            other.add(task)
    return changed, other


def _possible(first: Side, second: Side, tasks: Sequence[str]) -> Interval | None:
    ranges = [(first.possible(task), second.possible(task)) for task in tasks]
    ends = [(after.low - before.high, after.high - before.low) for before, after in ranges if before and after]
    if not ends:
        return None
    return Interval(*(math.fsum(each) / len(ends) for each in zip(*ends, strict=True)))


def all_versus(sides: Sequence[Side], *, every_pair: bool = False, include_changed: bool = False) -> list[Versus]:
    """Compare each run with the first, or with `every_pair` each with each; p-values are corrected for their number."""
    pairs = [
        (first, second)
        for place, first in enumerate(sides if every_pair else sides[:1])
        for second in sides[place + 1 :]
    ]
    found = [versus(first, second, include_changed=include_changed) for first, second in pairs]
    tested = [place for place, one in enumerate(found) if one.paired is not None and one.paired.p_value is not None]
    values = [one.paired.p_value for one in found if one.paired is not None and one.paired.p_value is not None]
    for place, value in zip(tested, holm(values) if len(found) > 1 else [], strict=len(found) > 1):
        found[place] = replace(found[place], corrected_p_value=value)
    return found


def versus_data(one: Versus) -> dict[str, Any]:
    """Return a comparison as JSON: `first` and `second` are directories; `difference` is the second less the first."""
    found = one.paired
    low, high = (found.interval or (None, None)) if found is not None else (None, None)
    possible_low, possible_high = one.possible or (None, None)
    return {
        "first": one.first.directory,
        "second": one.second.directory,
        "differs": None if one.differs is None else list(one.differs),
        "changed_tasks": dict(one.changed),
        "settings": {name: list(both) for name, both in one.settings.items()},
        "tasks": 0 if found is None else found.tasks,
        "first_mean": None if found is None else found.first,
        "second_mean": None if found is None else found.second,
        "difference": None if found is None else found.difference,
        "low": low,
        "high": high,
        "test": None if found is None else found.test,
        "p_value": None if found is None else found.p_value,
        "corrected_p_value": one.corrected_p_value,
        "sub_scores": {name: _sub_score(each) for name, each in one.sub_scores.items()},
        "won": [] if found is None else list(found.won),
        "lost": [] if found is None else list(found.lost),
        "ties": one.ties,
        "left_out": list(one.left_out),
        "only_first": list(one.only_first),
        "only_second": list(one.only_second),
        "unscored": list(one.unscored),
        "lacking": list(one.lacking),
        "possible_low": possible_low,
        "possible_high": possible_high,
    }


def _sub_score(difference: Estimate) -> dict[str, Any]:
    low, high = difference.interval or (None, None)
    return {"tasks": difference.clusters, "difference": difference.mean, "low": low, "high": high}


__all__ = ["Side", "Versus", "all_versus", "side_data", "side_of", "versus", "versus_data"]
