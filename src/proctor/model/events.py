"""The closed union of events: past tense, one dataclass each.

Everything that a person sees is a fold of these, in one order. Attempt events carry the attempt's id; the first of an
attempt, `TryStarted`, ties it to its slot. The word `verdict` stands only in `AttemptSealed`, once per attempt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from proctor.model.attempt import Issue, Outcome, Phase, TryResult, Usage, Verdict
from proctor.model.ids import AttemptId


class Purpose(StrEnum):
    """What a sandbox was opened for."""

    AGENT = "agent"
    GRADE = "grade"


class StopReason(StrEnum):
    """Why slots are not dispatched; a later member replaces an earlier one, never the reverse."""

    SCOPE_STOPPED = "stopped scope"
    DISK = "disk"
    INTERRUPT = "interrupt"


class Completion(StrEnum):
    """How a run ended."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run directory is open for writing. `format` is the version of the journal."""

    format: int
    invocation: str
    run: str
    experiment: str
    proctor: str
    host: str
    pid: int
    slots: int


@dataclass(frozen=True, slots=True)
class TryStarted:
    """A try of an attempt was dispatched; journaled before any sandbox is asked for."""

    attempt: AttemptId
    task: str
    ordinal: int
    try_number: int


@dataclass(frozen=True, slots=True)
class SandboxOpened:
    """A provider made a sandbox; journaled at once, so that a killed process leaves a list of what to sweep."""

    attempt: AttemptId
    try_number: int
    sandbox: str
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class SandboxDisposed:
    """A sandbox is gone."""

    attempt: AttemptId
    sandbox: str


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase of a try began."""

    attempt: AttemptId
    phase: Phase


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of a try ended; `seconds` by the monotonic clock, waiting for permits not counted."""

    attempt: AttemptId
    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkCheckpointed:
    """What grading needs was saved: the digest (sha256) of the answer, where there is one, and what the work used."""

    attempt: AttemptId
    try_number: int
    answer_sha256: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class GradingQueued:
    """The agent's part of a try is over, its sandbox is gone, and it asks for the permits that grading needs."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class GradingStarted:
    """The permits for grading were granted."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class IssueRaised:
    """A problem was recorded while the try goes on."""

    attempt: AttemptId
    issue: Issue


@dataclass(frozen=True, slots=True)
class TryEnded:
    """A try is over: its sandboxes are gone, or their disposal has run out of time."""

    attempt: AttemptId
    try_number: int
    result: TryResult


@dataclass(frozen=True, slots=True)
class AttemptSealed:
    """An attempt is final and fills its slot."""

    attempt: AttemptId
    task: str
    ordinal: int
    verdict: Verdict
    score: float | None
    tries: int


@dataclass(frozen=True, slots=True)
class DispatchStopped:
    """`slots` slots of the experiment will not be dispatched."""

    experiment: str
    reason: StopReason
    slots: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The invocation was told to stop, by a signal (its number) or by the caller (0)."""

    signal: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Nothing of the experiment is left to do."""

    experiment: str
    completion: Completion


TryEvent = (
    SandboxOpened
    | SandboxDisposed
    | PhaseStarted
    | PhaseEnded
    | WorkCheckpointed
    | GradingQueued
    | IssueRaised
    | TryEnded
)
"""What a try reports about itself."""

Event = TryEvent | RunStarted | TryStarted | GradingStarted | AttemptSealed | DispatchStopped | Interrupted | RunEnded

EVENT_TYPES: tuple[type[Event], ...] = (
    RunStarted, TryStarted, SandboxOpened, SandboxDisposed, PhaseStarted, PhaseEnded, WorkCheckpointed, GradingQueued,
    GradingStarted, IssueRaised, TryEnded, AttemptSealed, DispatchStopped, Interrupted, RunEnded,
)  # fmt: skip

FINAL_EVENTS: tuple[type[Event], ...] = (TryEnded, AttemptSealed, DispatchStopped, RunEnded)
"""Events that end something: on disk for good before any display shows them (spec 08 D1)."""

__all__ = [
    "EVENT_TYPES", "FINAL_EVENTS", "AttemptSealed", "Completion", "DispatchStopped", "Event", "GradingQueued",
    "GradingStarted", "Interrupted", "IssueRaised", "Outcome", "PhaseEnded", "PhaseStarted", "Purpose", "RunEnded",
    "RunStarted", "SandboxDisposed", "SandboxOpened", "StopReason", "TryEnded", "TryEvent", "TryStarted",
    "WorkCheckpointed",
]  # fmt: skip
