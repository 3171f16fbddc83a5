"""A plugin may choose the code of its failure: every code, raised by every method (spec 05, the table of codes)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fault_plugins import HEALTHY, Case, Deed, Raises, Site
from fault_rig import House
from fault_table import ALL, CLEANING, CODES, FAR_REACHING, NONE, ROWS, WITHOUT_RESULT, Code, Evil, Row
from test_faults import OFF, PASSED, PLACES, Expected, check_run, crashed, run

from proctor.core.schedule import RetryPolicy
from proctor.errors import Fault, SkipTask
from proctor.model.attempt import GradingMode
from proctor.model.codes import CODES as CODES_IN_FORCE
from proctor.model.events import AttemptSealed, Completion, IssueRaised, StopReason, TryEnded

PLAIN = [place for place in PLACES if not place.values[2]]
"""Outside of lanes."""


def fault(code: str, **options: bool) -> Raises:
    return Raises(code, lambda: Fault(code, "said so", **options))


def expected(row: Row, code: str) -> Expected:
    """Return what a fault with a code becomes."""
    if row.site in CLEANING:
        return crashed(row)
    issue = (code, row.phase)
    if CODES[code].severity == "FATAL":
        return Expected("errored", (issue,))
    # Something went wrong and a result exists: of the agent's turn there is none, and so no answer.
    return Expected("failed" if row.site is Site.SEND else "passed", (issue,))


def is_graded(row: Row, code: str) -> bool:
    return CODES[code].severity == "FATAL" or row.site not in WITHOUT_RESULT


def test_05_the_table_of_codes_is_that_of_the_spec() -> None:
    found = {name: Code(row.owner, row.severity, row.permanent, row.scope) for name, row in CODES_IN_FORCE.items()}
    assert found == CODES


@pytest.mark.parametrize(("row", "mode", "lanes"), PLAIN)
def test_05_every_code_from_every_method(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    near = [code for code, line in CODES.items() if line.scope not in FAR_REACHING]
    faults: dict[Deed, Expected] = {fault(code): expected(row, code) for code in near if is_graded(row, code)}
    run(tmp_path, faults, row, grading=mode, limits=OFF)


@pytest.mark.parametrize("row", [row for row in ROWS if row.site in WITHOUT_RESULT], ids=lambda row: row.site.value)
def test_05_where_there_is_no_result_there_is_a_fatal_issue(tmp_path: Path, row: Row) -> None:
    codes = [code for code, line in CODES.items() if line.severity != "FATAL" and not code.startswith("grade.")]
    faults: dict[Deed, Expected] = {
        fault(code): Expected("errored", ((row.crash, row.phase),), frozenset({code})) for code in codes
    }
    run(tmp_path, faults, row, grading=row.modes[0], lanes=bool(row.lanes), limits=OFF)


@pytest.mark.parametrize("site", [Site.OPEN, Site.OPEN_GRADE], ids=lambda site: site.value)
def test_T5_an_opening_that_is_refused_for_ever_is_given_up(tmp_path: Path, site: Site) -> None:
    [row] = [row for row in ROWS if row.site is site]
    codes = [code for code, line in CODES.items() if line.severity == "FATAL" and line.scope not in FAR_REACHING]
    faults: dict[Deed, Expected] = {fault(code, refused=True): expected(row, code) for code in codes}
    house = run(tmp_path, faults, row, grading=row.modes[-1] if site is Site.OPEN_GRADE else NONE, limits=OFF)
    assert sum(house.sink.view.backoffs.values()) == 4 * len(codes)


@pytest.mark.parametrize("mode", ALL)
def test_a_task_that_is_skipped_is_skipped_wherever_that_is_said(tmp_path: Path, mode: GradingMode) -> None:
    for row in ROWS:
        if row.site in (Site.SETUP, Site.START, Site.SEND, Site.COLLECT, Site.GRADE):
            deed = Raises("skips", lambda: SkipTask("no gpu"))
            house = run(tmp_path / row.site.value, {deed: Expected("skipped")}, row, grading=mode, limits=OFF)
            assert house.sink.view.counts.skipped == 1


@pytest.mark.parametrize("code", [code for code, line in CODES.items() if line.scope in FAR_REACHING])
@pytest.mark.parametrize(("row", "mode", "lanes"), PLAIN)
def test_05_what_concerns_more_than_its_attempt_stops_the_rest(
    tmp_path: Path, row: Row, mode: GradingMode, lanes: bool, code: str
) -> None:
    cases = [HEALTHY, Case(row.site, fault(code)), HEALTHY, HEALTHY]
    house = House(tmp_path, cases, mode, concurrency=1, limits=OFF).run()
    sealed = [event.verdict.value for event in house.sink.events if isinstance(event, AttemptSealed)]
    stopped = house.after.experiments[0].stopped
    if row.site in CLEANING:
        check_run(house)
        assert sealed == ["passed"] * 4
    elif CODES[code].scope == "invocation":
        check_run(house, Completion.STOPPED)
        assert sealed == ["passed", "errored"]
        assert stopped == {StopReason.DISK if code == "store.full" else StopReason.SCOPE_STOPPED: 2}
    else:
        check_run(house)
        assert sealed == ["passed", "errored", "errored", "errored"]
        raised = [event.issue.code for event in house.sink.events if isinstance(event, IssueRaised)]
        assert raised == [code] * 3, "every slot says why"
        assert sum(isinstance(event, TryEnded) for event in house.sink.events) == 2, "the rest was never tried"


@pytest.mark.parametrize("code", [code for code, line in CODES.items() if line.scope in ("provider", "model")])
@pytest.mark.parametrize("site", [Site.OPEN, Site.SETUP, Site.SEND, Site.COLLECT], ids=lambda site: site.value)
def test_05_three_permanent_failures_in_a_row_stop_their_endpoint(tmp_path: Path, site: Site, code: str) -> None:
    bad = Case(site, fault(code))
    house = House(tmp_path, [bad, bad, HEALTHY, bad, bad, bad, HEALTHY], concurrency=1, limits=OFF, stop_on_repeated=3)
    house.run()
    check_run(house, Completion.STOPPED)
    sealed = [event.verdict.value for event in house.sink.events if isinstance(event, AttemptSealed)]
    assert sealed == ["errored", "errored", "passed", "errored", "errored", "errored"]
    assert house.after.experiments[0].stopped == {StopReason.SCOPE_STOPPED: 1}


def test_05_what_is_healthy_is_untouched_by_what_is_not(tmp_path: Path) -> None:
    [row] = [row for row in ROWS if row.site is Site.SEND]
    house = run(tmp_path, {fault("model.server"): expected(row, "model.server")}, row, limits=OFF)
    results = [result for task, result in house.sink.results.items() if task.endswith("healthy")]
    assert len(results) == 2
    assert all("issues" not in result or not result["issues"] for result in results)
    assert PASSED.verdict == results[0]["verdict"]


ODD_FIELDS: dict[str, dict[str, Any]] = {
    "no text": {"message": None},
    "an evil text": {"message": Evil()},
    "a long text": {"message": "x" * 1_000_000},
    "half a character": {"message": "\ud800"},
    "a wait as a number": {"retry_after": 7},
    "a wait as bytes": {"retry_after": b"7"},
    "a wait that is nothing": {"retry_after": object()},
    "an endless wait": {"retry_after": "9" * 400},
    "a wait of no number": {"retry_after": "nan"},
}


ODD = [
    pytest.param(site, name, id=f"{site.value}-{name}")
    for site in (Site.OPEN, Site.SEND, Site.GRADE, Site.DISPOSE)
    for name in ODD_FIELDS
]


@pytest.mark.parametrize("refused", [False, True], ids=["", "refused"])
@pytest.mark.parametrize(("site", "name"), ODD)
def test_05_a_fault_with_odd_fields_is_one_of_its_attempt(tmp_path: Path, site: Site, name: str, refused: bool) -> None:
    [row] = [row for row in ROWS if row.site is site]
    fields = {"message": "said so", "refused": refused, **ODD_FIELDS[name]}
    deed = Raises("odd", lambda: Fault("model.server", **fields))
    house = run(tmp_path, {deed: expected(row, "model.server")}, row, limits=OFF, retry=RetryPolicy(max_retries=0))
    assert sum(house.sink.view.backoffs.values()) == (4 if refused and site is Site.OPEN else 0)
