"""What tasks that share a sandbox become in a plan, and what is refused before one is opened (spec 03 L1, L3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proctor.core.plan import PlannedInput, PluginFacts, RunPlan, plan
from proctor.core.schedule import GroupPlan, OnUnavailable
from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec, Resources
from proctor.model.spec import Component, Experiment, Task

GRADER = Component("g")
FACTS = PluginFacts("1", "1", "nop", {"g": "1"}, benchmark_isolated=True, harness_isolated=True)
GROUPS = {"one": OnUnavailable.STOP_GROUP, "two": OnUnavailable.REPLACE_SANDBOX}
EXPERIMENT = Experiment("e", Component("evals"), Component("nop"))


def task(name: str, group: str | None = None, **changes: Any) -> Task:
    return Task(name, GRADER, group=group, **changes)


def planned(*tasks: Task, facts: PluginFacts = FACTS, **changes: Any) -> RunPlan:
    [found] = plan([PlannedInput(replace(EXPERIMENT, **changes), tasks, facts, groups=GROUPS)])
    return found


def test_L3_groups_are_those_of_the_tasks_that_were_chosen() -> None:
    schedule = planned(task("a", "two"), task("b"), task("c", "one"), task("d", "two")).schedule
    assert schedule.groups == (
        GroupPlan("two", (0, 3), OnUnavailable.REPLACE_SANDBOX),
        GroupPlan("one", (2,), OnUnavailable.STOP_GROUP),
    )
    assert planned(task("b")).schedule.groups == ()


def test_members_of_a_group_work_in_its_sandbox_whatever_the_harness_needs() -> None:
    assert planned(task("a", "one"), task("b")).schedule.agent_sandbox == (True, False)


@pytest.mark.parametrize(
    ("facts", "changes", "words"),
    [
        ({}, {"sandbox_reuse": True}, "task group `one` cannot be run with `sandbox_reuse`"),
        ({"provider_reuses": False}, {}, "task group `one` needs a provider that can reuse sandboxes, which `local`"),
    ],
)
def test_L3_what_cannot_share_a_sandbox_is_an_error(facts: dict[str, Any], changes: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        planned(task("a", "one"), task("b"), facts=replace(FACTS, **facts), **changes)
    assert raised.value.hint
    planned(task("b"), facts=replace(FACTS, **facts), **changes)  # no member was chosen


def test_L3_members_have_the_same_environment() -> None:
    other = EnvironmentSpec(resources=Resources(cpus=2))
    with pytest.raises(
        UsageError, match="its members share one sandbox, and `b` declares another environment than `a`"
    ):
        planned(task("a", "one"), task("b", "one", environment=other))
    assert planned(task("a", "one"), task("b", "two", environment=other)).schedule.environments == (0, 1)


def test_a_group_that_the_benchmark_does_not_declare_is_said() -> None:
    with pytest.raises(UsageError, match="task group `three`, of which task `a` is a member, is not declared"):
        planned(task("a", "three"))


def test_L1_tasks_with_the_same_environment_have_the_same_number() -> None:
    own, other = EnvironmentSpec(env={"A": "1", "B": "2"}), EnvironmentSpec(env={"A": "2"})
    same = EnvironmentSpec(env={"B": "2", "A": "1"})
    tasks = (task("a"), task("b", environment=other), task("c", environment=same), task("d", environment=own))
    assert planned(*tasks, environment=own).schedule.environments == (0, 1, 0, 0)
    assert planned(task("a", environment=same), environment=own).schedule.environments == ()


def test_L4_the_life_of_a_sandbox_is_that_at_its_provider() -> None:
    assert planned(task("a"), facts=replace(FACTS, sandbox_lifetime_seconds=60.0)).schedule.lifetime_seconds == 60.0


def test_04_P2_the_group_counts_in_the_identity_of_its_members() -> None:
    def identities(*tasks: Task) -> list[str]:
        return [entry.identity for entry in planned(*tasks).entries()]

    plain = identities(task("a"), task("b"))
    grouped = identities(task("a", "one"), task("b"))
    assert grouped[0] != plain[0]
    assert grouped[1] == plain[1]
    assert identities(task("a", "two"), task("b"))[0] not in (plain[0], grouped[0])
