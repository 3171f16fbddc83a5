"""The lines of `--json`: one JSON object each, for any parser, however strict (spec 07)."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Verdict, issue_of
from proctor.model.events import (
    EVENT_TYPES,
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Completion,
    DispatchStopped,
    Event,
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    Interrupted,
    IssueRaised,
    LaneClosed,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    SetupEnded,
    SlotFilled,
    StopReason,
    TeardownEnded,
    TryEnded,
    TryResumed,
    TryStarted,
    WorkCheckpointed,
)
from proctor.report.ndjson import Ndjson
from proctor.store.codec import encode

EXPERIMENT = 'a"b/日本'
A = "abcdefgh2345"
EVENTS: list[Event] = [
    RunStarted(1, "i", "r", EXPERIMENT, "0", "host", 1, 2),
    SlotFilled(A, "t", 0, "m_b_h/run", Verdict.PASSED, 1.0),
    TryStarted(A, "t", 0, 1),
    ImageWaitStarted(A, "alpine:3"),
    ImageWaitEnded(A, 1.0),
    SandboxOpened(A, 1, "box", Purpose.AGENT),
    SandboxDisposed(A, "box"),
    SandboxKept(A, 1, "box", Purpose.AGENT, "bwrap"),
    PhaseStarted(A, Phase.AGENT),
    PhaseEnded(A, Phase.AGENT, 0.5),
    WorkCheckpointed(A, 1, None, NO_USAGE),
    GradingQueued(A),
    GradingStarted(A),
    BackoffStarted(A, "model.rate_limited", 5.0),
    BackoffEnded(A, 5.0),
    TryResumed(A),
    IssueRaised(A, issue_of("usage.missing", "none", Phase.AGENT)),
    TryEnded(A, 1, TryResult(Outcome.GRADED, Grade(True, 1.0))),
    AttemptSealed(A, "t", 0, Verdict.PASSED, 1.0, 1),
    LeaseGranted(EXPERIMENT),
    LeaseRefused(EXPERIMENT, "held"),
    LeaseReleased(EXPERIMENT),
    SetupEnded(EXPERIMENT),
    TeardownEnded(EXPERIMENT),
    LaneClosed("l", EXPERIMENT, "box"),
    DispatchStopped(EXPERIMENT, StopReason.DISK, 1),
    Interrupted(2),
    RunEnded(EXPERIMENT, Completion.STOPPED),
]


def strictly(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key stands twice: {keys}"
    return dict(pairs)


def test_every_type_of_event_is_here() -> None:
    assert [type(event) for event in EVENTS] == list(EVENT_TYPES)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_07_every_line_is_strict_json_and_names_its_experiment_once(event: Event) -> None:
    stream = io.StringIO()
    Ndjson(stream, encode).show(EXPERIMENT, event, 0.0)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert text.count("\n") == 1
    line = json.loads(text, object_pairs_hook=strictly)
    assert line["experiment"] == EXPERIMENT
    assert line["type"] == type(event).__name__
    assert {key: value for key, value in line.items() if key != "experiment"} == {
        key: value for key, value in json.loads(encode(event, 0.0)).items() if key != "experiment"
    }


def test_plan_and_receipt_are_lines_as_well() -> None:
    stream = io.StringIO()
    Ndjson(stream, encode).write("receipt", {"runs": [{"experiment": EXPERIMENT}]})
    assert json.loads(stream.getvalue(), object_pairs_hook=strictly) == {
        "type": "receipt", "runs": [{"experiment": EXPERIMENT}],
    }  # fmt: skip
