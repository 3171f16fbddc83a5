"""Every fault in the first try only: which is tried again, how much of it, and what is kept of both (spec 05 T1-T6)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_plugins import HEALTHY, Case, Deed, Hangs, Raises, Site, Until, When
from fault_rig import House, by_attempt
from fault_table import ALL, CLEANING, CODES, CRASHES, FAR_REACHING, FRESH, NONE, REUSE, ROWS, WITHOUT_RESULT, Row
from test_faults import OFF, PLACES, check_run

from proctor.core.schedule import RetryPolicy
from proctor.errors import Fault
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import AttemptSealed, PhaseStarted, TryEnded

FIRST = frozenset({1})

AFTER_CHECKPOINT = frozenset({Site.OPEN_GRADE, Site.UPLOAD, Site.EXEC, Site.CHECK, Site.GRADE})
"""What breaks here leaves the agent's part whole."""


def house_of(tmp_path: Path, site: Site, deeds: list[Deed], mode: GradingMode, **options: object) -> House:
    cases = [HEALTHY, *(Case(site, deed, FIRST) for deed in deeds), HEALTHY]
    options.setdefault("concurrency", len(cases) if site in (Site.OPEN, Site.MARK) else 5)
    policy = options.pop("retry", RetryPolicy(max_retries=1))
    house = House(tmp_path, cases, mode, limits=OFF, retry=policy, **options).run()  # type: ignore[arg-type]
    check_run(house)
    return house


def tries_of(house: House) -> dict[str, tuple[str, int]]:
    """Return verdict and number of tries by task."""
    sealed = [event for event in house.sink.events if isinstance(event, AttemptSealed)]
    return {event.task: (event.verdict.value, event.tries) for event in sealed}


@pytest.mark.parametrize(("row", "mode", "lanes"), PLACES)
def test_T1_what_broke_once_is_tried_again(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    deeds: list[Deed] = [deed for deed in CRASHES if deed.when is When.AFTER]
    house = house_of(tmp_path, row.site, deeds[: 5 if lanes else None], mode, lanes=lanes)
    tries, found = 1 if row.site in CLEANING else 2, tries_of(house)
    for task, case in house.case_of.items():
        assert found[task] == ("passed", tries if case.site else 1), task
    repeats_grading = row.site in AFTER_CHECKPOINT and mode is not REUSE
    assert len(house.grading_only) == (len(house.world.done) if repeats_grading else 0), "T3"
    for task, result in house.sink.results.items():
        assert len(result["tries"]) == found[task][1], "T2: every try is kept"
        if result["tries"][1:]:
            assert result["tries"][0]["issues"], "T2: with what went wrong"
    journal = by_attempt(house.sink.events)
    for attempt in house.grading_only:
        phases = [event.phase for event in journal[attempt] if isinstance(event, PhaseStarted)]
        assert phases.count(Phase.AGENT) == 1, "T3: the agent's part is done once"


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("site", [Site.SEND, Site.GRADE], ids=lambda site: site.value)
@pytest.mark.parametrize("asked", [False, True], ids=["no-pattern", "pattern"])
def test_05_which_codes_are_tried_again(tmp_path: Path, mode: GradingMode, site: Site, asked: bool) -> None:
    codes = {
        code: line
        for code, line in CODES.items()
        if line.scope not in FAR_REACHING and (line.severity == "FATAL" or site not in WITHOUT_RESULT)
    }
    deeds: list[Deed] = [Raises(code, lambda code=code: Fault(code, "said so")) for code in codes]
    policy = RetryPolicy(max_retries=1, patterns=(".",) if asked else ())
    house = house_of(tmp_path, site, deeds, mode, retry=policy)
    found = tries_of(house)
    for task, case in house.case_of.items():
        if case.deed is None:
            continue
        line = codes[case.deed.name]
        again = not line.permanent and (line.severity == "FATAL" or (asked and line.severity == "ERROR"))
        # A first try that is graded without an answer has failed; a second one passes.
        want = "passed" if again else "errored" if line.severity == "FATAL" else "failed"
        assert found[task] == (want, 2 if again else 1), task
    fatal = [code for code, line in codes.items() if line.severity == "FATAL" and not line.permanent]
    fatal.remove("checkpoint.damaged")  # then there is nothing that grading alone could be repeated from
    assert len(house.grading_only) == (len(fatal) if site is Site.GRADE and mode is not REUSE else 0)


@pytest.mark.parametrize("mode", [NONE, FRESH])
def test_T3_grading_that_hung_is_tried_again_alone(tmp_path: Path, mode: GradingMode) -> None:
    house = House(
        tmp_path, [HEALTHY, *(Case(Site.GRADE, Hangs(until), FIRST) for until in Until)], mode,
        limits=OFF.__class__(None, None, None, None, 3.0, 60.0), retry=RetryPolicy(max_retries=1),
    ).run()  # fmt: skip
    check_run(house)
    assert set(tries_of(house).values()) == {("passed", 1), ("passed", 2)}
    assert len(house.grading_only) == len(Until)


def test_T1_retries_end(tmp_path: Path) -> None:
    cases = [Case(row.site, CRASHES[0]) for row in ROWS if FRESH in row.modes and not row.lanes]
    house = House(tmp_path, cases, FRESH, limits=OFF, retry=RetryPolicy(max_retries=3)).run()
    check_run(house)
    for task, case in house.case_of.items():
        assert tries_of(house)[task] == (("passed", 1) if case.site in CLEANING else ("errored", 4)), task
    ends = [event for event in house.sink.events if isinstance(event, TryEnded)]
    assert len(ends) == sum(tries for _, tries in tries_of(house).values())
