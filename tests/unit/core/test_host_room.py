"""What tasks declare of CPUs and memory, and whether this machine ever has room for it (spec 03 G10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.host_room import binding, declared_by, too_large
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan, GroupPlan, OnUnavailable
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec, Resources
from proctor.model.spec import Component, Task

HERE = frozenset({"here"})
GIB = 2**30


def plan(cpus: tuple[float, ...] = (), memory: tuple[int, ...] = (), **more: Any) -> ExperimentPlan:
    names = tuple(f"t{place}" for place in range(len(cpus or memory)))
    fields: dict[str, Any] = {"attempts": 1, "provider": "here", "agent_sandbox": (True,) * len(names), **more}
    return ExperimentPlan("e", names, cpus=cpus, memory_bytes=memory, **fields)


def limits(cpus: float | None = 2.0, memory: int | None = 4 * GIB, **more: Any) -> GateLimits:
    return GateLimits(host_cpus=cpus, host_memory_bytes=memory, host_providers=HERE, **more)


def refused(one: ExperimentPlan, host: GateLimits | None = None) -> list[tuple[str, str, int]]:
    return [(each.task, each.what, each.sandboxes) for each in too_large([one], host or limits())]


def test_03_G10_what_fits_alone_is_not_refused_whatever_the_others_take() -> None:
    assert refused(plan((2.0, 2.0, 0.5, 0.0), (4 * GIB, 0, 1, 4 * GIB))) == []


def test_03_G10_what_never_fits_is_named_with_what_it_lacks() -> None:
    assert refused(plan((2.5, 2.0), (1, 5 * GIB))) == [("t0", "cpus", 1), ("t1", "memory", 1)]
    assert [(one.need, one.whole) for one in too_large([plan((2.5,))], limits())] == [(2.5, 2.0)]


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"agent_sandbox": (False,)}, []),
        ({"agent_sandbox": (False,), "grading": GradingMode.FRESH}, [("t0", "cpus", 1)]),
        ({"provider": "away"}, []),
        ({"provider": "away", "grading_provider": "here", "grading": GradingMode.FRESH}, [("t0", "cpus", 1)]),
    ],
)
def test_03_G10_only_sandboxes_on_this_host_count(more: dict[str, Any], found: list[object]) -> None:
    assert refused(plan((3.0,), **more)) == found


@pytest.mark.parametrize(
    "lane", [{"sandbox_reuse": True}, {"groups": (GroupPlan("g", (0,), OnUnavailable.STOP_GROUP),)}]
)
def test_03_L0_a_lane_holds_the_sandbox_for_grading_beside_the_agents(lane: dict[str, Any]) -> None:
    assert refused(plan((1.5,), grading=GradingMode.FRESH)) == [], "one after the other"
    assert refused(plan((1.5,), grading=GradingMode.FRESH, **lane)) == [("t0", "cpus", 2)]
    assert refused(plan((1.0,), grading=GradingMode.FRESH, **lane)) == []


def test_nothing_is_refused_where_the_host_is_not_known() -> None:
    assert refused(plan((99.0,), (2**60,)), limits(None, None)) == []
    assert refused(plan((99.0,)), replace(limits(), host_providers=frozenset())) == []


@given(
    st.lists(st.floats(0, 8), min_size=1, max_size=80),
    st.floats(0.25, 8),
    st.sampled_from([GradingMode.NONE, GradingMode.FRESH]),
)
def test_what_is_not_refused_gets_its_permits(cpus: list[float], whole: float, grading: GradingMode) -> None:
    """However many different demands there are, which are rounded then: no task may wait for ever."""
    one, host = plan(tuple(cpus), grading=grading), limits(whole)
    out = {each.task for each in too_large([one], host)}
    for name, need in zip(one.task_ids, cpus, strict=True):
        if need > whole * 1.01 + 0.002:
            assert name in out
        if need <= whole * 0.98 - 0.002:
            assert name not in out


@pytest.mark.parametrize(
    ("one", "host", "found"),
    [
        (plan((1.0,) * 4), limits(), {"cpus"}),
        (plan((1.0,) * 2), limits(), set()),
        (plan((1.0,) * 2, attempts=2), limits(), {"cpus"}),
        (plan((1.0,) * 4), limits(task_concurrency=2), set()),
        (plan((1.0,) * 4), limits(providers={"here": 2}), set()),
        (plan((1.0,) * 4, provider="away"), limits(), set()),
        (plan((), (3 * GIB, 2 * GIB)), limits(), {"memory"}),
        (plan((2.0, 1.0), (3 * GIB, 2 * GIB)), limits(), {"cpus", "memory"}),
        (plan((9.0,)), limits(None), set()),
    ],
)
def test_03_G10_the_host_binds_where_all_other_limits_let_more_through(
    one: ExperimentPlan, host: GateLimits, found: set[str]
) -> None:
    assert binding([one], host) == found


def test_what_tasks_declare_is_over_what_their_experiment_says() -> None:
    own = EnvironmentSpec(resources=Resources(1.0, GIB))
    tasks = [
        Task("a", Component("text")),
        Task("b", Component("text"), environment=EnvironmentSpec(resources=Resources(2.0))),
        Task("c", Component("text"), environment=EnvironmentSpec(env={"A": "1"})),
    ]
    assert declared_by(tasks, own) == ((1.0, 2.0, 1.0), (GIB, GIB, GIB)), "resources are put together"
    assert declared_by(tasks, EnvironmentSpec()) == ((0.0, 2.0, 0.0), ())
    assert declared_by(tasks[:1], EnvironmentSpec()) == ((), ())
