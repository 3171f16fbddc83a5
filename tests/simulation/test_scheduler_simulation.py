"""The scheduler in thousands of seeded worlds, under its own audit, a referee's, and a second opinion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simple_scheduler import SimpleScheduler

from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import GradingMode
from proctor.testing.simulate import Violation, World, check, main, simulate, world_of

BATCH = 150


@pytest.mark.parametrize("first", range(0, 12 * BATCH, BATCH))
def test_all_rules_hold_in_seeded_worlds(first):
    for seed in range(first, first + BATCH):
        simulate(world_of(seed))


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


def test_the_worlds_meet_every_kind_of_command_and_end():
    """A simulation that never cancels a grading or fills a disk would prove little."""
    seen: Counter[str] = Counter()
    for seed in range(20_000, 20_200):
        seen += simulate(world_of(seed)).seen
    for kind in ("StartGrading", "CancelTry", "Interrupted", "SandboxOpened", "sealed passed", "sealed failed",
                 "sealed errored", "sealed skipped", "sealed cancelled", "stopped: interrupt", "stopped: disk",
                 "stopped: stopped scope", "run complete", "run stopped", "run interrupted"):  # fmt: skip
        assert seen[kind] > 0, kind


def plans(index: int) -> st.SearchStrategy[ExperimentPlan]:
    def build(tasks, attempts, provider, bits, grading, isolated, cap) -> ExperimentPlan:
        needs = tuple(grading is GradingMode.REUSE or bool(bits >> task & 1) for task in range(tasks))
        ids = tuple(f"t{task}" for task in range(tasks))
        return ExperimentPlan(f"e{index}", ids, attempts, provider, needs, grading, isolated, cap)

    caps = st.none() | st.integers(1, 3)
    return st.builds(build, st.integers(1, 4), st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 15),
                     st.sampled_from(GradingMode), st.booleans(), caps)  # fmt: skip


WORLDS = st.builds(
    World,
    seed=st.integers(0, 1_000_000),
    plans=st.integers(1, 3).flatmap(lambda number: st.tuples(*(plans(index) for index in range(number)))),
    limits=st.builds(
        GateLimits, st.integers(1, 5), st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 3))
    ),
    interrupts=st.lists(st.sampled_from((-1.0, 0.0, 0.5, 2.0, 7.0)), max_size=2).map(lambda x: tuple(sorted(x))),
    fault_rate=st.sampled_from((0.0, 0.1, 0.5)),
    severe_rate=st.sampled_from((0.0, 0.5, 1.0)),
    longest_seconds=st.sampled_from((0.0, 3.0)),
    echo=st.booleans(),
)


@settings(max_examples=250, deadline=None)
@given(WORLDS)
def test_it_decides_like_the_scheduler_that_scans_everything(world):
    assert simulate(world, Scheduler).log == simulate(world, SimpleScheduler).log


# --------------------------------------------------------------------- the simulation finds what is broken


class TooMany(SimpleScheduler):
    """Forgets every gate but the global one."""

    def fits(self, slot):
        return sum(other.holds_global for other in self.slots) < self.limits.task_concurrency


class Lazy(SimpleScheduler):
    """Starts one thing at a time, whatever fits."""

    def choose(self):
        return None if any(slot.in_flight for slot in self.slots) else super().choose()


class Unfair(SimpleScheduler):
    """Starts the last slot that fits."""

    def choose(self):
        return next((slot for slot in reversed(self.slots) if slot.state == 0 and self.fits(slot)), super().choose())


class Hasty(SimpleScheduler):
    """Returns the provider's permit at the first event of a try."""

    def handle(self, event, *, now):
        slot = next((s for s in self.slots if s.attempt == getattr(event, "attempt", None)), None)
        if slot is not None and slot.state == 1:
            slot.state = 2
        return super().handle(event, now=now)


class Deaf(SimpleScheduler):
    """Goes on after an interrupt."""

    def handle(self, event, *, now):
        return [] if type(event).__name__ == "Interrupted" else super().handle(event, now=now)


class Forgetful(SimpleScheduler):
    """Never says that it has finished."""

    def go_on(self):
        return [command for command in super().go_on() if type(command).__name__ != "Finish"]


@pytest.mark.parametrize("wrong", [TooMany, Lazy, Unfair, Hasty, Deaf, Forgetful])
def test_a_scheduler_that_breaks_a_rule_is_caught(wrong):
    def some_worlds() -> None:
        for seed in range(100):
            simulate(world_of(seed), wrong)

    with pytest.raises(Violation, match="seed"):
        some_worlds()


def test_the_command_line_counts_worlds_and_tells_the_story_of_a_seed(capsys):
    assert main(["--seeds", "3", "--first", "5"]) == 0
    assert "3 worlds, all rules held" in capsys.readouterr().out
    assert main(["--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert "World(seed=7" in out
    assert "StartTry" in out
