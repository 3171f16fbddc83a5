"""What the scheduler tells the runtime to do: imperative, one dataclass each."""

from __future__ import annotations

from dataclasses import dataclass

from proctor.model.attempt import Verdict
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId, SlotKey


@dataclass(frozen=True, slots=True)
class StartTry:
    """Start a try; the permits for it are held."""

    attempt: AttemptId
    slot: SlotKey
    try_number: int


@dataclass(frozen=True, slots=True)
class StartGrading:
    """Let a try that asked for it go on to grading; the permits for it are held."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class CancelTry:
    """Cancel a try in flight."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class Seal:
    """Make an attempt final."""

    attempt: AttemptId
    slot: SlotKey
    verdict: Verdict
    score: float | None
    tries: int


@dataclass(frozen=True, slots=True)
class StopDispatch:
    """Record that slots of an experiment will not be dispatched."""

    experiment: str
    reason: StopReason
    slots: int


@dataclass(frozen=True, slots=True)
class FinishRun:
    """Nothing of the experiment is left to do: close its run."""

    experiment: str
    completion: Completion


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do at all."""


Command = StartTry | StartGrading | CancelTry | Seal | StopDispatch | FinishRun | Finish
