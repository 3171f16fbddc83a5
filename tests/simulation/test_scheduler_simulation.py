"""The scheduler in thousands of seeded worlds, under its own audit, a referee's, and a second opinion."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simple_scheduler import SimpleScheduler

from proctor.core.commands import WakeAt
from proctor.core.gates import GateLimits, ModelLimits
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling, RetryPolicy
from proctor.model.attempt import GradingMode
from proctor.model.events import TimerFired
from proctor.testing.simulate import Violation, World, check, main, real, simulate, world_of

BATCH = 200
BATCHES = int(os.environ.get("PROCTOR_SIMULATION_BATCHES", "3"))
"""How many are simulated; 12 and more after a change of the scheduler."""


@pytest.mark.sampled
@pytest.mark.parametrize("first", range(0, BATCHES * BATCH, BATCH))
def test_all_rules_hold_in_seeded_worlds(first):
    for seed in range(first, first + BATCH):
        simulate(world_of(seed))


@pytest.mark.long
def test_O5_a_seed_always_tells_the_same_story():
    for seed in range(10_000, 10_100):
        check(seed)


def test_O5_no_decision_depends_on_the_hashes_of_a_process():
    stories = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "proctor.testing.simulate", "--seed", "3"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        stories.append(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert stories[0] == stories[1]
    assert b"StartGrading" in stories[0]


@pytest.mark.long
def test_the_worlds_meet_every_kind_of_command_and_end():
    """A simulation that never cancels a grading or fills a disk would prove little."""
    seen: Counter[str] = Counter()
    for seed in range(20_000, 20_400):
        seen += simulate(world_of(seed)).seen
    for kind in ("StartGrading", "CancelTry", "Interrupted", "SandboxOpened", "sealed passed", "sealed failed",
                 "sealed errored", "sealed skipped", "sealed cancelled", "stopped: interrupt", "stopped: disk",
                 "stopped: stopped scope", "run complete", "run stopped", "run interrupted", "ResumeTry",
                 "BackoffStarted", "WakeAt", "OpenLane", "CloseLane", "AcquireLease", "LeaseRefused", "ReleaseLease",
                 "RunSetup", "RunTeardown", "stopped: early exit", "stopped: budget", "stopped: lease", "retry",
                 "retry of grading", "only graded", "SandboxKept", "ImageWaitEnded", "StoreFailed",
                 "given up"):  # fmt: skip
        assert seen[kind] > 0, kind


@st.composite
def plans(draw: st.DrawFn, index: int) -> ExperimentPlan:
    tasks, grading, attempts = draw(st.integers(1, 4)), draw(st.sampled_from(GradingMode)), draw(st.integers(1, 3))
    fillings = [filling for filling in Filling if grading is not GradingMode.REUSE or filling.value != "grading only"]
    places = st.tuples(st.integers(0, tasks - 1), st.integers(0, attempts - 1))
    decided = draw(st.just({}) | st.dictionaries(places, st.sampled_from(fillings)))
    return ExperimentPlan(
        name=f"e{index}",
        task_ids=tuple(f"t{task}" for task in range(tasks)),
        attempts=attempts,
        provider=draw(st.sampled_from("ab")),
        agent_sandbox=tuple(grading is GradingMode.REUSE or draw(st.booleans()) for _ in range(tasks)),
        grading=grading,
        isolated=draw(st.booleans()),
        max_concurrency=draw(st.none() | st.integers(1, 3)),
        model=draw(st.sampled_from((None, "m", "n"))),
        judge=draw(st.sampled_from((None, None, "m"))),
        retry=RetryPolicy(draw(st.integers(0, 2)), 1.0, 4.0, 10.0, draw(st.sampled_from(((), ("truncated",))))),
        stop_on_repeated=draw(st.sampled_from((3, 1, 0))),
        early_exit=draw(st.booleans()),
        budget_usd=draw(st.sampled_from((None, None, 0.0, 1.0, 3.0))),
        expected_cost_usd=draw(st.sampled_from((None, 0.5))),
        spent_before_usd=draw(st.sampled_from((0.0, 0.0, 0.75, 1.0))),
        largest_before_usd=draw(st.sampled_from((None, None, 0.25))),
        expected_seconds=draw(
            st.just(()) | st.tuples(*(st.sampled_from((None, 1.0, 2.5, 20.0)) for _ in range(tasks)))
        ),
        environments=draw(st.just(()) | st.tuples(*(st.integers(0, 1) for _ in range(tasks)))),
        decided=tuple(DecidedSlot(task, ordinal, filling) for (task, ordinal), filling in decided.items()),
    )


WORLDS = st.builds(
    World,
    seed=st.integers(0, 1_000_000),
    plans=st.integers(1, 3).flatmap(lambda number: st.tuples(*(plans(index) for index in range(number)))),
    limits=st.builds(
        GateLimits,
        st.integers(1, 5),
        st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 3)),
        open_per_second=st.sampled_from(({}, {}, {"a": 2.0})),
        exclusive=st.sampled_from((frozenset(), frozenset("b"))),
        models=st.sampled_from(({}, {"m": ModelLimits(2)}, {"m": ModelLimits(None, 60.0), "n": ModelLimits(1)})),
    ),
    interrupts=st.lists(st.sampled_from((-1.0, 0.0, 0.5, 2.0, 7.0)), max_size=2).map(lambda x: tuple(sorted(x))),
    store_fails_at=st.sampled_from((None, None, None, 5.0)),
    fault_rate=st.sampled_from((0.0, 0.1, 0.5)),
    grading_fault_rate=st.sampled_from((0.0, 0.0, 0.6)),
    severe_rate=st.sampled_from((0.0, 0.5, 1.0)),
    backoff_rate=st.sampled_from((0.0, 0.3)),
    longest_seconds=st.sampled_from((0.0, 3.0)),
    echo=st.booleans(),
)


def simple(world: World, mint) -> SimpleScheduler:
    return SimpleScheduler(world, mint, random.Random(f"jitter {world.seed}").random)


def decisions(world: World, make) -> list:
    """Everything that happened but timers: the simple scheduler asks for more of them than it needs."""
    return [entry for entry in simulate(world, make).log if not isinstance(entry[1], WakeAt | TimerFired)]


@pytest.mark.long
@settings(max_examples=250, deadline=None)
@given(WORLDS)
def test_it_decides_like_the_scheduler_that_scans_everything(world):
    assert decisions(world, real) == decisions(world, simple)


# --------------------------------------------------------------------- the simulation finds what is broken


class TooMany(SimpleScheduler):
    """Forgets every gate but the global one."""

    def limit(self, gate):
        return super().limit(gate) if gate == "global" else 10**9


class Lazy(SimpleScheduler):
    """Starts one thing at a time, whatever fits."""

    def choose(self):
        return None if any("global" in slot.holds for slot in self.slots) else super().choose()


class Hasty(SimpleScheduler):
    """Returns the provider's permit at the first event of a try."""

    def handle(self, event, *, now):
        for slot in self.slots:
            if slot.attempt and slot.attempt == getattr(event, "attempt", None):
                slot.holds = {gate for gate in slot.holds if not gate.startswith("provider")}
        return super().handle(event, now=now)


