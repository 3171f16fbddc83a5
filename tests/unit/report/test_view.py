"""The one fold: its parts add up after every event, and every display says the same (spec 07)."""

from __future__ import annotations

import ast
import inspect
import io
import json

import pytest

from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    Event,
    Interrupted,
    IssueRaised,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SlotFilled,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.report import plain as plain_text
from proctor.report.plain import HEARTBEAT_SECONDS, PlainText, counts_of
from proctor.report.summary import run_rate, summary_data, summary_lines, summary_markdown, total_cost
from proctor.report.view import RunView

PASSED = TryResult(Outcome.GRADED, Grade(True, 1.0), usage=Usage(calls=1, input_tokens=1200, output_tokens=30))
FAILED = TryResult(Outcome.GRADED, Grade(False, 0.0))
BROKEN = TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "gone", Phase.AGENT),))

STORY: list[Event] = [
    RunStarted(1, "inv", "run", "e", "0", "host", 1, slots=6),
    TryStarted("a", "t/a", 0, 1),
    TryStarted("b", "t/b", 0, 1),
    PhaseStarted("a", Phase.AGENT),
    TryEnded("a", 1, PASSED),
    AttemptSealed("a", "t/a", 0, Verdict.PASSED, 1.0, 1),
    TryStarted("c", "t/c", 0, 1),
    IssueRaised("b", issue_of("provider.lost", "gone\x1b[2J", Phase.AGENT)),
    TryEnded("b", 1, BROKEN),
    AttemptSealed("b", "t/b", 0, Verdict.ERRORED, None, 1),
    TryEnded("c", 1, FAILED),
    AttemptSealed("c", "t/c", 0, Verdict.FAILED, 0.0, 1),
    Interrupted(2),
    DispatchStopped("e", StopReason.INTERRUPT, 3),
    RunEnded("e", Completion.INTERRUPTED),
]


def folded(events: list[Event]) -> RunView:
    view = RunView("e")
    for index, event in enumerate(events):
        view.add(event, 1000.0 + index)
    return view


@pytest.mark.parametrize("length", range(1, len(STORY) + 1))
def test_07_the_parts_add_up_to_the_total_after_every_event(length: int) -> None:
    counts = folded(STORY[:length]).counts  # Counts itself refuses parts that do not add up
    assert counts.total == 6


def test_08_the_summary_says_what_is_missing() -> None:
    view = folded(STORY)
    data = summary_data(view, run="run", directory="dir")
    assert data["counts"] == {
        "total": 6, "running": 0, "queued": 0, "passed": 1, "failed": 1, "errored": 1, "skipped": 0, "cancelled": 0,
        "not_dispatched": {"interrupt": 3}, "reused_passed": 0, "reused_failed": 0,
    }  # fmt: skip
    assert data["completion"] == "interrupted"
    assert data["signal"] == 2
    assert data["scored"] == 2
    assert data["base"] == 6
    assert (data["low"], data["high"]) == pytest.approx((1 / 6, 5 / 6))
    assert data["mean_score"] == 0.5
    assert data["issues"] == [{"severity": "FATAL", "code": "provider.lost", "count": 1}]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert "incomplete" in data["headline"]
    assert "1/6 passed" in data["headline"]
    assert data["headline"] in summary_markdown(view, run="run", directory="dir")


def test_09_M6_an_unknown_price_is_unknown_and_no_call_costs_nothing() -> None:
    assert total_cost(folded(STORY)) is None
    assert total_cost(folded(STORY[:3])) == 0.0
    assert "cost unknown" in "\n".join(summary_lines(folded(STORY), directory="d"))
    assert "cost" not in "\n".join(summary_lines(folded(STORY[:3]), directory="d"))


def plain(events: list[Event]) -> str:
    stream = io.StringIO()
    views = {"e": RunView("e")}
    text = PlainText(stream, views)
    for index, event in enumerate(events):
        views["e"].add(event, 1000.0 + index)
        text.show("e", event, 1000.0 + index)
    return stream.getvalue()


