"""The publisher shows what it journals, with the moments that the journal has."""

from __future__ import annotations

import asyncio
import random

from proctor.model.events import Event, Interrupted
from proctor.runtime.clock import SystemClock
from proctor.runtime.publisher import Publisher, Shown
from proctor.store.codec import seconds_of, stamp
from proctor.testing.fakes import FakeClock


class Sink:
    """Keeps events as lines of a journal would."""

    def __init__(self) -> None:
        self.kept: list[tuple[Event, str]] = []

    def append(self, event: Event, at: float) -> None:
        self.kept.append((event, stamp(at)))

    def flush(self) -> None:
        pass

    def commit(self) -> None:
        pass


def test_what_is_shown_has_the_moments_that_the_journal_keeps() -> None:
    """So that the sums of a display and of a fold of the journal are the same to the last digit (spec 07)."""
    shown: list[Shown] = []
    sink, clock, rng = Sink(), FakeClock(), random.Random(1)

    async def publish() -> None:
        publisher = Publisher({"one": sink}, shown.extend, clock, on_failure=lambda: None)
        committer = publisher.start()
        for number in range(200):
            clock.advance(rng.random())
            publisher.record("one", Interrupted(number))
        publisher.end_step()
        await publisher.close()
        await committer

    asyncio.run(publish())
    assert len(shown) == 200
    assert [(event, at) for _, event, at in shown] == [(event, seconds_of(at)) for event, at in sink.kept]


def test_every_moment_of_the_clock_is_one_that_the_journal_keeps() -> None:
    """Also those of events that are journaled before there is a publisher, such as the start of a run."""
    clock = SystemClock()
    moments = [clock.wall() for _ in range(1000)]
    assert moments == [seconds_of(stamp(at)) for at in moments]
