"""What the scheduler tells the runtime to do: imperative, one dataclass each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from proctor.model.attempt import Issue, Verdict
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId, SlotKey

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def _command(cls: type[_T]) -> type[_T]:
    """Make a dataclass that is frozen for the type checker alone, as being frozen makes each one four times as slow."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@_command
class StartTry:
    """Start a try; the permits for it are held. With a `lane` it runs in that lane's sandbox, opening it if need be.

    `grading_only` says that the agent's part is taken from a checkpoint: that of an earlier try of the attempt, or with
    try 1 that of an earlier run. What it holds is grading's vector.
    """

    attempt: AttemptId
    slot: SlotKey
    try_number: int
    lane: str | None = None
    grading_only: bool = False


@_command
class StartGrading:
    """Let a try that asked for it go on to grading; the permits for it are held."""

    attempt: AttemptId


@_command
class ResumeTry:
    """Let a try go on whose backoff has ended; the permits for it are held again."""

    attempt: AttemptId


@_command
class CancelTry:
    """Cancel a try in flight; `reason` is what its log says."""

    attempt: AttemptId
    reason: StopReason = StopReason.INTERRUPT


@_command
class Seal:
    """Make an attempt final. `issue` belongs to none of its tries and is recorded just before.

    With `tries` 0 the slot was given up before any try, and the attempt id is new.
    """

    attempt: AttemptId
    slot: SlotKey
    verdict: Verdict
    score: float | None
    tries: int
    issue: Issue | None = None


@_command
class StopDispatch:
    """Record that slots of an experiment will not be dispatched."""

    experiment: str
    reason: StopReason
    slots: int


@_command
class WakeAt:
    """Tell the scheduler `TimerFired` at a moment of the clock whose `now` it is given; the last one counts."""

    at: float


@_command
class AcquireLease:
    """Ask for the lease on the shared state `key`, waiting as long as is allowed."""

    experiment: str
    key: str


@_command
class ReleaseLease:
    """Release the lease of an experiment, or stop waiting for it."""

    experiment: str


@_command
class RunSetup:
    """Run the setup hook of an experiment."""

    experiment: str


@_command
class RunTeardown:
    """Run the teardown hook of an experiment; all its sandboxes are gone."""

    experiment: str


@_command
class OpenLane:
    """Begin a lane: its sandbox is opened by the first try in it. `group` is the task group it belongs to, if any."""

    lane: str
    experiment: str
    group: str | None = None


@_command
class CloseLane:
    """Dispose of the sandbox of a lane, if it has one; nothing runs in it any more."""

    lane: str


@_command
class FinishRun:
    """Nothing of the experiment is left to do: close its run."""

    experiment: str
    completion: Completion


@_command
class Finish:
    """Nothing is left to do at all."""


Command = (
    StartTry
    | StartGrading
    | ResumeTry
    | CancelTry
    | Seal
    | StopDispatch
    | WakeAt
    | AcquireLease
    | ReleaseLease
    | RunSetup
    | RunTeardown
    | OpenLane
    | CloseLane
    | FinishRun
    | Finish
)
