"""Examples of order, stops, interrupts and of what cannot happen (spec 03, 05, 10)."""

from __future__ import annotations

import pytest
from scheduler_rig import CANCELLED, FAILED, PASSED, SKIPPED, Rig, broken, experiment, play

from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    GradingQueued,
    GradingStarted,
    PhaseStarted,
    Purpose,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxOpened,
    StopReason,
    TryEnded,
    TryStarted,
    Verdict,
)
from proctor.model.waiting import Gate, Waiting


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


# -------------------------------------------------------------------------------------------------------- order


def test_O2_first_ordinals_of_all_tasks_go_before_second_ones():
    rig = Rig(experiment("e", ["b", "a"], attempts=2), slots=1)
    play(rig, lambda name: 1.0)
    assert starts(rig.log) == ["e/b#0", "e/a#0", "e/b#1", "e/a#1"]


def test_O2_tasks_with_and_without_a_sandbox_keep_one_order():
    rig = Rig(experiment("e", 4, attempts=2, sandbox=(True, False, False, True)), slots=1)
    play(rig, lambda name: 1.0)
    assert starts(rig.log) == [f"e/t{task}#{ordinal}" for ordinal in (0, 1) for task in range(4)]


def test_O2_the_choice_is_made_anew_for_each_freed_slot():
    """An experiment capped at one does not queue its next attempt behind everything others had waiting."""
    rig = Rig(experiment("slow", 10, cap=1), experiment("fast", 24), slots=3)
    spans = play(rig, lambda name: 1.0)
    assert rig.now == 12.0
    # The last one has less need than what is left of `fast`, and time to spare.
    assert [spans[f"slow/t{i}#0"][0] for i in range(10)] == [*(float(i) for i in range(9)), 10.0]


def test_O3_eight_slots_work_while_two_providers_with_limits_two_and_six_have_work():
    rig = Rig(
        experiment("a", 16, provider="small"),
        experiment("b", 16, provider="large"),
        slots=8,
        providers={"small": 2, "large": 6},
    )
    spans = play(rig, lambda name: 0.5)
    assert rig.now == 4.0
    for moment in (0.0, 0.5):
        assert sum(start <= moment < end for start, end in spans.values()) == 8


def test_O3_a_full_provider_or_cap_in_front_holds_up_nobody_behind():
    rig = Rig(experiment("a", 3, cap=1), experiment("b", 3, provider="full"), experiment("c", 2, provider="free"),
              slots=4, providers={"full": 1})  # fmt: skip
    assert starts(rig.start()) == ["a/t0#0", "b/t0#0", "c/t0#0", "c/t1#0"]


def test_O3_slots_that_need_no_sandbox_pass_those_that_wait_for_one():
    rig = Rig(experiment("e", 3, attempts=2, sandbox=(True, False, False)), slots=3, providers={"docker": 1})
    assert starts(rig.start()) == ["e/t0#0", "e/t1#0", "e/t2#0"]
    assert starts(rig.end("e/t1#0")) == ["e/t1#1"]  # t0#1 is first in order, and its provider is full
    assert starts(rig.end("e/t0#0")) == ["e/t0#1"]


def test_O5_the_same_plan_and_events_give_the_same_commands():
    def once() -> list[str]:
        rig = Rig(experiment("a", 5, 2, cap=2), experiment("b", 4, 2, isolated=False), slots=3)
        play(rig, lambda name: 1.0 + len(name) % 3)
        return rig.log

    assert once() == once()


# -------------------------------------------------------------------------------------------------- the end


def test_seal_comes_before_finish_run_and_finish_comes_once_and_last():
    rig = Rig(experiment("a", 1), experiment("b", 1))
    rig.start()
    assert rig.end("a/t0#0") == ["seal a/t0#0 passed 1.0", "finish a complete"]
    assert rig.end("b/t0#0") == ["seal b/t0#0 passed 1.0", "finish b complete", "finish"]
    assert rig.interrupt() == []


def test_a_scheduler_without_experiments_finishes_at_once():
    assert Rig().start() == ["finish"]


def test_it_starts_once():
    rig = Rig(experiment())
    rig.start()
    with pytest.raises(InternalError, match="started twice"):
        rig.start()


