"""The closed union of events: past tense, one dataclass each.

Everything that a person sees is a fold of these, in one order. Attempt events carry the attempt's id; the first of an
attempt, `TryStarted`, ties it to its slot. The word `verdict` stands only in `AttemptSealed`, once per attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from proctor.model.attempt import Issue, Phase, TryResult, Usage, Verdict
from proctor.model.frozen import frozen
from proctor.model.ids import AttemptId
from proctor.model.reasons import Completion, Purpose, StopReason
from proctor.model.sandbox_events import (
    ImageWaitEnded,
    ImageWaitStarted,
    SandboxDisposed,
    SandboxKept,
)


@frozen
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
    tasks: int = 0
    """How many tasks the slots are of; 0 where it was not noted."""
    early_exit: bool = False


@frozen
class SlotFilled:
    """A slot was filled at planning by a saved attempt of another run: nothing is executed, no cost is counted again.

    `run` is the run that the attempt is of, as `experiment directory/run id` below the results root.
    """

    attempt: AttemptId
    task: str
    ordinal: int
    run: str
    verdict: Verdict
    score: float | None
    cost_usd: float | None = None
    """What it cost there; None where that is not known."""
    accepted: bool = False
    """Whether its identity differs and a person looked at it."""
    sub_scores: Mapping[str, float] = field(default_factory=dict[str, float])


@frozen
class TryStarted:
    """A try of an attempt was dispatched; journaled before any sandbox is asked for."""

    attempt: AttemptId
    task: str
    ordinal: int
    try_number: int
    grading_only: bool = False
    """Whether the agent's part is taken from the checkpoint of an earlier try."""


@frozen
class SandboxOpened:
    """A provider made a sandbox; journaled at once, so that a killed process leaves a list of what to sweep."""

    attempt: AttemptId
    try_number: int
    sandbox: str
    purpose: Purpose


@frozen
class PhaseStarted:
    """A phase of a try began."""

    attempt: AttemptId
    phase: Phase


@frozen
class PhaseEnded:
    """A phase of a try ended; `seconds` by the monotonic clock, waiting for permits not counted."""

    attempt: AttemptId
    phase: Phase
    seconds: float


@frozen
class SavedFile:
    """A file of a checkpoint: its name below the directory of the try, the digest (sha256) and size of its content."""

    name: str
    sha256: str
    size: int


@frozen
class WorkCheckpointed:
    """What grading needs was saved: the answer's digest (sha256), where there is one, and every file beside it.

    The answer is `checkpoint/answer.txt`. Of more than 100 files only `checkpoint/manifest.json` is listed, which lists
    the others. `usage` is what the work used. From here on grading can be tried again without the agent.
    """

    attempt: AttemptId
    try_number: int
    answer_sha256: str | None
    usage: Usage
    files: tuple[SavedFile, ...] = ()


@frozen
class GradingQueued:
    """The agent's part of a try is over, its sandbox is gone, and it asks for the permits that grading needs."""

    attempt: AttemptId


@frozen
class GradingStarted:
    """The permits for grading were granted."""

    attempt: AttemptId


@frozen
class BackoffStarted:
    """Inside a try, something refused for now will be repeated after `seconds`; nothing of the try executes meanwhile.

    `code` says what refused: an opening that the provider refused has a code of the provider, a call one of the model.
    """

    attempt: AttemptId
    code: str
    seconds: float


@frozen
class BackoffEnded:
    """The wait inside a try is over, after `seconds`; the try asks for its permits and goes on when it is told to."""

    attempt: AttemptId
    seconds: float


@frozen
class TryResumed:
    """The permits that a wait inside a try had given back are held again: it executes from here on."""

    attempt: AttemptId


@frozen
class IssueRaised:
    """A problem was recorded while the try goes on."""

    attempt: AttemptId
    issue: Issue


