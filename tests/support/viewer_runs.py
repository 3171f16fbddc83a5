"""Runs as they lie on the disk, for tests of the viewer: a journal of given events, and the files that tries left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from proctor.model.attempt import Check, Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Event,
    GradingQueued,
    GradingStarted,
    PhaseEnded,
    PhaseStarted,
    RunStarted,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryResumed,
    TryStarted,
)
from proctor.model.reasons import Purpose
from proctor.store.codec import encode
from proctor.store.layout import RunLayout

START = 1_790_000_000.0
Told = tuple[Event, float]


def started(name: str = "e") -> Told:
    return RunStarted(1, "i", "r1", name, "0", "h", 1, 1, 1), START


def phase(attempt: str, name: Phase, begin: float, seconds: float) -> list[Told]:
    return [(PhaseStarted(attempt, name), begin), (PhaseEnded(attempt, name, seconds), begin + seconds)]


def good_try(attempt: str, task: str, begin: float, *, number: int = 1, checks: tuple[Check, ...] = ()) -> list[Told]:
    """A try of 10 s: open 1, agent 4 with a backoff of 1 in it, a wait of 2 for the permits of grading, grade 2."""
    box = f"box-{attempt}"
    grade = Grade(True, 1.0, {"style": 0.5}, checks)
    return [
        (TryStarted(attempt, task, 0, number), begin),
        *phase(attempt, Phase.OPEN, begin, 1.0),
        (SandboxOpened(attempt, number, box, Purpose.AGENT), begin + 1),
        (PhaseStarted(attempt, Phase.AGENT), begin + 1),
        (BackoffStarted(attempt, "model.rate_limited", 1.0), begin + 2),
        (BackoffEnded(attempt, 1.0), begin + 3),
        (TryResumed(attempt), begin + 3),
        (PhaseEnded(attempt, Phase.AGENT, 4.0), begin + 6),
        (SandboxDisposed(attempt, box), begin + 6),
        (GradingQueued(attempt), begin + 6),
        (GradingStarted(attempt), begin + 8),
        *phase(attempt, Phase.GRADE, begin + 8, 2.0),
        (TryEnded(attempt, number, TryResult(Outcome.GRADED, grade, Usage(2, 100, 20, cost_usd=0.25))), begin + 10),
    ]


def broken_try(attempt: str, task: str, begin: float, message: str) -> list[Told]:
    """A try of 2 s that ends with a FATAL issue."""
    issue = issue_of("harness.crashed", message, Phase.AGENT)
    return [
        (TryStarted(attempt, task, 0, 1), begin),
        *phase(attempt, Phase.AGENT, begin, 2.0),
        (
            TryEnded(attempt, 1, TryResult(Outcome.BROKEN, None, Usage(1, 10, 2, cost_usd=0.05), issues=(issue,))),
            begin + 2,
        ),
    ]


def sealed(attempt: str, task: str, at: float, *, tries: int = 1, verdict: Verdict = Verdict.PASSED) -> Told:
    return AttemptSealed(attempt, task, 0, verdict, 1.0 if verdict is Verdict.PASSED else None, tries), at


def make_run(root: Path, events: Iterable[Told], run: str = "m_b_h/r1") -> RunLayout:
    """Write a run below a results root, with no plan."""
    layout = RunLayout(root / run)
    layout.directory.mkdir(parents=True)
    layout.journal.write_bytes(b"".join(encode(event, at) for event, at in events))
    return layout


def evidence(layout: RunLayout, task: str, name: str, content: bytes, number: int = 1) -> Path:
    """Write a file of a try."""
    path = layout.try_dir(task, 0, number) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
