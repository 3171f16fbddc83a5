"""Retries told honestly: what passed only after one, what they cost, why attempts wait (spec 05 T2; 09 M6)."""

from __future__ import annotations

import pytest

from proctor.model.attempt import Grade, Issue, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Event,
    IssueRaised,
    PhaseEnded,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.report.attempt import AttemptStory, TryFiles, attempt_data, attempt_lines
from proctor.report.plain import counts_of
from proctor.report.summary import retry_lines, summary_data
from proctor.report.view import RunView
from proctor.report.waits import QUIET_SECONDS, Waits

LOST = issue_of("provider.lost", "gone", Phase.AGENT)


def used(cost: float | None, calls: int = 1) -> Usage:
    return Usage(calls=calls, input_tokens=10, cost_usd=cost)


def broken(work: float | None = 1.0, grading: float | None = None, issue: Issue = LOST) -> TryResult:
    judged = Usage() if grading is None else used(grading)
    return TryResult(Outcome.BROKEN, usage=used(work), grader_usage=judged, issues=(issue,))


def graded(work: float | None = 1.0, *, solved: bool = True, calls: int = 1) -> TryResult:
    usage = used(work) if calls else Usage()
    return TryResult(Outcome.GRADED, Grade(solved, float(solved)), usage=usage)


def folded(*events: Event, slots: int = 1) -> RunView:
    view = RunView("e")
    for number, event in enumerate((RunStarted(1, "i", "r", "e", "0", "h", 1, slots=slots), *events)):
        view.add(event, 1000.0 + number)
    return view


def attempt(name: str, *results: TryResult, grading_only: tuple[int, ...] = ()) -> list[Event]:
    events: list[Event] = []
    for number, result in enumerate(results, start=1):
        events.append(TryStarted(name, name, 0, number, grading_only=number in grading_only))
        events += [IssueRaised(name, issue) for issue in result.issues]
        events.append(TryEnded(name, number, result))
    last = results[-1]
    verdict = Verdict.ERRORED if last.grade is None else (Verdict.PASSED if last.grade.solved else Verdict.FAILED)
    events.append(AttemptSealed(name, name, 0, verdict, last.grade.score if last.grade else None, len(results)))
    return events


def test_T2_what_a_later_try_replaced_is_told_apart_from_what_counts() -> None:
    view = folded(*attempt("a", broken(2.0), graded(0.5)), *attempt("b", graded(1.0)), slots=2)
    data = summary_data(view, run="r", directory="d")
    assert (data["cost_usd"], data["retried_cost_usd"]) == (3.5, 2.0)


def test_T3_work_that_is_only_graded_again_is_not_replaced_but_its_grading_is() -> None:
    view = folded(*attempt("a", broken(2.0, 0.25), broken(None, 0.5), graded(calls=0), grading_only=(2, 3)))
    view_of_none = folded(*attempt("a", broken(2.0, 0.25), graded(calls=0), grading_only=(2,)))
    assert view_of_none.retried_usage == used(0.25)
    assert view.grading_only_tries == 2
    again = folded(*attempt("a", broken(2.0, 0.25), graded(1.0)))
    assert again.retried_usage == used(2.0) + used(0.25)


def test_T3_work_that_is_done_again_after_all_is_replaced_with_all_its_gradings() -> None:
    nothing = TryResult(Outcome.BROKEN, issues=(LOST,))
    view = folded(*attempt("a", broken(2.0, 0.25), nothing, graded(1.0), grading_only=(2,)))
    assert view.retried_usage == used(0.25) + used(2.0)


def test_09_M6_unknown_stays_unknown() -> None:
    view = folded(*attempt("a", broken(None), graded(1.0)))
    assert summary_data(view, run="r", directory="d")["retried_cost_usd"] is None


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([attempt("a", graded())], []),
        ([attempt("a", broken(), graded())], ["passed after retry: 1 · without the 1 retried attempt: no score"]),
        (
            [attempt("a", broken(), broken()), attempt("b", graded(solved=False))],
            ["passed after retry: 0 · without the 1 retried attempt: 0.0% (0/1 passed)"],
        ),
        (
            [attempt("a", broken(), graded(solved=False)), attempt("b", broken()), attempt("c", graded())],
            [
                "passed after retry: 0 · without the 1 retried attempt: 50.0–100.0% incomplete (1/2 passed, 1 errored)"  # noqa: RUF001
            ],
        ),
    ],
)
def test_38_the_rate_is_told_with_and_without_retried_attempts(events: list[list[Event]], says: list[str]) -> None:
    view = folded(*(event for one in events for event in one), slots=len(events))
    assert retry_lines(view) == says


def test_07_parts_without_retried_attempts_add_up_at_every_moment() -> None:
    events = [*attempt("a", broken(), broken(), graded()), *attempt("b", broken(), broken()), *attempt("c", graded())]
    for length in range(len(events) + 1):
        view = folded(*events[:length], slots=5)
        counts = view.counts_without_retried  # it refuses parts that do not add up
        assert counts.total == 5 - view.retried.total()


