"""The limits of the tries of one task: what a task declares holds where its experiment sets nothing."""

from __future__ import annotations

import re
from dataclasses import replace

from proctor.core.reuse import Door, SavedAttempt
from proctor.model.attempt import Phase
from proctor.model.spec import Task, TimeLimits

ENDED_BY = {"time.agent": "agent_seconds", "time.attempt": "try_seconds"}
"""What counts as exactly its limit where that was reached, by the code of the issue."""


def limits_of(task: Task, limits: TimeLimits) -> TimeLimits:
    """Return the limits of a try of a task, from those of its experiment, which are scaled already."""
    if (task.agent_timeout_seconds, task.grade_timeout_seconds, task.timeout_seconds) == (None, None, None):
        return limits
    return replace(
        limits,
        agent_seconds=_first(limits.agent_seconds, task.agent_timeout_seconds, limits.task_factor),
        grade_seconds=_grade_seconds(task, limits),
        try_seconds=_first(limits.try_seconds, task.timeout_seconds, limits.task_factor),
    )


def _grade_seconds(task: Task, limits: TimeLimits) -> float | None:
    """Return the limit of grading: the task's own where the experiment leaves it at its default, which there is."""
    default = (TimeLimits().grade_seconds or 0.0) * limits.task_factor
    own = task.grade_timeout_seconds
    return limits.grade_seconds if own is None or limits.grade_seconds != default else own * limits.task_factor


def _first(of_experiment: float | None, of_task: float | None, factor: float) -> float | None:
    if of_experiment is not None or of_task is None:
        return of_experiment
    return of_task * factor


def door_of_task(door: Door, task: Task, limits: TimeLimits) -> Door:
    """Return how an experiment with these limits looks at what is saved of one task."""
    own = limits_of(task, limits)
    return door if own is limits else replace(door, agent_seconds=own.agent_seconds, try_seconds=own.try_seconds)


def reached_its_limit(phase: Phase, seconds: float | None) -> str:
    """Return the words of the issue for a phase that its own limit ended."""
    return f"{phase} reached its limit of {shown(seconds)} s ({phase}_timeout_seconds)"


def reached_that_of_the_try(phase: Phase, seconds: float | None) -> str:
    """Return the words of the issue for a phase in which the limit of the whole try was reached."""
    return f"{phase} reached the limit of the whole try, {shown(seconds)} s (timeout_seconds)"


def shown(seconds: float | None) -> str:
    """Return a number of seconds as people read it."""
    return f"{seconds or 0.0:.10g}"


_WORDS = re.compile(r"\w+ reached (?:its limit of|the limit of the whole try,) (\d+(?:\.\d+)?(?:e[+-]?\d+)?) s \(")


def as_limited(saved: SavedAttempt, door: Door) -> SavedAttempt:
    """Return a saved attempt with exactly the limit as its time where that ended it (C1).

    Which limit it was then, whoever had set it, stands in the words of its issue.
    """
    changed: dict[str, float] = {}
    for issue in saved.issues:
        name, words = ENDED_BY.get(issue.code), _WORDS.match(issue.message)
        if name is not None and words is not None:
            now: float | None = getattr(door, name)
            changed[name] = now if now is not None and shown(now) == words[1] else float(words[1])
    return replace(saved, **changed) if changed else saved