# ------------------------------------------------------------------------------------------------ interrupts


def test_I1_an_interrupt_stops_dispatch_cancels_what_is_in_flight_and_keeps_what_is_finished():
    rig = Rig(experiment("a", 3), experiment("b", 2), slots=2)
    rig.start()
    rig.end("a/t0#0")
    assert rig.interrupt() == ["stop b interrupt 2", "cancel a/t1#0", "cancel a/t2#0", "finish b interrupted"]
    assert rig.end("a/t1#0", CANCELLED) == ["seal a/t1#0 cancelled"]
    assert rig.end("a/t2#0", CANCELLED) == ["seal a/t2#0 cancelled", "finish a interrupted", "finish"]
    assert rig.log.count("seal a/t0#0 passed 1.0") == 1


def test_I1_runs_with_nothing_in_flight_finish_at_the_interrupt():
    rig = Rig(experiment("a", 1), experiment("b", 2), slots=1)
    rig.start()
    assert rig.interrupt() == ["stop b interrupt 2", "cancel a/t0#0", "finish b interrupted"]
    assert rig.end("a/t0#0", CANCELLED) == ["seal a/t0#0 cancelled", "finish a interrupted", "finish"]


def test_I1_a_try_that_ended_before_it_heard_of_the_interrupt_keeps_its_verdict():
    rig = Rig(experiment("e", 1))
    rig.start()
    rig.interrupt()
    assert rig.end("e/t0#0", FAILED) == ["seal e/t0#0 failed 0.25", "finish e interrupted", "finish"]


def test_I1_a_second_interrupt_changes_nothing_here():
    rig = Rig(experiment("e", 2), slots=1)
    rig.start()
    assert rig.interrupt()
    assert rig.interrupt() == []


def test_I1_an_interrupt_before_the_start_leaves_nothing_to_dispatch():
    rig = Rig(experiment("a", 2), experiment("b", 1))
    assert rig.interrupt() == []
    assert rig.start() == [
        "stop a interrupt 2", "stop b interrupt 1", "finish a interrupted", "finish b interrupted", "finish",
    ]  # fmt: skip


def test_I1_gradings_that_wait_are_cancelled_too_and_never_granted():
    rig = Rig(experiment("e", 2, sandbox=False, grading=GradingMode.FRESH), providers={"docker": 1})
    rig.start()
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert rig.queue_grading("e/t1#0") == []
    assert rig.interrupt() == ["cancel e/t0#0", "cancel e/t1#0"]
    assert rig.end("e/t0#0", CANCELLED) == ["seal e/t0#0 cancelled"]
    assert rig.end("e/t1#0", CANCELLED) == ["seal e/t1#0 cancelled", "finish e interrupted", "finish"]


def test_I1_a_try_that_asks_for_grading_just_after_the_interrupt_is_not_granted():
    rig = Rig(experiment("e", 1, sandbox=False, grading=GradingMode.FRESH))
    rig.start()
    rig.interrupt()
    assert rig.queue_grading("e/t0#0") == []
    assert rig.end("e/t0#0", CANCELLED) == ["seal e/t0#0 cancelled", "finish e interrupted", "finish"]


# ------------------------------------------------------------------------------------------------- stopped scopes


@pytest.mark.parametrize("code", ["model.refused_auth", "provider.unavailable"])
def test_three_permanent_failures_in_a_row_with_one_code_stop_the_experiment(code):
    rig = Rig(experiment("e", 5), experiment("other", 1, provider="local"), slots=1)
    rig.start()
    rig.end("e/t0#0", broken(code))
    rig.end("e/t1#0", broken(code))
    assert rig.end("e/t2#0", broken(code)) == [
        "seal e/t2#0 errored", "stop e stopped scope 2", "start other/t0#0", "finish e stopped",
    ]  # fmt: skip


def test_a_row_is_broken_by_another_end_or_another_code_and_not_by_a_cancelled_or_skipped_try():
    auth = broken("model.refused_auth")
    rig = Rig(experiment("e", 12), slots=1)
    rig.start()
    row = [auth, auth, FAILED, auth, auth, broken("model.payment"), auth, SKIPPED, auth]
    for index, result in enumerate(row):
        assert not [line for line in rig.end(f"e/t{index}#0", result) if line.startswith("stop")]
    assert "stop e stopped scope 2" in rig.end("e/t9#0", auth)


