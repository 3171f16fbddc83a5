"""summary.html: all numbers of summary.json, any text as text, nothing in it that a browser runs or fetches."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    IssueRaised,
    RunEnded,
    RunStarted,
    SlotFilled,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.report.summary import summary_data, summary_lines, summary_markdown, summary_of
from proctor.report.summary_html import FILES, POINTS_SHOWN, TAGS_SHOWN, points_of, summary_html
from proctor.report.view import RunView

VOID = {"meta", "circle", "line"}
"""Elements without an end: of SVG they close themselves."""


class Read(HTMLParser):
    """The document, whose elements have to be closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if "tr" in self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def row(self, name):
        [found] = [row[1:] for row in self.rows if row and row[0] == name]
        return found


def try_of(verdict, usage, grader_usage):
    if verdict is Verdict.ERRORED:
        return TryResult(Outcome.BROKEN, usage=usage, issues=(issue_of("provider.lost", "gone", Phase.AGENT),))
    solved = verdict is Verdict.PASSED
    return TryResult(Outcome.GRADED, Grade(solved, float(solved)), usage=usage, grader_usage=grader_usage)


def folded(verdicts, *, name="e", attempts=1, tags=None, usage=NO_USAGE, grading=NO_USAGE, early_exit=False, cut=0):
    """Return a run with these verdicts, task by task."""
    view = RunView(name, tags=tags or {})
    slots = len(verdicts) + cut
    view.add(
        RunStarted(1, "i", "r", name, "0", "h", 1, slots=slots, tasks=-(-slots // attempts), early_exit=early_exit), 1.0
    )
    for place, verdict in enumerate(verdicts):
        task, ordinal = f"t{place // attempts}", place % attempts
        result = try_of(verdict, usage, grading)
        view.add(TryStarted(f"a{place:011}", task, ordinal, 1), 1.0)
        for issue in result.issues:
            view.add(IssueRaised(f"a{place:011}", issue), 2.0)
        view.add(TryEnded(f"a{place:011}", 1, result), 2.0)
        score = None if result.grade is None else result.grade.score
        view.add(AttemptSealed(f"a{place:011}", task, ordinal, verdict, score, 1), 2.0)
    if cut:
        view.add(DispatchStopped(name, StopReason.BUDGET, cut), 3.0)
    view.add(RunEnded(name, Completion.COMPLETE), 3.0)
    return view


def data_of(view):
    return summary_data(view, run="r1", directory="d")


def html_of(view, *others):
    data = data_of(view)
    return summary_html(data, points_of([data, *map(data_of, others)]))


P, F, E = Verdict.PASSED, Verdict.FAILED, Verdict.ERRORED
PRICED = Usage(calls=2, input_tokens=1000, output_tokens=50, cost_usd=0.5)


def test_M1_M2_the_numbers_are_those_of_summary_json():
    tags = {"t0": ["easy"], "t1": ["hard"]}
    view = folded([P, P, P, F, E, F], attempts=2, tags=tags, usage=PRICED, grading=Usage(calls=1), cut=2)
    data, page = data_of(view), Read(html_of(view))
    assert data["headline"] in page.texts
    counts = [row for row in page.rows if len(row) == 2 and row[0] != "what became of them"]
    assert counts == [
        ["passed", "3"],
        ["failed", "2"],
        ["errored", "1"],
        ["not dispatched: budget", "2"],
        ["total", "8"],
    ]
    share = data["metrics"]["passes"]
    [passed] = [row for row in page.rows if row[0] == "passed" and len(row) == 4]
    assert passed[1] == f"{100 * share['mean']:.1f}%" == "60.0%"
    assert passed[2] == f"{100 * share['low']:.1f}% to {100 * share['high']:.1f}%"
    assert page.row("pass@2") == [
        "100.0%",
        "34.2% to 100.0%",
        "2 samples of 2 tasks, 1 task with fewer attempts left out",
    ]
    assert page.row("easy") == ["2", "2", "2", "20.7% to 100.0%"]  # Wilson of 1 of 1: from 1 / (1 + z^2)
    assert page.row("work") == ["12", "6,000", "300", "0", "0", "0", "$3.00"]
    assert page.row("grading")[-1] == "cost unknown"
    assert page.row("provider.lost") == ["FATAL", "1"]
    assert sum(
        float(row[2].rstrip("%")) for row in page.rows if len(row) == 3 and row[2].endswith("%")
    ) == pytest.approx(100, abs=0.5)


def test_M6_an_unknown_cost_is_unknown_in_the_table_and_in_the_plot():
    view = folded([P, F], usage=Usage(calls=1, input_tokens=3))
    page = Read(html_of(view))
    assert page.row("work")[-1] == "cost unknown"
    assert "cost unknown" in page.texts
    assert "$0.00" not in page.row("cost")
    partly = folded([P, F], usage=Usage(calls=2, known_cost_usd=0.25, priced_calls=1))
    assert Read(html_of(partly)).row("work")[-1] == "at least $0.50"


def test_the_cost_of_a_score_is_that_of_all_attempts_behind_it():
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, slots=2, tasks=2), 1.0)
    view.add(SlotFilled("a", "t0", 0, "e/r", P, 1.0, cost_usd=2.0), 1.0)
    assert points_of([data_of(view)])[0].cost_usd == 2.0
    assert "reused attempts, in the runs that made them" in html_of(view)
    view.add(SlotFilled("b", "t1", 0, "e/r", F, 0.0), 1.0)
    assert points_of([data_of(view)])[0].cost_usd is None


