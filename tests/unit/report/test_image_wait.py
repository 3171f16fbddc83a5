"""A wait for an image on every display: the panel, the plain text, the time that was spent (spec 06 V4, 07)."""

from __future__ import annotations

from proctor.model.attempt import Phase
from proctor.model.events import ImageWaitEnded, ImageWaitStarted, PhaseEnded, PhaseStarted, RunStarted, TryStarted
from proctor.report.attempt import AttemptStory, TryFiles, attempt_data, attempt_lines
from proctor.report.beginnings import Beginnings
from proctor.report.panel_rows import Flying, row_of, state_of
from proctor.report.time_hints import time_lines
from proctor.report.view import RunView


def waiting() -> RunView:
    view = RunView("e")
    for at, event in (
        (0.0, RunStarted(1, "i", "r", "e", "0", "h", 1, 2, 2)),
        (1.0, TryStarted("a", "t", 0, 1)),
        (1.0, TryStarted("b", "u", 0, 1)),
        (2.0, ImageWaitStarted("a", "alpine:3")),
        (2.0, ImageWaitStarted("b", "alpine:3")),
    ):
        view.add(event, at)
    return view


def test_V4_an_attempt_that_waits_for_its_image_says_so_with_the_image_and_the_time() -> None:
    view = waiting()
    flight = view.in_flight["a"]
    assert state_of(flight, grading_waits=False) == "waiting for image"
    row = row_of(Flying(1.0, "e", "a", flight, grading_waits=False), 32.0, 1, None)
    assert "waiting for image" in str(row)
    assert "alpine:3" in str(row)
    assert "00:30" in str(row)
    view.add(ImageWaitEnded("a", 30.0), 32.0)
    view.add(PhaseStarted("a", Phase.OPEN), 32.0)
    assert state_of(flight, grading_waits=False) == "open"


def test_V4_the_plain_text_names_the_image_that_is_waited_for_once() -> None:
    begun = Beginnings()
    assert list(begun.lines([], {"e": waiting()}, 12.0, {})) == ["preparing: image alpine:3 for 10s: t #0 and 1 more"]
    assert not list(begun.lines([], {"e": waiting()}, 13.0, {}))


def test_V4_the_time_is_a_wait_of_its_own_and_the_parts_add_up() -> None:
    view = waiting()
    for name in ("a", "b"):
        view.add(ImageWaitEnded(name, 30.0), 32.0)
        view.add(PhaseStarted(name, Phase.OPEN), 32.0)
        view.add(PhaseEnded(name, Phase.OPEN, 2.0), 34.0)
    parts = view.time.parts
    assert parts["waiting for images"] == 60.0
    assert parts["open"] == 4.0
    assert "--max-build-concurrency" in time_lines(parts)[1]
    assert sum(parts.values()) == view.time.queued_seconds + view.time.in_flight_seconds


def test_V4_an_attempt_shows_how_long_it_waited_for_an_image() -> None:
    story = AttemptStory("a")
    for event in (TryStarted("a", "t", 0, 1), ImageWaitStarted("a", "alpine:3"), ImageWaitEnded("a", 30.0)):
        story.add(event, 0.0)

    files = [TryFiles("d", ())]
    assert any("waited 30s for an image" in line for line in attempt_lines(story, experiment="e", run="r", files=files))
    [told] = attempt_data(story, experiment="e", run="r", files=files)["tries"]
    assert told["image_wait_seconds"] == 30.0
    assert told["kept"] == []