@frozen
class TryEnded:
    """A try is over: its sandboxes are gone, or their disposal has run out of time; that of a lane stays.

    `sandbox_reusable` says of a try in a lane whether another one may run in the same sandbox. `retry_after_seconds` is
    what a server asked to be waited for before another try, where it said so and it could be read.
    """

    attempt: AttemptId
    try_number: int
    result: TryResult
    sandbox_reusable: bool = True
    retry_after_seconds: float | None = None


@frozen
class AttemptSealed:
    """An attempt is final and fills its slot."""

    attempt: AttemptId
    task: str
    ordinal: int
    verdict: Verdict
    score: float | None
    tries: int


@frozen
class DispatchStopped:
    """`slots` slots of the experiment will not be dispatched."""

    experiment: str
    reason: StopReason
    slots: int


@frozen
class LeaseGranted:
    """The experiment holds the lease on its shared state."""

    experiment: str


@frozen
class LeaseRefused:
    """The lease was not to be had within the wait that was allowed; nothing is held."""

    experiment: str
    message: str


@frozen
class LeaseReleased:
    """The experiment holds no lease and waits for none."""

    experiment: str


@frozen
class SetupEnded:
    """The setup hook of the experiment ended; with an issue it failed."""

    experiment: str
    issue: Issue | None = None


@frozen
class TeardownEnded:
    """The teardown hook of the experiment ended; with an issue it failed."""

    experiment: str
    issue: Issue | None = None


@frozen
class LaneClosed:
    """A lane is over; `sandbox` is the one that it had and that is gone, None where it had none or could not go.

    `issue` is of the hook that was to undo what another did to the sandbox.
    """

    lane: str
    experiment: str
    sandbox: str | None = None
    issue: Issue | None = None


@frozen
class Interrupted:
    """The invocation was told to stop, by a signal (its number) or for another `cause` (0), such as its time limit."""

    signal: int
    cause: str = ""


@frozen
class RunEnded:
    """Nothing of the experiment is left to do.

    `waited` are the slot-seconds that its slots were queued, by what held them back, as the scheduler saw it from time
    to time; empty where it was not measured.
    """

    experiment: str
    completion: Completion
    waited: Mapping[str, float] = field(default_factory=dict[str, float])


TryEvent = (
    ImageWaitStarted
    | ImageWaitEnded
    | SandboxOpened
    | SandboxDisposed
    | SandboxKept
    | PhaseStarted
    | PhaseEnded
    | WorkCheckpointed
    | GradingQueued
    | BackoffStarted
    | BackoffEnded
    | IssueRaised
    | TryEnded
)
"""What a try reports about itself."""

RunEvent = LeaseGranted | LeaseRefused | LeaseReleased | SetupEnded | TeardownEnded | LaneClosed
"""What is reported of an experiment as a whole; each has its name as `experiment`."""

Event = (
    TryEvent
    | RunEvent
    | RunStarted
    | SlotFilled
    | TryStarted
    | GradingStarted
    | TryResumed
    | AttemptSealed
    | DispatchStopped
    | Interrupted
    | RunEnded
)

EVENT_TYPES: tuple[type[Event], ...] = (
    RunStarted, SlotFilled, TryStarted, ImageWaitStarted, ImageWaitEnded, SandboxOpened, SandboxDisposed, SandboxKept,
    PhaseStarted, PhaseEnded, WorkCheckpointed,
    GradingQueued, GradingStarted, BackoffStarted, BackoffEnded, TryResumed, IssueRaised, TryEnded,
    AttemptSealed,
    LeaseGranted, LeaseRefused, LeaseReleased, SetupEnded, TeardownEnded, LaneClosed, DispatchStopped, Interrupted,
    RunEnded,
)  # fmt: skip

FINAL_EVENTS: tuple[type[Event], ...] = (TryEnded, AttemptSealed, DispatchStopped, RunEnded)
"""Events that end something: on disk for good before any display shows them (spec 08 D1)."""


@frozen
class TimerFired:
    """A moment that the scheduler asked for has come; too early, too late or too often does no harm."""


@frozen
class StoreFailed:
    """Results cannot be written any more."""


Notice = TimerFired | StoreFailed
"""What the scheduler is told and no journal keeps: time passing, and that there is no journal left to keep it."""