def test_every_run_of_the_invocation_has_a_point():
    runs = [folded([P, F], name=name, usage=PRICED) for name in ("one", "two")]
    for first, second in (runs, reversed(runs)):
        page = Read(html_of(first, second))
        assert sum(tag == "circle" for tag, _ in page.elements) == 2
    many = summary_html(data_of(runs[0]), points_of([data_of(runs[0])]) * (POINTS_SHOWN + 1))
    assert many.count("<circle") == 1, "files that hold each other do not grow with the square of their number"


def test_where_nothing_cost_anything_there_is_no_plot():
    assert "<svg" not in html_of(folded([P, F]))


def test_135_a_group_without_a_score_has_a_dash_and_a_run_without_one_says_so():
    page = Read(html_of(folded([E, E], tags={"t0": ["hard"], "t9": ["none"]})))
    assert "no score (2 errored)" in page.texts
    assert page.row("hard") == ["-", "-", "1", "-"]
    assert page.row("none") == ["-", "-", "0", "-"]
    assert page.row("score") == ["-", "-", "nothing scored"]
    Read(html_of(RunView("e")))


def test_M3_early_exit_says_what_is_solved():
    view = folded([F, P, F, F], attempts=2, early_exit=True)
    page = Read(html_of(view))
    assert page.row("tasks solved at least once")[0] == "50.0%"
    assert not [row for row in page.rows if row[0].startswith("pass@")]


def test_many_tags_do_not_make_a_large_file():
    tags = {"t0": [f"tag-{number:04}" for number in range(TAGS_SHOWN + 5)]}
    page = Read(html_of(folded([P, F], tags=tags)))
    assert sum(row[0].startswith("tag-") for row in page.rows) == TAGS_SHOWN
    assert "attempts by tag; 5 more are in summary.json" in page.texts


ODD = st.text(st.characters(), max_size=30) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</style><style>*{}",
        "\x1b[31m\x00",
        "\u202eabc",
        "]]>",
    ]
)


@given(ODD, ODD, ODD)
def test_whatever_texts_hold_they_are_text_and_nothing_else(name, tag, code):
    view = folded([P, F], name=name, tags={"t0": [tag]}, usage=PRICED)
    view.issues["FATAL", code] = 1
    text = html_of(view)
    page = Read(text)
    plain = Read(html_of(folded([P, F], name="n", tags={"t0": ["x"]}, usage=PRICED)))
    known = {tag for tag, _ in plain.elements}
    assert {tag for tag, _ in page.elements} <= known
    attributes = {name for _, given in page.elements for name in given}
    assert not [one for one in attributes if one.startswith("on") or one in ("style", "src", "srcdoc")]
    assert [given["href"] for _, given in page.elements if "href" in given] == list(FILES)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    text.encode()


def test_the_policy_allows_the_one_style_and_nothing_else():
    text = html_of(folded([P, F], usage=PRICED))
    [style] = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    [policy] = [given["content"] for tag, given in Read(text).elements if given.get("http-equiv")]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert text.index("Content-Security-Policy") < text.index("<title>"), "before anything that it is to hold for"
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", text)


def test_tables_have_captions_and_scopes_and_headings_are_in_order():
    page = Read(html_of(folded([P, F, E], usage=PRICED, tags={"t0": ["a"]})))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("caption") == tags.count("table") >= 7
    assert all("scope" in given for tag, given in page.elements if tag == "th")
    assert [tag for tag in tags if re.fullmatch("h[1-6]", tag)] == ["h1"] + ["h2"] * tags.count("h2")
    assert dict(page.elements)["html"] == {"lang": "en"}


def test_what_is_said_at_the_end_is_the_same_whoever_asks():
    view = folded([P, F, E], usage=PRICED)
    end = summary_of(view, run="r", directory="d", time=False)
    assert end.data == summary_data(view, run="r", directory="d")
    assert end.markdown == summary_markdown(view, run="r", directory="d")
    assert end.lines == summary_lines(view, directory="d", time=False)