def test_failures_that_may_pass_by_themselves_stop_nothing():
    rig = Rig(experiment("e", 6), slots=1)
    rig.start()
    for index in range(6):
        rig.end(f"e/t{index}#0", broken("model.overloaded"))
    assert rig.log[-2:] == ["finish e complete", "finish"]


@pytest.mark.parametrize(("code", "reason"), [("store.full", "disk"), ("internal", "stopped scope")])
def test_a_failure_of_the_whole_invocation_stops_all_dispatch_at_once(code, reason):
    rig = Rig(experiment("a", 3), experiment("b", 1), slots=2)
    rig.start()
    assert rig.end("a/t0#0", broken(code)) == [
        "seal a/t0#0 errored", f"stop a {reason} 1", f"stop b {reason} 1", "finish b stopped",
    ]  # fmt: skip
    # What runs goes on to its end.
    assert rig.end("a/t1#0") == ["seal a/t1#0 passed 1.0", "finish a stopped", "finish"]


def test_what_is_in_flight_is_still_graded_after_a_stop():
    rig = Rig(experiment("e", 4, sandbox=False, grading=GradingMode.FRESH), slots=2)
    rig.start()
    rig.end("e/t0#0", broken("store.full"))
    assert rig.queue_grading("e/t1#0") == ["grade e/t1#0"]


def test_a_run_whose_slots_were_all_dispatched_before_a_stop_is_complete():
    rig = Rig(experiment("e", 2))
    rig.start()
    rig.end("e/t0#0", broken("store.full"))
    assert rig.end("e/t1#0") == ["seal e/t1#0 passed 1.0", "finish e complete", "finish"]


def test_an_interrupt_after_a_stop_ends_the_run_as_interrupted():
    rig = Rig(experiment("e", 3), slots=2)
    rig.start()
    rig.end("e/t0#0", broken("internal"))
    assert rig.interrupt() == ["cancel e/t1#0"]
    assert rig.end("e/t1#0", CANCELLED) == ["seal e/t1#0 cancelled", "finish e interrupted", "finish"]


# ------------------------------------------------------------------------------------------- the impossible


def test_an_event_of_an_unknown_attempt_is_an_internal_error():
    rig = Rig(experiment())
    rig.start()
    with pytest.raises(InternalError, match="no attempt @nobody was dispatched"):
        rig.feed(TryEnded("nobody", 1, PASSED))


def test_a_second_end_is_an_internal_error_with_the_story():
    rig = Rig(experiment())
    rig.start()
    rig.end("e/t0#0")
    with pytest.raises(InternalError, match="is `ended`") as caught:
        rig.end("e/t0#0")
    assert "start try" in caught.value.message
    assert "TryEnded" in caught.value.message


def test_what_cannot_happen_is_an_internal_error_with_the_last_events():
    rig = Rig(experiment("e", 1, grading=GradingMode.FRESH))
    rig.start()
    rig.now = 1.5
    rig.opened("e/t0#0")
    with pytest.raises(InternalError, match="cannot have `grading queued`") as caught:
        rig.queue_grading("e/t0#0")
    story = caught.value.message
    assert "e t0 #0, try 1" in story
    assert "1.500 SandboxOpened" in story
    assert caught.value.hint


def test_the_story_stays_small():
    rig = Rig(experiment("e", 1))
    rig.start()
    for _ in range(1000):
        rig.feed(PhaseStarted(rig.ids["e/t0#0"], Phase.AGENT))
    with pytest.raises(InternalError) as caught:
        rig.queue_grading("e/t0#0")
    assert len(caught.value.message) < 4000


@pytest.mark.parametrize("kind", ["ended", "opened"])
def test_an_event_of_another_try_is_an_internal_error(kind):
    rig = Rig(experiment("e", 1))
    rig.start()
    attempt = rig.ids["e/t0#0"]
    event = TryEnded(attempt, 2, PASSED) if kind == "ended" else SandboxOpened(attempt, 2, "box", Purpose.AGENT)
    with pytest.raises(InternalError, match=r"try 2 .* during try 1"):
        rig.feed(event)


