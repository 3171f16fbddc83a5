"""Frames of the panel: what stands where, at every size, for what a terminal can show (spec 07)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    BackoffStarted,
    DispatchStopped,
    Event,
    GradingQueued,
    Interrupted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    RunStarted,
    SandboxOpened,
    SlotFilled,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.model.waiting import Gate, Waiting
from proctor.report.estimate import Estimate
from proctor.report.health import CallStats, Health, HostLoad, health_line, health_of
from proctor.report.panel import Look, Page, frame
from proctor.report.panel_lines import Line, width_of
from proctor.report.sign import Sign
from proctor.report.view import RunView

FRAMES = Path(__file__).parent / "frames"
BEGAN = 1_000_000.0
REFUSED = issue_of("provider.open_failed", "no room", Phase.OPEN)
CUT = issue_of("output.truncated", "3 bytes", Phase.AGENT)


def passed(cost: float | None = 0.04) -> TryResult:
    return TryResult(Outcome.GRADED, Grade(True, 1.0), Usage(calls=3, input_tokens=10, cost_usd=cost))


def story() -> dict[str, RunView]:
    """Two experiments: one of 36 tasks, of which 5 are saved, and one that is capped at one attempt at a time."""
    views = {"codex": RunView("codex"), "slow": RunView("slow")}

    def tell(name: str, at: float, *events: Event) -> None:
        for event in events:
            views[name].add(event, BEGAN + at)

    tell("codex", 0, RunStarted(1, "i", "r", "codex", "0", "h", 1, 36, 36))
    tell("codex", 0, *(SlotFilled(f"r{n}", f"old-{n}", 0, "m/r", Verdict.PASSED, 1.0, 0.1) for n in range(5)))
    tell("slow", 0, RunStarted(1, "i", "r", "slow", "0", "h", 1, 9, 9))
    for number in range(12):
        name, task = f"c{number}", f"terminal/fix-git-{number}"
        tell("codex", 1 + number, TryStarted(name, task, 0, 1), PhaseStarted(name, Phase.OPEN))
        tell("codex", 3.1 + number, PhaseEnded(name, Phase.OPEN, 2.1), SandboxOpened(name, 1, name, Purpose.AGENT))
        tell("codex", 4 + number, PhaseStarted(name, Phase.AGENT))
    for number in (0, 1, 2):
        tell("codex", 60 + number, TryEnded(f"c{number}", 1, passed()))
        tell("codex", 60 + number, AttemptSealed(f"c{number}", f"terminal/fix-git-{number}", 0, Verdict.PASSED, 1.0, 1))
    tell("codex", 70, IssueRaised("c3", REFUSED), TryEnded("c3", 1, TryResult(Outcome.BROKEN, issues=(REFUSED,))))
    tell("codex", 80, TryStarted("c3", "terminal/fix-git-3", 0, 2), PhaseStarted("c3", Phase.OPEN))
    tell("codex", 85, IssueRaised("c4", CUT), GradingQueued("c4"))
    tell("codex", 90, PhaseStarted("c5", Phase.GRADE))
    tell("slow", 5, TryStarted("s0", "web/login", 2, 1), PhaseStarted("s0", Phase.AGENT))
    tell("slow", 180, BackoffStarted("s0", "model.rate_limited", 20.0))
    return views


WAITING = (
    Waiting("codex", Gate.PROVIDER, "docker", 19, 8, 8),
    Waiting("slow", Gate.EXPERIMENT, "slow", 8, 1, 1),
)


def page(**changes: object) -> Page:
    known: dict[str, object] = {
        "now": BEGAN + 192,
        "views": story(),
        "plan": ["45 attempts", "45 tasks", "2 experiments", "concurrency 19 (from flag)", "docker 8", "slow ≤1"],
        "waiting": WAITING,
        "health": Health(2.1, CallStats(50, 3.2, 2, 1), HostLoad(0.35, 0.62)),
        "estimate": Estimate(540.0, 840.0, 3.1, 0.6),
        "tries": {"codex": 3, "slow": 3},
        "sight": lambda attempt: Sign(4.0, 1200.0) if attempt != "c4" else None,
    }
    return Page(**{**known, **changes})  # type: ignore[arg-type]


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def check_frame(name: str, lines: list[Line]) -> None:
    text, path = "\n".join(text_of(lines)) + "\n", FRAMES / f"{name}.txt"
    if os.environ.get("PROCTOR_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no frame {name}; run with PROCTOR_UPDATE_SNAPSHOTS=1 and read what it wrote"
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("120x30", Look(120, 30)),
        ("80x24", Look(80, 24)),
        ("40x24", Look(40, 24)),
        ("80x8", Look(80, 8)),
        ("80x24-ascii", Look(80, 24, "ascii")),
    ],
)
def test_07_frames(name: str, look: Look) -> None:
    check_frame(name, frame(page(), look))


def test_07_the_last_frame_of_an_interrupted_run() -> None:
    views = story()
    for name, view in views.items():
        for attempt in list(view.in_flight):
            flight = view.in_flight[attempt]
            view.add(TryEnded(attempt, flight.try_number, TryResult(Outcome.CANCELLED)), BEGAN + 200)
            sealed = AttemptSealed(attempt, flight.task, flight.ordinal, Verdict.CANCELLED, None, flight.try_number)
            view.add(sealed, BEGAN + 200)
        view.add(Interrupted(2), BEGAN + 200)
        view.add(DispatchStopped(name, StopReason.INTERRUPT, view.counts.queued), BEGAN + 200)
    check_frame("interrupted", frame(page(views=views, waiting=(), now=BEGAN + 201), Look(80, 24)))


def test_07_what_is_not_known_is_left_out() -> None:
    lines = text_of(
        frame(page(health=Health(), estimate=None, waiting=None, plan=(), sight=lambda _: None), Look(80, 24))
    )
    text = "\n".join(lines)
    for word in ("HEALTH", "PLAN", "est.", "eta", "last output", "limit 20:00"):
        assert word not in text
    assert "WAITING  27 queued" in text


def test_07_a_slow_setup_explains_that_nothing_runs() -> None:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, 12, 12), BEGAN)
    waiting = [Waiting("e", Gate.SETUP, "e", 12)]
    lines = text_of(frame(Page(BEGAN + 75.0, {"e": view}, waiting=waiting), Look(100, 24)))
    assert lines[0].strip().startswith("12 total · 0 running · 12 queued")
    assert lines[1] == "WAITING  12 setup of e 01:15"


def test_07_who_holds_a_lease_is_said() -> None:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, 1, 1), BEGAN)
    waiting = [Waiting("e", Gate.LEASE, "mempal/codex", 1)]
    holders = {"mempal/codex": "run 7 on host b since 14:02"}
    lines = text_of(frame(Page(BEGAN + 5.0, {"e": view}, waiting=waiting, holders=holders), Look(100, 24)))
    assert lines[1] == "WAITING  1 lease mempal/codex held by run 7 on host b since 14:02, waited for 00:05"


def test_07_what_was_decided_and_is_not_written_yet_is_counted_as_such() -> None:
    """The scheduler is ahead of the journal: 2 of the 27 that are shown as queued have been started."""
    lines = text_of(frame(page(waiting=[WAITING[0]._replace(slots=17), WAITING[1]]), Look(120, 30)))
    assert "WAITING  17 docker 8/8 · 8 slow ≤1 · 2 just decided" in lines


def test_168_a_preparation_is_shown_with_its_age_and_counts_as_queued_or_running_but_never_as_done() -> None:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, 2, 2), BEGAN)
    view.add(TryStarted("a", "t", 0, 1), BEGAN)
    view.add(PhaseStarted("a", Phase.OPEN), BEGAN)
    lines = text_of(frame(Page(BEGAN + 8.0, {"e": view}), Look(80, 24)))
    assert "RUNNING  t #0      open  00:08" in lines
    assert "2 total · 1 running · 1 queued · 0 passed" in lines[0]


def crowd(total: int, flying: int) -> RunView:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, total, total), BEGAN)
    for number in range(flying):
        view.add(TryStarted(f"a{number}", f"task/{number}", 0, 1), BEGAN + number * 0.001)
        view.add(PhaseStarted(f"a{number}", Phase.AGENT), BEGAN + number * 0.001)
    return view


CROWD = crowd(10_000, 1_000)


@settings(max_examples=60)
@given(width=st.integers(1, 200), height=st.integers(1, 60), ascii_only=st.booleans(), crowded=st.booleans())
@example(width=6, height=26, ascii_only=False, crowded=False)
def test_07_no_frame_is_larger_than_the_terminal(width: int, height: int, ascii_only: bool, crowded: bool) -> None:
    look = Look(width, height, "ascii" if ascii_only else "utf-8")
    lines = frame(page(views={"e": CROWD}, waiting=()) if crowded else page(), look)
    assert len(lines) <= height
    assert all(width_of(line) <= width for line in lines)
    text = "\n".join(text_of(lines))
    assert not ascii_only or text.isascii()
    assert "……" not in text


@settings(max_examples=30)
@given(width=st.integers(40, 200), crowded=st.booleans())
def test_07_from_40_columns_on_no_number_is_lost(width: int, crowded: bool) -> None:
    text = " ".join(
        line.strip()
        for line in text_of(frame(page(views={"e": CROWD}, waiting=()) if crowded else page(), Look(width, 60)))
    )
    if crowded:
        for words in ("10,000 total", "1,000 running", "9,000 queued", "0 passed", "0 skipped"):
            assert words in text
    else:
        told = "45 total, 5 reused, 10 running, 1 backing off, 1 waiting for grading, 27 queued, 3 passed, 0 errored"
        for words in (*told.split(", "), "19 docker 8/8", "8 slow ≤1", "$0.12", "eta 9 min", "429s 4%", "errors 2%"):
            assert words in text, words


def test_07_thousands_in_flight_are_told_in_numbers() -> None:
    lines = text_of(frame(Page(BEGAN + 60, {"e": CROWD}, waiting=()), Look(80, 24)))
    assert len(lines) <= 24
    assert sum("agent  " in line for line in lines) <= 12
    assert any("more: " in line and "agent" in line for line in lines)


def test_07_a_few_rows_are_kept_for_attempts_that_back_off() -> None:
    view = crowd(100, 50)
    view.add(BackoffStarted("a49", "model.overloaded", 10.0), BEGAN + 1)
    lines = text_of(frame(Page(BEGAN + 3, {"e": view}, waiting=()), Look(80, 24)))
    assert any("task/49 #0" in line and "backing off 8 s (model.overloaded, try 1 of 1)" in line for line in lines)


def test_07_foreign_text_draws_nothing() -> None:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, 1, 1), BEGAN)
    view.add(TryStarted("a", "t\x1b[2J\x1b]0;x\x07", 0, 1), BEGAN)
    assert "\x1b" not in "\n".join(text_of(frame(Page(BEGAN, {"e": view}), Look(80, 24))))


def test_07_health_is_the_median_of_openings_and_the_shares_of_calls() -> None:
    health = health_of(story().values(), CallStats(50, None, 50, 0), None)
    assert health.open_seconds == 2.1
    assert health_line(health) == "health: open 2.1s · 429s 100% · errors 0% of the last 50 calls"
    assert health_line(health_of([], CallStats(0, None, 0, 0), None)) is None
