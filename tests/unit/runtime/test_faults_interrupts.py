"""Interrupts while plugins hang, in every phase: the run ends in time, and nothing is left (spec 10 I1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_plugins import HEALTHY, Case, Hangs, Site, Until
from fault_rig import House
from fault_table import CLEANING, HANGS, Row
from test_faults import OFF, PLACES, check_run

from proctor.model.attempt import GradingMode
from proctor.model.events import AttemptSealed, Completion, IssueRaised

GRACE_SECONDS = 30.0
FORCED_SECONDS = 5.0


def interrupted(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool, interrupts: tuple[float, ...]) -> House:
    """Run an attempt with every kind of hang, all at once, and interrupt them; no limit would end them earlier."""
    cases = [HEALTHY, *(Case(row.site, deed) for deed in HANGS)]
    limits = OFF.__class__(None, None, None, None, None, 1000.0)
    house = House(
        tmp_path, cases, mode, lanes=lanes, concurrency=len(cases), limits=limits, interrupts=interrupts
    ).run()
    assert len(house.world.done) == len(HANGS)
    check_run(house, Completion.INTERRUPTED)
    verdicts = {event.task: event.verdict.value for event in house.sink.events if isinstance(event, AttemptSealed)}
    for task, case in house.case_of.items():
        assert verdicts[task] in (("cancelled", "passed") if row.site in CLEANING and case.site else
                                  ("cancelled",) if case.site else ("passed",)), task  # fmt: skip
    if row.site not in (Site.DISPOSE, Site.DISPOSE_GRADE):
        assert not house.world.live, "what could be disposed of is gone"
    return house


@pytest.mark.parametrize(("row", "mode", "lanes"), PLACES)
def test_10_I1_the_first_interrupt_cancels_what_hangs(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    house = interrupted(tmp_path, row, mode, lanes, (1.0,))
    assert house.seconds <= 1.0 + GRACE_SECONDS + FORCED_SECONDS
    stubborn = [event.issue for event in house.sink.events if isinstance(event, IssueRaised)]
    if row.site in (Site.OPEN, Site.OPEN_GRADE):
        assert [issue.code for issue in stubborn] == ["dispose.failed"], "the one that ignores it may leave something"


@pytest.mark.parametrize("pause", [0.0, 0.5, 10.0])
@pytest.mark.parametrize(("row", "mode", "lanes"), PLACES)
def test_10_I1_the_second_interrupt_ends_it_within_five_seconds(
    tmp_path: Path, row: Row, mode: GradingMode, lanes: bool, pause: float
) -> None:
    house = interrupted(tmp_path, row, mode, lanes, (1.0, 1.0 + pause))
    assert house.seconds <= 1.0 + pause + FORCED_SECONDS


@pytest.mark.parametrize("until", Until)
def test_10_I1_a_third_interrupt_changes_nothing_in_the_books(tmp_path: Path, until: Until) -> None:
    cases = [Case(site, Hangs(until)) for site in (Site.OPEN, Site.SEND, Site.GRADE, Site.DISPOSE, Site.CLOSE)]
    house = House(tmp_path, cases, limits=OFF, interrupts=(1.0, 1.5, 2.0)).run()
    check_run(house, Completion.INTERRUPTED)
    assert house.seconds <= 1.5 + FORCED_SECONDS
