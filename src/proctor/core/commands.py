"""What the scheduler tells the runtime to do: imperative, one dataclass each."""

from __future__ import annotations

from proctor.model.attempt import Issue, Verdict
from proctor.model.events import Completion, StopReason
from proctor.model.frozen import frozen
from proctor.model.ids import AttemptId, SlotKey


@frozen
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


@frozen
class StartGrading:
    """Let a try that asked for it go on to grading; the permits for it are held."""

    attempt: AttemptId


@frozen
class ResumeTry:
    """Let a try go on whose backoff has ended; the permits for it are held again."""

    attempt: AttemptId


@frozen
class CancelTry:
    """Cancel a try in flight; `reason` is what its log says."""

    attempt: AttemptId
    reason: StopReason = StopReason.INTERRUPT


@frozen
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


@frozen
class StopDispatch:
    """Record that slots of an experiment will not be dispatched."""

    experiment: str
    reason: StopReason
    slots: int


@frozen
class WakeAt:
    """Tell the scheduler `TimerFired` at a moment of the clock whose `now` it is given; the last one counts."""

    at: float


@frozen
class AcquireLease:
    """Ask for the lease on the shared state `key`, waiting as long as is allowed."""

    experiment: str
    key: str


@frozen
class ReleaseLease:
    """Release the lease of an experiment, or stop waiting for it."""

    experiment: str


@frozen
class RunSetup:
    """Run the setup hook of an experiment."""

    experiment: str


@frozen
class RunTeardown:
    """Run the teardown hook of an experiment; all its sandboxes are gone."""

    experiment: str


@frozen
class OpenLane:
    """Begin a lane: its sandbox is opened by the first try in it. `group` is the task group it belongs to, if any."""

    lane: str
    experiment: str
    group: str | None = None


@frozen
class CloseLane:
    """Dispose of the sandbox of a lane, if it has one; nothing runs in it any more."""

    lane: str


@frozen
class FinishRun:
    """Nothing of the experiment is left to do: close its run."""

    experiment: str
    completion: Completion


@frozen
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
