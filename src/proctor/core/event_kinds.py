"""Which events mean the same to the scheduler, whatever else they say."""

from __future__ import annotations

from proctor.core.lifecycle import Step
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    DispatchStopped,
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    Interrupted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    SlotFilled,
    StoreFailed,
    TryResumed,
    TryStarted,
    WorkCheckpointed,
)

REPORTS = (
    PhaseStarted, PhaseEnded, SandboxOpened, GradingQueued, SandboxDisposed, WorkCheckpointed, IssueRaised,
    BackoffStarted, BackoffEnded, ImageWaitStarted, ImageWaitEnded, SandboxKept,
)  # fmt: skip
"""What a try tells before its end."""

CUTS = (Interrupted, StoreFailed)
"""What stops everything."""

ECHOES = (RunStarted, SlotFilled, TryStarted, GradingStarted, TryResumed, AttemptSealed, DispatchStopped, RunEnded)
"""What only echoes a command, and changes nothing."""

QUIET = frozenset({
    Step.PHASE_STARTED, Step.PHASE_ENDED, Step.ISSUE_RAISED, Step.SANDBOX_DISPOSED, Step.AGENT_SANDBOX_OPENED,
    Step.GRADE_SANDBOX_OPENED,
})  # fmt: skip
"""Steps at which a try neither takes nor gives back anything."""
