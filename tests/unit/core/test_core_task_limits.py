"""Limits that a task declares (spec 02, 04 C1)."""

from __future__ import annotations

import pytest

from proctor.core.reuse import Door, SavedAttempt
from proctor.core.task_limits import (
    as_limited,
    door_of_task,
    limits_of,
    reached_its_limit,
    reached_that_of_the_try,
)
from proctor.model.attempt import Phase, Verdict, issue_of
from proctor.model.spec import Component, Task, TimeLimits

PLAIN = Task("t", Component("checks"))
LIMITED = Task("t", Component("checks"), agent_timeout_seconds=10.0, timeout_seconds=20.0)


@pytest.mark.parametrize(
    ("task", "limits", "agent", "whole"),
    [
        (PLAIN, TimeLimits(), None, None),
        (PLAIN, TimeLimits(agent_seconds=5.0, task_factor=2.0), 5.0, None),
        (LIMITED, TimeLimits(), 10.0, 20.0),
        (LIMITED, TimeLimits(agent_seconds=50.0), 50.0, 20.0),
        (LIMITED, TimeLimits(try_seconds=5.0), 10.0, 5.0),
        (LIMITED, TimeLimits(agent_seconds=50.0, task_factor=2.0), 50.0, 40.0),
    ],
)
def test_02_the_limits_of_a_task_hold_where_the_experiment_sets_none(task, limits, agent, whole):
    found = limits_of(task, limits)
    assert (found.agent_seconds, found.try_seconds) == (agent, whole)
    door = door_of_task(Door(agent_seconds=limits.agent_seconds, try_seconds=limits.try_seconds), task, limits)
    assert (door.agent_seconds, door.try_seconds) == (agent, whole)


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("time.agent", reached_its_limit(Phase.AGENT, 10.0), (10.0, 10.3)),
        ("time.attempt", reached_that_of_the_try(Phase.AGENT, 10.0), (10.2, 10.0)),
        ("time.agent", f"{reached_its_limit(Phase.AGENT, 1e-05)}; and more", (1e-05, 10.3)),
        ("time.agent", reached_its_limit(Phase.AGENT, 2 / 3), (0.6666666667, 10.3)),
        ("time.agent", "the command was ended after 3 s", (10.2, 10.3)),
        ("time.agent", "agent reached its limit of 1.2.3 s (agent_timeout_seconds)", (10.2, 10.3)),
        ("harness.crashed", reached_its_limit(Phase.AGENT, 10.0), (10.2, 10.3)),
    ],
)
def test_C1_what_a_limit_ended_counts_as_exactly_that_limit(code, message, expected):
    saved = SavedAttempt("a", Verdict.FAILED, (issue_of(code, message),), agent_seconds=10.2, try_seconds=10.3)
    for door in (Door(), Door(agent_seconds=5.0, try_seconds=5.0)):
        found = as_limited(saved, door)
        assert (found.agent_seconds, found.try_seconds) == expected


def test_C1_a_limit_that_has_more_digits_than_are_shown_is_the_same_limit():
    issue = issue_of("time.agent", reached_its_limit(Phase.AGENT, 2 / 3))
    saved = SavedAttempt("a", Verdict.FAILED, (issue,), agent_seconds=0.7)
    assert as_limited(saved, Door(agent_seconds=2 / 3)).agent_seconds == 2 / 3