class Deaf(SimpleScheduler):
    """Goes on after an interrupt."""

    def interrupt(self, reason):
        return []


class Forgetful(SimpleScheduler):
    """Never says that it has finished."""

    def go_on(self, touched):
        return [command for command in super().go_on(touched) if type(command).__name__ != "Finish"]


class Impatient(SimpleScheduler):
    """Does not wait before another try."""

    def ended(self, slot, event):
        commands = super().ended(slot, event)
        if slot.due > now_of(self):
            slot.due = now_of(self)
        return [*commands, *self.go_on([])] if not self.cut else commands


class Spendthrift(SimpleScheduler):
    """Forgets budgets."""

    def __init__(self, world, mint, jitter=lambda: 0.5):
        super().__init__(world, mint, jitter)
        for run in self.runs:
            run.allows = lambda more=1: True  # type: ignore[method-assign]


class Bursting(SimpleScheduler):
    """Forgets paces."""

    def paces(self, slot):
        return {}


class Stubborn(SimpleScheduler):
    """Goes on with a task that has passed."""

    def exit_early(self):
        self.passed.clear()


class Unfair(SimpleScheduler):
    """Lets slots go before what was dispatched."""

    def choose(self):
        ready = [slot for slot in self.slots if slot.state == 0 and self.may(slot) and self.fits(slot)]
        return ready[0] if ready else super().choose()


class Storming(SimpleScheduler):
    """Does not hold an endpoint on which everything backs off."""

    def fits(self, slot):
        room = all(sum(gate in s.holds for s in self.slots) < self.limit(gate) for gate in self.asks(slot))
        return room and all(self.paced.get(name, -1.0) <= self.now for name in self.paces(slot))


class Wasteful(SimpleScheduler):
    """Tries the whole again, though the work is saved."""

    def grades_only(self, slot, result):
        return False


class Trusting(SimpleScheduler):
    """Grades a checkpoint again that is damaged, and work that the user wants to be done again."""

    def grades_only(self, slot, result):
        return slot.plan.grading is not GradingMode.REUSE


class Greedy(SimpleScheduler):
    """Takes the agent's permits for grading alone."""

    def asks(self, slot):
        only, slot.only = slot.only, False
        asked = super().asks(slot)
        slot.only = only
        return asked


def now_of(scheduler: SimpleScheduler) -> float:
    return scheduler.now


WRONG = [TooMany, Lazy, Hasty, Deaf, Forgetful, Impatient, Spendthrift, Bursting, Stubborn, Unfair, Storming,
         Wasteful, Trusting, Greedy]  # fmt: skip


def narrowed(seed: int) -> World:
    """A world without what the simple scheduler does not know."""
    world = world_of(seed)
    bare = dict.fromkeys(("cpus", "memory_bytes", "groups"), ()) | {"has_setup": False, "shared_state_key": None}
    plans = tuple(replace(plan, sandbox_reuse=False, **bare) for plan in world.plans)
    return replace(world, plans=plans, patience=100)


@pytest.mark.long
def test_the_simple_scheduler_passes_in_the_worlds_that_catch_wrong_ones():
    for seed in range(150):
        simulate(narrowed(seed), SimpleScheduler)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_scheduler_that_breaks_a_rule_is_caught(wrong):
    def some_worlds() -> None:
        for seed in range(300):
            simulate(narrowed(seed), wrong)

    with pytest.raises(Violation, match="seed"):
        some_worlds()


def test_the_command_line_counts_worlds_and_tells_the_story_of_a_seed(capsys):
    assert main(["--seeds", "3", "--first", "5"]) == 0
    assert "3 worlds, all rules held" in capsys.readouterr().out
    assert main(["--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert "World(seed=7" in out
    assert "StartTry" in out
