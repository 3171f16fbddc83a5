"""Every fault of every method of every plugin, enumerated: the run goes on, and says what happened (spec 05, 10 I4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fault_plugins import HEALTHY, CancelsItself, Case, Deed, Hangs, Site, Takes, Until, When
from fault_rig import House, by_attempt
from fault_table import (
    ALL,
    CLEANING,
    CLUMSY,
    CODES,
    CRASHES,
    FRESH,
    GARBAGE_CODES,
    HANGS,
    IGNORED,
    MISUSES,
    NONE,
    NOT_AWAITED,
    RETURNS,
    REUSE,
    ROWS,
    Row,
    misuses,
)

from proctor.model.attempt import GradingMode
from proctor.model.events import (
    AttemptSealed,
    Completion,
    LaneClosed,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryStarted,
)
from proctor.model.spec import TimeLimits

SHORT = TimeLimits(3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
OFF = TimeLimits(None, None, None, None, None, 60.0)
EVERY = 10
"""So manieth attempt of a run is healthy."""

PLACES = [
    pytest.param(row, mode, lanes, id=f"{row.site.value}-{mode.value}{'-lanes' if lanes else ''}")
    for row in ROWS
    for mode in row.modes
    for lanes in (False, True)
    if row.lanes in (None, lanes)
]


class Expected(NamedTuple):
    """What an attempt comes to, and its issues as (code, phase), where `*` is any phase; of `others` some may come."""

    verdict: str
    issues: tuple[tuple[str, str], ...] = ()
    others: frozenset[str] = frozenset()


PASSED = Expected("passed")


def crashed(row: Row, code: str | None = None) -> Expected:
    """Return what an exception becomes."""
    return Expected("passed" if row.site in CLEANING else "errored", ((code or row.crash, row.phase),))


def timed_out(row: Row) -> Expected:
    """Return what a limit becomes that is reached."""
    if row.site in CLEANING:
        return Expected("passed", ((row.limit, row.phase),))
    # The agent's limit is no end: what it did is graded.
    return Expected("failed" if row.site is Site.SEND else "errored", ((row.limit, row.phase),))


def run(tmp_path: Path, faults: dict[Deed, Expected], row: Row, **options: Any) -> House:
    """Run one attempt with each deed, and healthy ones between them; check what became of each of them."""
    cases: list[Case] = []
    for deed in faults:
        if len(cases) % EVERY == 0:
            cases.append(HEALTHY)
        cases.append(Case(row.site, deed))
    if options.get("lanes") and row.site in (Site.OPEN, Site.MARK):
        options["concurrency"] = len(cases) + 1  # an idle lane is used before another is opened
    house = House(tmp_path, [*cases, HEALTHY], **options).run()
    check(house, {Case(row.site, deed): expected for deed, expected in faults.items()})
    return house


def check(house: House, expected: dict[Case, Expected]) -> None:
    """Check that everything was given back, and compare what became of each case."""
    assert house.world.done == {task for task, case in house.case_of.items() if case.site}, "all of it was tried"
    ends = {event.attempt: event for event in house.sink.events if isinstance(event, TryEnded)}
    wrong: list[str] = []
    for sealed in house.sink.events:
        if isinstance(sealed, AttemptSealed):
            want = expected.get(house.case_of[sealed.task], PASSED)
            wrong += [f"{sealed.task}: {words}" for words in judged(sealed, ends[sealed.attempt], want)]
    assert not wrong, "\n".join(wrong)
    check_run(house)


def check_run(house: House, completion: Completion = Completion.COMPLETE) -> None:
    """Check what holds for every run, whatever misbehaves in it."""
    assert house.loop.store_error is None
    assert [event for event in house.sink.events if isinstance(event, RunEnded)] == [RunEnded("e", completion)]
    assert house.after.gates == house.before.gates, "all permits are back"
    [experiment] = house.after.experiments
    assert (experiment.in_flight, experiment.queued, experiment.lanes) == (0, 0, 0)
    counts = house.sink.view.counts
    assert (counts.running, counts.queued) == (0, 0)
    assert counts.total == len(house.tasks)
    sealed = [event.task for event in house.sink.events if isinstance(event, AttemptSealed)]
    assert len(sealed) == len(set(sealed)) == counts.total - sum(counts.not_dispatched.values())
    journal = by_attempt(house.sink.events)
    for attempt, events in by_attempt(house.loop.heard[: house.heard_at_end]).items():
        ends = [event for event in events if isinstance(event, TryEnded)]
        starts = [event for event in journal[attempt] if isinstance(event, TryStarted)]
        assert [end.try_number for end in ends] == [start.try_number for start in starts], f"@{attempt}: one end each"
        assert events[-1] is ends[-1], f"@{attempt}: {events[-1]} came after the end"
        phases = [event for event in events if isinstance(event, PhaseStarted | PhaseEnded)]
        for start, end in zip(phases[::2], phases[1::2], strict=True):
            assert isinstance(start, PhaseStarted), phases
            assert isinstance(end, PhaseEnded), phases
            assert start.phase is end.phase, phases
            assert end.seconds >= 0
    assert house.loop.heard[house.heard_at_end :] == [], "nothing is heard of what was left behind"
    assert house.world.late == [], "nothing goes on for a try that has ended"
    if len(house.interrupts) < 2:  # then there is no time for courtesies
        assert not any(house.world.sessions.values()), f"each session is closed, once: {house.world.sessions}"
    check_sandboxes(house)


def check_sandboxes(house: House) -> None:
    """Check that no sandbox is left but those whose disposal failed, and that these are named."""
    assert house.left.keys() <= house.named, "left, and nobody was told"
    opened = {event.sandbox for event in house.sink.events if isinstance(event, SandboxOpened)}
    gone = {event.sandbox for event in house.sink.events if isinstance(event, SandboxDisposed | LaneClosed)}
    assert house.left.keys() <= opened
    assert opened - gone <= house.named, "what is not known to be gone was named"
    ledger = {name for name, _ in house.loop.sandboxes.left}
    assert house.left.keys() <= ledger, "what is left is listed at the end"


def judged(sealed: AttemptSealed, end: TryEnded, want: Expected) -> list[str]:
    """Return what is wrong with an attempt, whose last try ended so."""
    found: list[str] = []
    if sealed.verdict.value != want.verdict:
        found.append(f"{sealed.verdict.value}, not {want.verdict}: {shown(end)}")
    if (sealed.score is None) != (want.verdict not in ("passed", "failed")):
        found.append(f"score {sealed.score}")
    issues = [issue for issue in end.result.issues if issue.code not in want.others]
    codes = [(issue.code, issue.phase.value if issue.phase else None) for issue in issues]
    if len(codes) != len(want.issues) or any(
        code != wanted or phase not in ("*", place)
        for (code, place), (wanted, phase) in zip(codes, want.issues, strict=False)
    ):
        found.append(f"issues {codes}, not {list(want.issues)}: {shown(end)}")
    for issue in end.result.issues:
        line = CODES[issue.code]
        if (issue.owner.value, issue.severity.value) != (line.owner, line.severity):
            found.append(f"{issue.code} is {issue.severity} of {issue.owner}")
    if want.verdict == "errored" and not end.result.fatal:
        found.append(f"errored without a FATAL issue: {shown(end)}")
    return found


def shown(end: TryEnded) -> str:
    return f"{end.result.outcome}, {[(i.code, i.phase, i.message[:200]) for i in end.result.issues]}"


def crashes(row: Row) -> dict[Deed, Expected]:
    """Return everything that a method can raise."""
    deeds = [deed for deed in CRASHES if deed.when is not When.DONE or row.site in CLEANING]
    return dict.fromkeys([*deeds, CancelsItself(), NOT_AWAITED], crashed(row))


def garbage(row: Row) -> dict[Deed, Expected]:
    """Return everything that a method must not return."""
    if row.site not in RETURNS:
        return {}
    others = frozenset({"collect.failed", "dispose.failed"}) if row.site is Site.START else frozenset[str]()
    phase = "*" if row.site is Site.START else row.phase  # it is found when it is used
    want = Expected("errored", ((GARBAGE_CODES[row.site], phase),), others)
    return dict.fromkeys(RETURNS[row.site], want)


def hangs(row: Row) -> dict[Deed, Expected]:
    """Return every way to hang."""
    faults = dict[Deed, Expected](dict.fromkeys(HANGS, timed_out(row)))
    if row.site in (Site.OPEN, Site.OPEN_GRADE):  # it may still make something
        late = Hangs(Until.LET_GO)
        faults[late] = faults[late]._replace(others=frozenset({"dispose.failed"}))
    if row.site is Site.SEND:  # told to end, it gave the right answer
        returns = Hangs(Until.RETURNS)
        faults[returns] = faults[returns]._replace(verdict="passed")
    return faults


@pytest.mark.parametrize(("row", "mode", "lanes"), PLACES)
def test_05_whatever_a_plugin_raises_is_an_issue_of_its_attempt(
    tmp_path: Path, row: Row, mode: GradingMode, lanes: bool
) -> None:
    faults = crashes(row)
    if lanes:  # when it raises is tried outside of them
        faults = {deed: want for deed, want in faults.items() if getattr(deed, "when", When.AFTER) is When.AFTER}
    house = run(tmp_path, faults, row, grading=mode, lanes=lanes, limits=OFF)
    assert house.seconds < 1.0, "nothing waited"


@pytest.mark.parametrize(("row", "mode", "lanes"), [place for place in PLACES if not place.values[2]])
def test_05_under_limits_it_is_the_same(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    whens = {deed: getattr(deed, "when", When.AFTER) for deed in crashes(row)}
    faults = {deed: want for deed, want in crashes(row).items() if whens[deed] is When.AFTER}
    house = run(tmp_path, faults, row, grading=mode, limits=SHORT)
    assert house.seconds < 1.0, "nothing waited"


@pytest.mark.parametrize(("row", "mode", "lanes"), PLACES)
def test_05_what_hangs_ends_at_the_limit_of_its_phase(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    limits = replace(OFF, **{row.seconds: 3.0})
    faults = hangs(row)
    house = run(tmp_path, faults, row, grading=mode, lanes=lanes, limits=limits)
    assert not house.world.live or row.site in (Site.DISPOSE, Site.DISPOSE_GRADE), "what came late is gone as well"
    assert house.seconds < 30.0


@pytest.mark.parametrize(("row", "mode", "lanes"), [place for place in PLACES if place.values[0].site in RETURNS])
def test_05_garbage_is_a_fault_of_whoever_returned_it(tmp_path: Path, row: Row, mode: GradingMode, lanes: bool) -> None:
    run(tmp_path, garbage(row), row, grading=mode, lanes=lanes, limits=OFF)


@pytest.mark.parametrize(("row", "mode", "lanes"), [place for place in PLACES if place.values[0].site not in RETURNS])
def test_what_is_returned_where_nothing_is_asked_for_does_not_matter(
    tmp_path: Path, row: Row, mode: GradingMode, lanes: bool
) -> None:
    house = run(tmp_path, {IGNORED: PASSED}, row, grading=mode, lanes=lanes, limits=OFF)
    assert house.sink.view.counts.passed == len(house.tasks)


@pytest.mark.parametrize("mode", ALL)
def test_05_misuse_of_the_context_is_a_crash_of_the_harness_and_clumsiness_is_nothing(
    tmp_path: Path, mode: GradingMode
) -> None:
    [row] = [row for row in ROWS if row.site is Site.SEND]
    faults: dict[Deed, Expected] = dict.fromkeys(misuses(MISUSES), crashed(row))
    faults |= dict.fromkeys(misuses(CLUMSY), PASSED)
    run(tmp_path, faults, row, grading=mode, limits=OFF)


@pytest.mark.parametrize(
    ("goes_on_in", "mode"),
    [
        (Site.COLLECT, NONE),
        (Site.COLLECT, FRESH),
        (Site.COLLECT, REUSE),
        (Site.DISPOSE, NONE),
        (Site.DISPOSE, FRESH),
        (Site.DISPOSE, REUSE),
        (Site.GRADE, NONE),
        (Site.GRADE, FRESH),
        (Site.GRADE, REUSE),
    ],
)
def test_05_what_an_abandoned_agent_still_says_is_no_answer(
    tmp_path: Path, mode: GradingMode, goes_on_in: Site
) -> None:
    # Its limit is over after 3 s, and the grace soon after; then it goes on, in the middle of a later phase.
    case = Case(Site.SEND, Hangs(Until.LET_GO), also=((goes_on_in, Takes(50.0)),))
    house = House(tmp_path, [HEALTHY, case, HEALTHY], mode, limits=replace(OFF, agent_seconds=3.0), lets_go=40.0)
    house.run()
    check(house, {case: Expected("failed", (("time.agent", "agent"),))})
