"""The slots of runs as JUnit XML, for continuous integration.

One `testsuite` for each experiment, one `testcase` for each slot. What the agent got wrong is a `failure`, what has no
result an `error`; skipped slots, and those that early exit made needless, are `skipped`. The form is that of the schema
which Jenkins' xUnit plugin publishes (junit-10.xsd).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from proctor.model.attempt import Issue, TryResult, Verdict
from proctor.model.events import AttemptSealed, Event, SlotFilled, TryEnded, TryStarted
from proctor.model.ids import AttemptId
from proctor.report.wording import plural

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold (XML 1.0, 2.2)."""

TEXT_CHARACTERS = 10_000
CHECKS_TOLD = 50


@dataclass(frozen=True, slots=True)
class Case:
    """A slot. `verdict` is None where it has no attempt that ended; `kind` and `message` say why it did not pass."""

    task: str
    ordinal: int
    verdict: Verdict | None
    seconds: float | None = None
    kind: str = ""
    message: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """The slots of one run."""

    name: str
    run: str
    cases: Sequence[Case]
    seconds: float
    started_at: float | None = None


class Cases:
    """Collects the slots of a run from its events."""

    def __init__(self) -> None:
        self._started: dict[AttemptId, float] = {}
        self._results: dict[AttemptId, TryResult] = {}
        self._cases: dict[tuple[str, int], Case] = {}

    def add(self, event: Event, at: float) -> None:
        """Take the next event."""
        if isinstance(event, TryStarted):
            self._started.setdefault(event.attempt, at)
        elif isinstance(event, TryEnded):
            self._results[event.attempt] = event.result
        elif isinstance(event, AttemptSealed):
            began = self._started.pop(event.attempt, None)
            seconds = None if began is None else max(0.0, at - began)
            self._take(event.task, event.ordinal, event.verdict, seconds, self._results.pop(event.attempt, None))
        elif isinstance(event, SlotFilled):
            self._take(event.task, event.ordinal, event.verdict, None, None)

    def _take(self, task: str, ordinal: int, verdict: Verdict, seconds: float | None, result: TryResult | None) -> None:
        kind, message = _why(verdict, result)
        details = "" if verdict is Verdict.PASSED else _details(result)
        self._cases[task, ordinal] = Case(task, ordinal, verdict, seconds, kind, message, details)

    def of(self, slots: Iterable[tuple[str, int]], *, solved: frozenset[str] = frozenset()) -> list[Case]:
        """Return the cases of all slots, in their order; with early exit, `solved` are tasks that an attempt solved."""
        found: list[Case] = []
        for task, ordinal in slots:
            case = self._cases.get((task, ordinal))
            if case is None or (case.verdict is Verdict.CANCELLED and task in solved):
                why = "early-exit" if task in solved else "not-dispatched"
                verdict = Verdict.SKIPPED if task in solved else None
                case = Case(task, ordinal, verdict, kind=why, message=f"no attempt of its own: {why}")
            found.append(case)
        return found


def _why(verdict: Verdict, result: TryResult | None) -> tuple[str, str]:
    """Return the code, and the message, of what decided on an attempt that did not pass."""
    if verdict is Verdict.PASSED or result is None:
        return verdict.value, verdict.value
    issue: Issue | None = result.fatal or next(iter(result.issues), None)
    if issue is not None:
        return issue.code, issue.message
    if result.grade is not None:
        wrong = [check for check in result.grade.checks if not check.ok]
        named = f": {wrong[0].label}" if wrong else ""
        return verdict.value, f"score {result.grade.score:g}, {plural(len(wrong), 'check')} not met{named}"
    return verdict.value, result.outcome.value


def _details(result: TryResult | None) -> str:
    if result is None:
        return ""
    lines = [f"{issue.severity} {issue.code}: {issue.message}" for issue in result.issues]
    for check in (result.grade.checks if result.grade else ())[:CHECKS_TOLD]:
        if not check.ok:
            compared = "" if check.expected is None else f": expected {check.expected!r}, got {check.actual!r}"
            lines.append(f"not met: {check.label}{compared}{f' ({check.source})' if check.source else ''}")
    return "\n".join(lines)


def junit_xml(suites: Sequence[Suite]) -> bytes:
    """Return the document, in UTF-8; characters that XML cannot hold are shown as their code points."""
    root = Element("testsuites")
    for suite in suites:
        root.append(_suite(suite))
    cases = [case for suite in suites for case in suite.cases]
    for name, value in (*_counts(cases), ("time", f"{sum(suite.seconds for suite in suites):.3f}")):
        root.set(name, value)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="utf-8") + b"\n"


def _suite(suite: Suite) -> Element:
    made = Element("testsuite", name=_legal(suite.name), id=_legal(suite.run))
    for name, value in (*_counts(suite.cases), ("time", f"{suite.seconds:.3f}")):
        made.set(name, value)
    if suite.started_at is not None:
        made.set("timestamp", datetime.fromtimestamp(suite.started_at, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    for case in suite.cases:
        name = f"{case.task} #{case.ordinal}"
        one = SubElement(made, "testcase", name=_legal(name), classname=_legal(suite.name))
        if case.seconds is not None:
            one.set("time", f"{case.seconds:.3f}")
        if case.verdict is not Verdict.PASSED:
            said = SubElement(one, _element(case.verdict), message=_legal(case.message), type=_legal(case.kind))
            said.text = _legal(case.details) or None
    return made


def _element(verdict: Verdict | None) -> str:
    return {Verdict.FAILED: "failure", Verdict.SKIPPED: "skipped"}.get(verdict, "error") if verdict else "error"


def _counts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    names = [_element(case.verdict) for case in cases if case.verdict is not Verdict.PASSED]
    counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return [("tests", str(len(cases))), *((name, str(names.count(element))) for name, element in counts.items())]


def _legal(text: str) -> str:
    return _NOT_IN_XML.sub(lambda found: f"<U+{ord(found[0]):04X}>", text[:TEXT_CHARACTERS])
