"""Where the time went: every second of every slot is in one part, and the largest part has one hint (spec 07)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from journals import Invocation

from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Completion,
    Event,
    GradingQueued,
    GradingStarted,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TryEnded,
    TryResumed,
    TryStarted,
)
from proctor.model.waiting import Gate, Waiting, gate_of
from proctor.report.summary import summary_data, summary_lines
from proctor.report.time_hints import hint_of, hint_of_agent, time_lines
from proctor.report.time_spent import BACKOFF, GRADING_PERMITS, NOT_NOTED, OTHER, WAITING, together
from proctor.report.view import RunView
from proctor.runtime.wait_meter import WaitMeter
from proctor.testing.worlds import world_of

PASSED = TryResult(Outcome.GRADED, Grade(True, 1.0))
BROKEN = TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "gone", Phase.AGENT),))


def folded(*told: tuple[float, Event], slots: int = 1) -> RunView:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, slots, slots), 1000.0)
    for at, event in told:
        view.add(event, 1000.0 + at)
    return view


def test_07_every_part_of_an_attempt_is_told_apart() -> None:
    view = folded(
        (2, TryStarted("a", "t", 0, 1)),
        (3, PhaseStarted("a", Phase.OPEN)),
        (7, PhaseEnded("a", Phase.OPEN, 4.0)),
        (7, PhaseStarted("a", Phase.AGENT)),
        (10, BackoffStarted("a", "model.overloaded", 5.0)),
        (15, BackoffEnded("a", 5.0)),
        (18, TryResumed("a")),
        (30, PhaseEnded("a", Phase.AGENT, 15.0)),
        (30, PhaseStarted("a", Phase.DISPOSE)),
        (31, PhaseEnded("a", Phase.DISPOSE, 1.0)),
        (31, GradingQueued("a")),
        (35, GradingStarted("a")),
        (35, PhaseStarted("a", Phase.GRADE)),
        (37, PhaseEnded("a", Phase.GRADE, 2.0)),
        (37, TryEnded("a", 1, BROKEN)),
        (47, TryStarted("a", "t", 0, 2)),
        (47, PhaseStarted("a", Phase.AGENT)),
        (48, PhaseEnded("a", Phase.AGENT, 1.0)),
        (48, TryEnded("a", 2, PASSED)),
        (48, AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 2)),
        (48, RunEnded("e", Completion.COMPLETE, {"concurrency": 1.0, "provider docker": 3.0})),
    )
    assert view.time.parts == pytest.approx({
        "agent": 16.0, "grade": 2.0, "open": 4.0, "dispose": 1.0, BACKOFF: 8.0 + 10.0, GRADING_PERMITS: 4.0,
        "waiting: provider docker": 1.5, "waiting: concurrency": 0.5, OTHER: 1.0,
    })  # fmt: skip
    assert sum(view.time.parts.values()) == pytest.approx(48.0), "one slot, from the start of the run to its end"


def test_07_a_journal_that_does_not_say_when_a_try_went_on_counts_no_wait_for_permits() -> None:
    view = folded(
        (0, TryStarted("a", "t", 0, 1)),
        (1, BackoffStarted("a", "model.overloaded", 5.0)),
        (6, BackoffEnded("a", 5.0)),
        (20, PhaseEnded("a", Phase.AGENT, 15.0)),
        (20, TryEnded("a", 1, PASSED)),
        (20, AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 1)),
    )
    assert view.time.parts == {"agent": 15.0, BACKOFF: 5.0}


def test_07_of_a_run_that_was_killed_it_is_known_how_long_slots_were_queued_but_not_for_what() -> None:
    view = folded((10, TryStarted("a", "t", 0, 1)), (12, PhaseStarted("a", Phase.AGENT)), slots=3)
    assert view.time.parts == {NOT_NOTED: 3 * 10.0 + 2 * 2.0, OTHER: 2.0}
    assert hint_of(NOT_NOTED) is None


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_07_the_parts_add_up_to_all_the_time_of_all_slots(first: int) -> None:
    for seed in range(first, first + 20):
        invocation = Invocation(world_of(seed))
        views = {plan.name: RunView(plan.name) for plan in invocation.world.plans}
        meter = WaitMeter(lambda now, of=invocation: of.scheduler.waiting(now=now))
        passed, last = dict.fromkeys(views, 0.0), 0.0
        for step in invocation.steps():
            now = invocation.runtime.now
            for name, view in views.items():
                passed[name] += (now - last) * (view.counts.queued + view.counts.running)
            last = now
            meter.look(now)
            for name, event, at in step:
                if isinstance(event, RunEnded):
                    event = RunEnded(name, event.completion, meter.waited(name, now))  # noqa: PLW2901
                views[name].add(event, at)
        for name, view in views.items():
            time = view.time
            assert time.queued_seconds + time.in_flight_seconds == pytest.approx(passed[name], abs=1e-3)
            assert sum(time.parts.values()) >= passed[name] - 1e-3
            waited = sum(seconds for part, seconds in time.parts.items() if part.startswith(WAITING))
            decided = Gate.DECIDED in time.measured  # that is time of proctor's own
            assert waited == pytest.approx(time.queued_seconds, abs=1e-6) or (decided and waited < time.queued_seconds)
            if time.queued_seconds > 0.01 and view.completion is not None:
                assert NOT_NOTED not in time.parts


@pytest.mark.parametrize("gate", list(Gate))
def test_07_the_gate_is_read_back_from_the_text_that_a_journal_keeps(gate: Gate) -> None:
    for name in ("", "docker", "rate m", "of something"):
        key = Waiting("e", gate, name, 1).key
        assert key == f"{gate.value} {name}".rstrip()
        assert gate_of(key) is gate
    assert gate_of("") is None
    assert gate_of(f"{gate.value}s") is None


@pytest.mark.parametrize("part", [*Phase, BACKOFF, GRADING_PERMITS, OTHER])
def test_07_every_part_has_a_hint(part: str) -> None:
    assert part is Phase.AGENT or hint_of(str(part)), "of the work itself see below"


@pytest.mark.parametrize("gate", [gate for gate in Gate if gate is not Gate.DECIDED])
def test_07_every_gate_has_a_hint_with_or_without_a_name(gate: Gate) -> None:
    hints = {hint_of(f"{WAITING}{gate}"), hint_of(f"{WAITING}{gate} of something")}
    assert len(hints) == 1
    assert None not in hints


def test_07_the_largest_part_is_named_with_one_hint() -> None:
    lines = time_lines({"agent": 30.0, "open": 60.0, "waiting: provider docker": 9.9, "dispose": 0.1})
    assert lines == [
        "where the time went: 1m40s of slots: open 60% · agent 30% · waiting: provider docker 10%",
        "most went into open: reuse sandboxes (`sandbox_reuse: true`), or use a smaller or prepared image",
    ]
    assert time_lines({}) == []


def test_07_the_summary_says_it_and_so_does_the_json() -> None:
    view = folded(
        (0, TryStarted("a", "t", 0, 1)),
        (9, PhaseEnded("a", Phase.AGENT, 9.0)),
        (9, TryEnded("a", 1, PASSED)),
        (9, AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 1)),
        (9, RunEnded("e", Completion.COMPLETE, {})),
    )
    data = summary_data(view, run="r", directory="d")
    assert (data["slot_seconds"], data["most_time"]) == ({"agent": 9.0}, "agent")
    assert any(line.startswith("most went into agent: ") for line in summary_lines(view, directory="d"))
    assert together([view.time, view.time]) == {"agent": 18.0}


def test_07_waits_are_added_up_between_looks() -> None:
    found = [[Waiting("e", Gate.PROVIDER, "docker", 4, 8, 8)], [Waiting("e", Gate.SAME_TASK, "", 2)], []]
    meter = WaitMeter(lambda now: found[int(now) // 10])
    for now in (0.0, 5.0, 10.0, 20.0):
        meter.look(now)
    assert meter.waited("e", 25.0) == {"provider docker": 40.0, "same task": 20.0}
    assert meter.waited("e", 25.0) == {Gate.DECIDED: 0.001}


def test_07_slots_that_were_never_seen_to_wait_were_queued_for_no_gate() -> None:
    """All of them start at the first look: what went before is proctor's own time."""
    view = folded(
        (1, TryStarted("a", "t", 0, 1)),
        (9, PhaseEnded("a", Phase.AGENT, 8.0)),
        (9, TryEnded("a", 1, PASSED)),
        (9, AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 1)),
        (9, RunEnded("e", Completion.COMPLETE, WaitMeter(lambda now: []).waited("e", 9.0))),
    )
    assert view.time.parts == {"agent": 8.0, OTHER: 1.0}


