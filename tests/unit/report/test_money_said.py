"""What a run says of money and of the machine: what was saved of a killed try, what the budget left out, a full CPU."""

from __future__ import annotations

import pytest

from proctor.model.attempt import Grade, Outcome, TryResult, Usage, Verdict
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    RunStarted,
    StopReason,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.waiting import Gate
from proctor.report.summary import summary_data, summary_lines
from proctor.report.time_hints import hint_of
from proctor.report.time_spent import WAITING
from proctor.report.view import RunView

WORK, JUDGE = Usage(calls=1, input_tokens=10, cost_usd=0.5), Usage(calls=1, cost_usd=0.25)
STARTED = RunStarted(1, "inv", "run", "e", "0", "host", 1, slots=3)


def folded(*events: Event) -> RunView:
    view = RunView("e")
    for number, event in enumerate((STARTED, *events)):
        view.add(event, float(number))
    return view


def test_09_M6_what_was_saved_of_a_try_counts_before_its_end_and_once_after_it() -> None:
    going: list[Event] = [TryStarted("a", "t", 0, 1), WorkCheckpointed("a", 1, None, WORK)]
    live = folded(*going)
    assert live.all_usage == WORK
    assert "what 1 unfinished attempt used is counted as far as it was saved" in "\n".join(
        summary_lines(live, directory="d")
    )
    graded = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0), WORK, JUDGE)
    ended = folded(*going, TryEnded("a", 1, graded), AttemptSealed("a", "t", 0, Verdict.PASSED, 1.0, 1))
    assert ended.all_usage == WORK + JUDGE
    between = folded(*going, TryEnded("a", 1, TryResult(Outcome.BROKEN, usage=WORK)))
    assert between.all_usage == WORK
    live.cut_off(StopReason.DISK)
    assert summary_data(live, run="r", directory="d")["cost_usd"] == 0.5


def test_03_E4_the_end_says_what_to_do_about_what_the_budget_left_out() -> None:
    assert not [line for line in summary_lines(folded(), directory="d") if "budget" in line]
    stopped = folded(DispatchStopped("e", StopReason.BUDGET, 3))
    [line] = [line for line in summary_lines(stopped, directory="d") if line.startswith("the budget")]
    assert line.startswith("the budget left out 3 slots: raise `--budget`")


def test_07_of_a_local_model_nobody_is_told_to_ask_it_more_at_a_time() -> None:
    told = hint_of(f"{WAITING}{Gate.MODEL} gpt-x") or ""
    assert "raise `model.max_connections`" in told
    assert "max_connections" not in (hint_of(f"{WAITING}{Gate.MODEL} local/smollm2") or "")


@pytest.mark.parametrize("gate", [Gate.CONCURRENCY, Gate.EXPERIMENT, Gate.PROVIDER])
def test_07_where_the_cpu_is_full_nobody_is_told_to_run_more_at_a_time(gate: Gate) -> None:
    part = f"{WAITING}{gate}"
    full, free, unknown = hint_of(part, 0.97), hint_of(part, 0.5), hint_of(part)
    assert full is not None
    assert free == unknown != full
    assert "97% in use, so more at a time would not be quicker" in full
    assert "raise" not in full
    assert "raise" in (free or "")
