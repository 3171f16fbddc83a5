"""Rows of the panel: what is said of an attempt in flight, and what gives way where there is no room (spec 07)."""

from __future__ import annotations

from proctor.model.attempt import Outcome, Phase, TryResult, issue_of
from proctor.model.events import IssueRaised, PhaseStarted, RunStarted, TryEnded, TryStarted
from proctor.report.panel import Look, Page, frame
from proctor.report.sign import Sign
from proctor.report.view import RunView

LIMITED = issue_of("model.rate_limited", "status 429", Phase.AGENT)


def view_of(slots: int, flying: int) -> RunView:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, slots, slots), 0.0)
    for number in range(flying):
        view.add(TryStarted(f"a{number}", f"t{number}", 0, 1), 0.0)
        view.add(PhaseStarted(f"a{number}", Phase.AGENT), 0.0)
    return view


def text_of(page: Page, look: Look) -> str:
    return "\n".join("".join(text for text, _ in line).rstrip() for line in frame(page, look))


def test_07_how_long_an_attempt_waits_between_two_tries_is_said_until_it_is_over() -> None:
    view = view_of(1, 1)
    view.add(IssueRaised("a0", LIMITED), 1.0)
    view.add(TryEnded("a0", 1, TryResult(Outcome.BROKEN, issues=(LIMITED,))), 1.0)
    page = Page(2.0, {"e": view}, tries={"e": 3}, retry_in=lambda attempt: 8.0 if attempt == "a0" else None)
    assert "backing off 8 s (model.rate_limited, try 2 of 3)" in text_of(page, Look(100, 20))
    over = Page(2.0, {"e": view}, tries={"e": 3}, retry_in=lambda attempt: 0.0)
    assert "backing off (model.rate_limited, try 2 of 3)" in text_of(over, Look(100, 20))


def test_07_output_is_never_longer_ago_than_the_phase_that_it_is_of() -> None:
    page = Page(3.9, {"e": view_of(1, 1)}, sight=lambda _: Sign(3.9))
    assert "agent  00:03   last output 3 s" in text_of(page, Look(100, 20))


def test_07_in_a_few_lines_the_counts_come_before_everything_else() -> None:
    page = Page(1.0, {"e": view_of(50, 9)}, plan=["50 attempts"], waiting=())
    text = " ".join(text_of(page, Look(24, 5)).split())
    for words in ("50 total", "9 running", "41 queued", "0 passed", "0 failed", "0 errored", "0 skipped"):
        assert words in text, text
