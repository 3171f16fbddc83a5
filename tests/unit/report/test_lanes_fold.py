"""The inside of a try as spans of time: phases, and the waits in which nothing executes."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_runs import START, good_try

from proctor.model.attempt import Phase
from proctor.model.events import (
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    PhaseEnded,
    PhaseStarted,
)
from proctor.report.lanes import LETTERS, TrySpans

A = "abcdefghijkl"


def spans_of(events, started_at: float = START) -> list[tuple[str, float, float | None]]:
    spans = TrySpans(started_at)
    for event, at in events:
        spans.add(event, at)
    return [(one.kind, one.start - started_at, one.end and one.end - started_at) for one in spans.spans]


def test_phases_and_waits_follow_each_other_without_a_gap() -> None:
    assert spans_of(good_try(A, "t", START)) == [
        ("open", 0, 1), ("agent", 1, 2), ("backoff", 2, 3), ("agent", 3, 6), ("permits", 6, 8), ("grade", 8, 10),
    ]  # fmt: skip


def test_permits_that_are_had_at_once_are_no_wait() -> None:
    assert spans_of([(GradingQueued(A), START + 1), (GradingStarted(A), START + 1.0001)]) == []


def test_a_wait_for_an_image_interrupts_the_phase() -> None:
    events = [
        (PhaseStarted(A, Phase.OPEN), START), (ImageWaitStarted(A, "img"), START + 1),
        (ImageWaitEnded(A, 2.0), START + 3), (PhaseEnded(A, Phase.OPEN, 2.0), START + 4),
    ]  # fmt: skip
    assert spans_of(events) == [("open", 0, 1), ("image", 1, 3), ("open", 3, 4)]


def test_a_phase_whose_start_was_not_read_is_known_from_its_end() -> None:
    assert spans_of([(PhaseEnded(A, Phase.AGENT, 3.0), START + 5)]) == [("agent", 2, 5)]
    assert spans_of([(PhaseEnded(A, Phase.AGENT, 9.0), START + 5)]) == [("agent", 0, 5)], "not before its try"


def test_what_goes_on_has_no_end() -> None:
    assert spans_of([(PhaseStarted(A, Phase.AGENT), START + 1)]) == [("agent", 1, None)]


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_a_letter_of_its_own(phase: Phase) -> None:
    assert LETTERS[phase.value]
    assert len(set(LETTERS.values())) == len(LETTERS)
