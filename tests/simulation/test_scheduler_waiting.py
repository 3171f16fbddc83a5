"""What queued slots wait for: one gate each, and the numbers add up to all that are queued (spec 07)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from scheduler_rig import Rig, broken, experiment

from proctor.core.gates import ModelLimits
from proctor.core.schedule import ExperimentPlan, RetryPolicy
from proctor.core.scheduler import Scheduler
from proctor.model.events import TimerFired
from proctor.model.waiting import Gate
from proctor.testing.virtual_runtime import Runtime
from proctor.testing.worlds import World, world_of

PERMITS = (Gate.CONCURRENCY, Gate.EXPERIMENT, Gate.PROVIDER, Gate.EXCLUSIVE, Gate.MODEL)


class Watched(Scheduler):
    """Looks at what waits after every event."""

    seen: set[Gate]

    def look(self, now: float, *, cut: bool) -> None:
        found = self.waiting(now=now)
        snapshot = self.snapshot()
        by_name = {view.name: 0 for view in snapshot.experiments}
        gates = {gate.name: gate for gate in snapshot.gates}
        for each in found:
            assert each.slots > 0
            by_name[each.experiment] += each.slots
            self.seen.add(each.gate)
            if each.gate in PERMITS:
                kind = "provider" if each.gate is Gate.EXCLUSIVE else each.gate.value
                gate = gates["global" if each.gate is Gate.CONCURRENCY else f"{kind} {each.name}"]
                assert (gate.held, gate.limit) == (each.held, each.limit)
                assert gate.limit is not None
                assert gate.held + 2 > gate.limit, "a vector takes at most two permits of a gate, so it is full"
        assert by_name == {view.name: view.queued for view in snapshot.experiments}
        running = gates["global"]
        if running.held == running.limit:
            assert {each.gate for each in found} <= {Gate.CONCURRENCY}
        if not cut:
            assert Gate.DECIDED not in {each.gate for each in found}, "whatever waits has a reason"


def watch(world: World) -> set[Gate]:
    minted = itertools.count()
    scheduler = Watched(world.plans, world.limits, lambda: f"a{next(minted)}", patience=world.patience)
    scheduler.seen = set()
    runtime = Runtime(world)
    cut = any(at < 0 for at in world.interrupts)
    commands = scheduler.start(now=0.0)
    while True:
        for command in commands:
            runtime.obey(command)
        scheduler.look(runtime.now, cut=cut)
        event = runtime.next_event()
        if event is None:
            return scheduler.seen
        cut = cut or type(event).__name__ in ("Interrupted", "StoreFailed")
        commands = scheduler.handle(event, now=runtime.now)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_07_every_queued_slot_has_one_gate_and_they_add_up_after_every_event(first: int) -> None:
    for seed in range(first, first + 20):
        watch(world_of(seed))


def waits(rig: Rig) -> list[str]:
    found = rig.scheduler.waiting(now=rig.now)
    return [" ".join(str(part) for part in (each.slots, each.gate, each.name) if part != "") for each in found]


@pytest.mark.parametrize(
    ("plan", "limits", "says"),
    [
        (experiment(tasks=5), {"slots": 2}, "3 concurrency"),
        (experiment(tasks=5, cap=1), {"slots": 2}, "4 experiment e"),
        (experiment(tasks=5), {"providers": {"docker": 2}}, "3 provider docker"),
        (experiment(tasks=5, cap=2), {"providers": {"docker": 2}}, "3 experiment e"),
        (experiment(tasks=5), {"open_per_second": {"docker": 1}}, "4 open rate docker"),
        (experiment(tasks=5), {"exclusive": frozenset({"docker"})}, "4 exclusive docker"),
        (experiment(tasks=2, attempts=3, isolated=False), {}, "4 same task"),
        (experiment(tasks=3, attempts=2, isolated=False), {"slots": 2}, "4 concurrency"),
        (experiment(tasks=5, sandbox_reuse=True), {"providers": {"docker": 2}}, "3 provider docker"),
        (experiment(tasks=5, has_setup=True), {}, "5 setup e"),
        (experiment(tasks=5, shared_state_key="mempal"), {}, "5 lease mempal"),
        (
            experiment(tasks=5, cpus=(1.0,) * 5),
            {"host_cpus": 2.0, "host_providers": frozenset({"docker"})},
            "3 host cpus",
        ),
        (experiment(tasks=5, model="m"), {"models": {"m": ModelLimits(max_connections=2)}}, "3 model m"),
        (experiment(tasks=5, model="m"), {"models": {"m": ModelLimits(requests_per_minute=60)}}, "4 request rate m"),
        (experiment(tasks=5, budget_usd=1.0), {}, "4 budget e"),
        (experiment(tasks=1, attempts=5, early_exit=True, cap=2), {}, "3 experiment e"),
    ],
)
def test_07_the_gate_is_named_that_holds_queued_slots(plan: ExperimentPlan, limits: dict[str, Any], says: str) -> None:
    rig = Rig(plan, **limits)
    rig.start()
    assert waits(rig) == [says]


def test_07_slots_behind_a_busy_task_wait_for_it_and_the_others_for_the_next_gate() -> None:
    plan = experiment(tasks=3, attempts=2, isolated=False, model="m")
    rig = Rig(plan, models={"m": ModelLimits(max_connections=2)})
    rig.start()
    assert waits(rig) == ["2 same task", "2 model m"]


def test_07_no_experiment_hides_behind_another() -> None:
    rig = Rig(experiment("a", tasks=3, provider="local", cap=1), experiment("b", tasks=3), providers={"docker": 2})
    rig.start()
    assert waits(rig) == ["2 experiment a", "1 provider docker"]


def test_B2_nothing_new_is_sent_to_an_endpoint_on_which_as_many_back_off_as_there_are_slots() -> None:
    rig = Rig(experiment(tasks=5, model="m"), slots=1)
    rig.start()
    rig.back_off("e/t0#0")
    assert waits(rig) == ["4 backoff model m"]


def test_E3_what_another_attempt_of_the_task_may_make_needless_waits_for_it() -> None:
    rig = Rig(experiment(tasks=1, attempts=3, early_exit=True), slots=1)
    rig.start()
    assert waits(rig) == ["2 concurrency"]


def test_O4_what_is_kept_for_the_claimant_is_said() -> None:
    """Room is kept at the host for the large task; small ones that would fit wait for it."""
    cpus = (1.0, 4.0, *(1.0,) * 20)
    rig = Rig(
        experiment(tasks=22, cpus=cpus, expected_seconds=(1.0,) * 22), host_cpus=4.0,
        host_providers=frozenset({"docker"}), patience=1,
    )  # fmt: skip
    rig.start()
    seen: set[str] = set()
    for name in list(rig.ids) * 3:
        if rig.tries.get(name) and rig.ids.get(name) in rig.scheduler._books.in_flight:
            rig.end(name)
            seen.update(line.partition(" ")[2] for line in waits(rig))
    assert {"reserved", "host cpus"} >= seen
    assert "host cpus" in seen


def test_07_when_an_attempt_is_tried_again_can_be_asked_while_it_waits() -> None:
    rig = Rig(experiment(tasks=1, retry=RetryPolicy(max_retries=1, min_delay_seconds=8.0)), jitter=1.0)
    rig.start()
    attempt = rig.ids["e/t0#0"]
    assert rig.scheduler.retry_at(attempt) is None
    rig.end("e/t0#0", broken("provider.lost"), at=2.0)
    assert rig.scheduler.retry_at(attempt) == pytest.approx(10.0, abs=0.1)
    rig.now = 11.0
    rig.feed(TimerFired())
    assert rig.scheduler.retry_at(attempt) is None
