"""JUnit XML: read back by a parser, in the form of the published schema, whatever texts hold (spec 02 `--junit`)."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from proctor.model.attempt import Check, Grade, Outcome, TryResult, Verdict, issue_of
from proctor.model.events import AttemptSealed, SlotFilled, TryEnded, TryStarted
from proctor.report.junit import Case, Cases, Suite, junit_xml

TRIED = {
    Verdict.PASSED: TryResult(Outcome.GRADED, Grade(True, 1.0)),
    Verdict.FAILED: TryResult(Outcome.GRADED, Grade(False, 0.5, checks=(Check("sum", False, "5", "4", "t.py:3"),))),
    Verdict.ERRORED: TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "it is gone"),)),
    Verdict.SKIPPED: TryResult(Outcome.SKIPPED),
    Verdict.CANCELLED: TryResult(Outcome.CANCELLED),
}


def cases_of(*verdicts):
    cases = Cases()
    for number, verdict in enumerate(verdicts):
        attempt, task = f"a{number:011}", f"t{number}"
        cases.add(TryStarted(attempt, task, 0, 1), 10.0)
        cases.add(TryEnded(attempt, 1, TRIED[verdict]), 12.0)
        cases.add(AttemptSealed(attempt, task, 0, verdict, None, 1), 12.5)
    return cases


def read(*suites):
    return ElementTree.fromstring(junit_xml(suites))


def test_every_slot_is_one_case_and_the_counts_add_up():
    verdicts = list(TRIED)
    found = cases_of(*verdicts).of([(f"t{n}", 0) for n in range(7)])
    root = read(Suite("base", "run", found, 2.5, 1e9))
    [suite] = root
    assert root.tag == "testsuites"
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [[], ["failure"], ["error"], ["skipped"], ["error"], ["error"], ["error"]]
    counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 7, "failures": 1, "errors": 4, "skipped": 1}
    assert {name: int(root.get(name)) for name in counts} == counts
    assert suite.get("timestamp") == "2001-09-09T01:46:40"
    assert suite[0].attrib == {"name": "t0 #0", "classname": "base", "time": "2.500"}
    failure, error = suite[1][0], suite[2][0]
    assert failure.get("message") == "score 0.5, 1 check not met: sum"
    assert failure.text == "not met: sum: expected '5', got '4' (t.py:3)"
    assert (error.get("type"), error.get("message")) == ("provider.lost", "it is gone")
    assert suite[5][0].get("type") == "not-dispatched"


def test_M3_what_early_exit_made_needless_is_skipped():
    cases = cases_of(Verdict.PASSED, Verdict.CANCELLED)
    cases.add(SlotFilled("b00000000000", "t2", 0, "e/r", Verdict.FAILED, 0.0), 1.0)
    found = cases.of([("t0", 0), ("t0", 1), ("t1", 0), ("t2", 0)], solved=frozenset({"t0", "t1"}))
    assert [case.verdict for case in found] == [Verdict.PASSED, Verdict.SKIPPED, Verdict.SKIPPED, Verdict.FAILED]


ANY_TEXT = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["]]>", "\x00\x1b[31m", "\ud800", "<a&b>\"'", "\uffff"]
)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_makes_a_document_that_parses(name, message, details):
    case = Case(name, 0, Verdict.ERRORED, 1.0, "internal", message, details)
    [suite] = read(Suite(name, "r", [case], 0.0))
    assert suite[0].tag == "testcase"
    assert len(suite[0]) == 1


def test_what_xml_can_hold_is_kept_and_what_it_cannot_is_said():
    """XML 1.0, 2.2: no control characters but three, no surrogates, no U+FFFE; an end of CDATA is text."""
    legal = "a\tb\nc ]]> <x y='z'>&amp; \ud7ff\ue000\ufffd\U00010000\U0010ffff \x85\u2028"
    illegal = "".join(map(chr, [*range(9), 11, 12, *range(14, 32), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF]))
    for text, shown in ((legal, legal), (illegal, "".join(f"<U+{ord(one):04X}>" for one in illegal))):
        case = Case(text, 0, Verdict.FAILED, 1.0, text, text, text)
        [suite] = read(Suite(text, text, [case], 0.0))
        said = suite[0][0]
        assert (suite.get("name"), suite.get("id"), suite[0].get("name")) == (shown, shown, f"{shown} #0")
        assert (said.get("type"), said.get("message"), said.text) == (shown, shown, shown)