def test_07_an_attempt_between_its_tries_is_running_and_said_to_wait() -> None:
    view = folded(*attempt("a", broken(), graded())[:3])
    assert view.counts.running == view.between_tries == 1
    assert "1 running (1 backing off)" in counts_of(view)
    view.add(TryStarted("a", "a", 0, 2), 1.0)
    assert view.between_tries == 0


def begun(*batches: list[tuple[Event, float]]) -> list[tuple[str, bool]]:
    view, waits = RunView("e"), Waits()
    view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, slots=3), 0.0)
    found: list[tuple[str, bool]] = []
    for batch in batches:
        for event, at in batch:
            view.add(event, at)
        found += waits.begun([("e", event, at) for event, at in batch], {"e": view})
    return found


def test_42_the_cause_of_a_wait_is_named_also_where_the_next_try_is_in_the_same_batch() -> None:
    first, issue, ended, *rest = attempt("a", broken(), graded())
    line = ("wait: a #0  before try 2, because of provider.lost", True)
    assert begun([(first, 1.0)], [(issue, 1.0), (ended, 1.0)], [(each, 2.0) for each in rest]) == [line]
    assert begun([(each, 1.0) for each in attempt("a", broken(), graded())]) == [line]


def test_42_the_last_try_is_followed_by_no_wait() -> None:
    assert begun([(each, 1.0) for each in attempt("a", broken())]) == []
    assert begun([(each, 1.0) for each in attempt("a", graded())]) == []


def test_42_a_cause_is_loud_once_in_a_while_and_each_wait_is_logged() -> None:
    start = TryStarted("a", "a", 0, 1)
    wait, resumed = BackoffStarted("a", "model.rate_limited", 5.0), BackoffEnded("a", 5.0)
    other = BackoffStarted("a", "model.overloaded", 5.0)
    moments = [(wait, 1.0), (resumed, 2.0), (wait, 3.0), (resumed, 4.0), (other, 5.0), (resumed, 6.0)]
    found = begun([(start, 0.0)], *([each] for each in moments), [(wait, 1.0 + QUIET_SECONDS)])
    assert [loud for _, loud in found] == [True, False, True, True]
    assert found[0][0] == "wait: a #0  5.0s, because of model.rate_limited"


def test_42_what_a_server_asks_for_is_said() -> None:
    first, issue, ended, *_ = attempt("a", broken(), graded())
    assert isinstance(ended, TryEnded)
    asks = TryEnded("a", 1, ended.result, retry_after_seconds=90.0)
    assert begun([(first, 0.0), (issue, 0.0), (asks, 0.0)])[0][0].endswith("provider.lost; the server asks for 1m30s")


def told(events: list[Event]) -> tuple[AttemptStory, list[str]]:
    story = AttemptStory("a")
    for number, event in enumerate(events):
        story.add(event, 100.0 + number)
    files = [TryFiles(f"d/{each.number}", ("try.log",) if each.number == 1 else ()) for each in story.tries]
    attempt_data(story, experiment="e", run="r", files=files)
    return story, attempt_lines(story, experiment="e", run="r", files=files)


def test_40_every_try_is_told_with_its_outcome_issues_time_and_files() -> None:
    events = attempt("a", broken(0.5), graded(calls=0), grading_only=(2,))
    events[1:1] = [
        PhaseEnded("a", Phase.AGENT, 3.0), BackoffStarted("a", "model.rate_limited", 5.0), BackoffEnded("a", 5.5),
        TryStarted("other", "o", 0, 1), PhaseEnded("a", Phase.AGENT, 1.0),
    ]  # fmt: skip
    _, lines = told(events)
    assert lines == [
        "@a  a #0 of e: passed, score 1, 2 tries",
        "run: r",
        "try 1  broken  7.0s  (agent 4.0s · waited 5.5s because of model.rate_limited · 1 model call "
        "· 10 tokens in, 0 out · $0.50)",
        "  FATAL provider.lost in agent: gone",
        "  hint: look up the status or signal of the message; where memory ran out, lower `--task-concurrency N` "
        "(docs/codes/provider.lost.md)",
        "  files: try.log in d/1",
        "try 2  graded, grading only  1.0s",
        "  files: none",
    ]


@pytest.mark.parametrize("length", range(8))
def test_an_attempt_is_told_as_far_as_it_went(length: int) -> None:
    story, lines = told(attempt("a", broken(), graded())[:length])
    assert len(story.tries) == (0, 1, 1, 1, 2, 2, 2, 2)[length]
    assert "unfinished" in lines[0] or length >= 6


def test_an_attempt_that_was_given_up_before_any_try_says_why() -> None:
    issue = issue_of("environment.too_large", "it needs 5 hosts")
    story, lines = told([IssueRaised("a", issue), AttemptSealed("a", "t", 0, Verdict.ERRORED, None, 0)])
    assert story.issues == [issue]
    assert lines[0] == "@a  t #0 of e: errored, 0 tries"
    assert "FATAL environment.too_large: it needs 5 hosts" in lines
