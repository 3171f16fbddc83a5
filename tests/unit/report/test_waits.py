"""The sentence at the beginning of each wait (spec 07)."""

from __future__ import annotations

from proctor.model.attempt import Outcome, TryResult, Verdict, issue_of
from proctor.model.events import AttemptSealed, BackoffStarted, Event, RunStarted, TryEnded, TryStarted
from proctor.report.view import RunView
from proctor.report.waits import Waits

LOST = TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "gone"),))


def said(views: dict[str, RunView], *told: Event) -> list[str]:
    batch = [("a", event, 1.0) for event in told]
    for name, event, at in batch:
        views[name].add(event, at)
    return [sentence for sentence, _ in Waits().begun(batch, views)]


def views_of(*names: str) -> dict[str, RunView]:
    views = {name: RunView(name) for name in names}
    for name, view in views.items():
        view.add(RunStarted(1, "i", "r", name, "0", "h", 1, 2, 2), 0.0)
        view.add(TryStarted("x", "t", 0, 1), 0.0)
    return views


def test_07_a_wait_names_the_slot_and_among_several_experiments_whose_it_is() -> None:
    backoff = BackoffStarted("x", "model.rate_limited", 8.0)
    assert said(views_of("a"), backoff) == ["wait: t #0  8.0s, because of model.rate_limited"]
    assert said(views_of("a", "b"), backoff) == ["wait: a t #0  8.0s, because of model.rate_limited"]
    assert said(views_of("a"), TryEnded("x", 1, LOST)) == ["wait: t #0  before try 2, because of provider.lost"]


def test_07_the_end_of_an_attempt_is_no_wait() -> None:
    ends = TryEnded("x", 1, LOST), AttemptSealed("x", "t", 0, Verdict.ERRORED, None, 1)
    assert said(views_of("a"), *ends) == []


def test_07_a_slot_that_the_view_is_past_is_told_by_the_batch() -> None:
    again = TryEnded("x", 1, LOST), TryStarted("x", "t", 0, 2)
    gone = TryEnded("x", 2, LOST), AttemptSealed("x", "t", 0, Verdict.ERRORED, None, 2)
    assert said(views_of("a"), *again, *gone) == ["wait: t #0  before try 2, because of provider.lost"]