def test_07_plain_text_is_one_line_per_change_without_control_codes() -> None:
    assert plain(STORY).splitlines() == [
        "[1/6] passed    t/a #0  4.0s",
        "FATAL provider.lost t/b #0: gone\N{REPLACEMENT CHARACTER}[2J".replace("\N{REPLACEMENT CHARACTER}", "?"),
        "[2/6] errored   t/b #0  7.0s",
        "[3/6] failed    t/c #0  5.0s",
        "interrupted by SIGINT: attempts in flight are being cancelled, what is finished is kept",
        "3 slots not dispatched: interrupt",
    ]


def test_07_plain_text_looks_at_every_event_that_it_has_words_for() -> None:
    [matched] = [node for node in ast.walk(ast.parse(inspect.getsource(plain_text))) if isinstance(node, ast.Match)]
    classes = {ast.unparse(node.cls) for case in matched.cases for node in ast.walk(case.pattern)
               if isinstance(node, ast.MatchClass)}  # fmt: skip
    assert classes == {each.__name__ for each in plain_text._SAID}


def test_07_a_heartbeat_after_silence_only() -> None:
    stream = io.StringIO()
    view = folded(STORY[:3])
    text = PlainText(stream, {"e": view})
    text.beat(0.0)
    text.beat(HEARTBEAT_SECONDS - 1)
    assert stream.getvalue() == ""
    text.beat(HEARTBEAT_SECONDS)
    text.beat(HEARTBEAT_SECONDS + 1)
    assert stream.getvalue() == "6 total | 2 running | 4 queued | 0 passed | 0 failed | 0 errored | 0 skipped\n"


def test_C3_reused_slots_count_apart_and_in_the_rate() -> None:
    view = RunView("e")
    started = RunStarted(1, "i", "r", "e", "0", "h", 1, slots=4, tasks=4)
    story = [started, *(SlotFilled(str(n), str(n), 0, "m_b_h/r", v, s) for n, (v, s) in enumerate(SAVED))]
    for event in story:
        view.add(event, 1000.0)
    counts = view.counts
    assert (counts.reused, counts.reused_passed, counts.passed, counts.queued) == (3, 2, 0, 1)
    assert counts_of(view).startswith("4 total · 3 reused · 0 running · 1 queued · 0 passed")
    rate = run_rate(view)
    assert (rate.passed, rate.scored, rate.base, rate.low, rate.high) == (2, 3, 4, 0.5, 0.75)
    assert view.tries == 0
    data = summary_data(view, run="r", directory="d")
    assert (data["cost_usd"], data["reused_cost_usd"]) == (0.0, None), "what they cost is not known here"
    assert any("3 reused: what they cost is unknown" in line for line in summary_lines(view, directory="d"))


@pytest.mark.parametrize(
    ("costs", "cost", "said"),
    [
        ([], 0.0, None),
        ([0.0, 0.0], 0.0, None),
        ([1.5, 0.75], 2.25, "2 reused: they cost $2.25"),
        ([1.5, None], None, "2 reused: they cost at least $1.50, plus 1 attempt without price in the runs"),
        ([None, None], None, "2 reused: what they cost is unknown"),
    ],
)
def test_C3_the_cost_of_reused_slots_is_told_apart(
    costs: list[float | None], cost: float | None, said: str | None
) -> None:
    story: list[Event] = [RunStarted(1, "inv", "run", "e", "0", "host", 1, slots=4)]
    story += [SlotFilled(str(n), str(n), 0, "m_b_h/r", Verdict.PASSED, 1.0, one) for n, one in enumerate(costs)]
    view = folded(story)
    data = summary_data(view, run="r", directory="d")
    assert (data["cost_usd"], data["reused_cost_usd"]) == (0.0, cost)
    lines = [line for line in summary_lines(view, directory="d") if "not counted above" in line]
    assert [said in line for line in lines] == [True] if said else not lines


SAVED = [(Verdict.PASSED, 1.0), (Verdict.FAILED, 0.0), (Verdict.PASSED, 1.0)]