def test_07_an_attempt_that_ends_with_its_try_backs_off_from_nothing() -> None:
    view = folded(
        (0, TryStarted("a", "t", 0, 1)),
        (9, PhaseEnded("a", Phase.AGENT, 9.0)),
        (9, TryEnded("a", 1, PASSED)),
        (9.0001, AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 1)),
    )
    assert BACKOFF not in view.time.parts
    cut = folded(
        (0, TryStarted("a", "t", 0, 1)),
        (1, TryEnded("a", 1, BROKEN)),
        (8, AttemptSealed("a", "t", 0, Verdict.CANCELLED, None, 1)),
    )
    assert cut.time.parts == {BACKOFF: 7.0, OTHER: 1.0}, "it was cancelled while it waited"


def test_07_the_hint_about_the_work_is_right_for_one_slow_task_and_for_single_attempts() -> None:
    assert "t9 #0 alone took 1m00s of 1m02s" in hint_of_agent(("t9 #0", 60.0), 62.0, repeated=False)
    assert "--early-exit" in hint_of_agent(("t9 #0", 6.0), 62.0, repeated=True)
    assert "--early-exit" not in hint_of_agent(("t9 #0", 6.0), 62.0, repeated=False)
    told: list[tuple[float, Event]] = []
    for name, seconds in (("a", 3.0), ("b", 60.0)):
        told += [(0, TryStarted(name, name, 0, 1)), (seconds, PhaseEnded(name, Phase.AGENT, seconds))]
        told += [(seconds, TryEnded(name, 1, PASSED)), (seconds, AttemptSealed(name, name, 0, Verdict.PASSED, 1.0, 1))]
    lines = summary_lines(folded(*told, slots=2), directory="d")
    assert any(line.startswith("most went into agent: b #0 alone took 1m00s of 1m00s") for line in lines)
