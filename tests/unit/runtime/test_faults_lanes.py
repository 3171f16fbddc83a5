"""Faults of sandboxes that are used again: which are given up, and that a lane always closes (spec 03 L2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fault_plugins import HEALTHY, Case, Deed, Hangs, Site, Until
from fault_rig import House
from fault_table import ALL, CRASHES, HANGS, RETIRING, ROWS, Row
from test_faults import OFF, check_run

from proctor.model.attempt import GradingMode
from proctor.model.events import AttemptSealed, LaneClosed, TryEnded


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("row", [row for row in ROWS if row.site in RETIRING], ids=lambda row: row.site.value)
@pytest.mark.parametrize("deed", [CRASHES[0], Hangs(Until.CANCELLED)], ids=["crash", "timeout"])
def test_03_L2_a_sandbox_is_retired_after_what_nobody_can_mend(
    tmp_path: Path, row: Row, mode: GradingMode, deed: Deed
) -> None:
    limits = replace(OFF, **{row.seconds: 3.0})
    case = Case(row.site, deed)
    house = House(tmp_path, [case, HEALTHY, HEALTHY], mode, lanes=True, concurrency=1, limits=limits).run()
    check_run(house)
    ends = [event for event in house.sink.events if isinstance(event, TryEnded)]
    assert [end.sandbox_reusable for end in ends] == [False, True, True]
    lanes = [event.sandbox for event in house.sink.events if isinstance(event, LaneClosed)]
    assert len(lanes) == 2, "a lane for the one that broke, and one for both of the others"


@pytest.mark.parametrize("deed", [*CRASHES, *HANGS], ids=lambda deed: deed.name)
def test_a_lane_whose_sandbox_does_not_go_closes_and_says_so(tmp_path: Path, deed: Deed) -> None:
    limits = replace(OFF, dispose_seconds=3.0)
    house = House(tmp_path, [HEALTHY, Case(Site.DISPOSE, deed)], lanes=True, concurrency=1, limits=limits).run()
    assert house.world.done
    check_run(house)
    verdicts = [event.verdict.value for event in house.sink.events if isinstance(event, AttemptSealed)]
    assert verdicts == ["passed", "passed"]
    [closed] = [event for event in house.sink.events if isinstance(event, LaneClosed)]
    assert closed.sandbox is None, "it is not known to be gone"
    assert house.named >= {"box-1"}