def test_a_disposal_that_ends_after_its_try_changes_nothing():
    rig = Rig(experiment("e", 2), slots=1)
    rig.start()
    rig.end("e/t0#0")
    assert rig.feed(SandboxDisposed(rig.ids["e/t0#0"], "box")) == []


def test_an_attempt_id_given_out_twice_is_an_internal_error():
    rig = Rig(experiment("e", 2))
    rig.scheduler._books._mint = lambda: "same"
    with pytest.raises(InternalError, match="given out before"):
        rig.scheduler.start(now=0.0)


def test_two_experiments_of_one_name_are_an_internal_error():
    with pytest.raises(InternalError, match="same name"):
        Rig(experiment("e"), experiment("e"))


def test_events_that_echo_commands_change_nothing():
    rig = Rig(experiment("e", 2, sandbox=False, grading=GradingMode.FRESH), slots=1)
    rig.start()
    attempt = rig.ids["e/t0#0"]
    before = rig.scheduler.snapshot()
    for echo in (
        RunStarted(1, "i", "r", "e", "0", "host", 1, 2),
        TryStarted(attempt, "t0", 0, 1),
        GradingStarted(attempt),
        AttemptSealed(attempt, "t0", 0, Verdict.PASSED, 1.0, 1),
        DispatchStopped("e", StopReason.DISK, 1),
        RunEnded("e", Completion.COMPLETE),
    ):
        assert rig.feed(echo) == []
    assert rig.scheduler.snapshot() == before


def test_a_try_may_end_while_it_waits_for_grading():
    rig = Rig(experiment("e", 2, sandbox=False, grading=GradingMode.FRESH), slots=2, providers={"docker": 1})
    rig.start()
    rig.queue_grading("e/t0#0")
    assert rig.queue_grading("e/t1#0") == []
    assert rig.end("e/t1#0", broken("worker.lost")) == ["seal e/t1#0 errored"]
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "finish e complete", "finish"]


# ---------------------------------------------------------------------------------------------------- snapshot


def test_the_snapshot_adds_up_and_names_the_gate_that_blocks_each_queued_slot():
    rig = Rig(
        experiment("capped", 3, cap=1),
        experiment("full", 4, provider="small"),
        experiment("serial", 1, attempts=3, isolated=False, sandbox=False),
        slots=10,
        providers={"small": 1},
    )
    rig.start()
    snapshot, waiting = rig.scheduler.snapshot(), rig.scheduler.waiting(now=rig.now)
    assert {each.key: each.slots for each in waiting} == {"experiment capped": 2, "provider small": 3, "same task": 2}
    assert [each.experiment for each in waiting] == ["capped", "full", "serial"]
    for view in snapshot.experiments:
        assert view.queued + view.in_flight + view.sealed + sum(view.stopped.values()) == view.slots
    assert sum(each.slots for each in waiting) == sum(view.queued for view in snapshot.experiments)


def test_the_snapshot_names_the_global_gate_first_and_never_changes():
    rig = Rig(experiment("e", 3, cap=1), slots=1)
    rig.start()
    snapshot, waiting = rig.scheduler.snapshot(), rig.scheduler.waiting(now=rig.now)
    assert waiting == [Waiting("e", Gate.CONCURRENCY, "", 2, 1, 1)]
    rig.interrupt()
    assert waiting == [Waiting("e", Gate.CONCURRENCY, "", 2, 1, 1)]
    assert snapshot.experiments[0].queued == 2
    assert rig.scheduler.snapshot().experiments[0].stopped == {StopReason.INTERRUPT: 2}


def test_the_snapshot_counts_who_waits_for_grading():
    rig = Rig(experiment("e", 3, sandbox=False, grading=GradingMode.FRESH), providers={"docker": 1})
    rig.start()
    for task in range(3):
        rig.feed(GradingQueued(rig.ids[f"e/t{task}#0"]))
    assert rig.scheduler.snapshot().experiments[0].waiting_for_grading == 2
