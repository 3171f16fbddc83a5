"""The life of a try, as far as the scheduler has to know it: a table (grading mode, state, step) -> state.

What is not in the table cannot happen; it is a bug of the runtime or of the scheduler, and said as one. The table is
strict where permits or trust depend on it (a sandbox opens only under a permit, grading starts only after the agent's
sandbox is gone unless it happens there) and lenient in what is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryEvent,
    WorkCheckpointed,
)


class State(StrEnum):
    """Where a try stands."""

    WORKING = "working"
    """Dispatched; no sandbox was opened yet, or the work needs none."""
    IN_SANDBOX = "in sandbox"
    """The agent's sandbox is open."""
    SANDBOX_GONE = "sandbox gone"
    """The disposal of the agent's sandbox is over."""
    GRADING_QUEUED = "grading queued"
    """Waits for the permits of a fresh grading sandbox; nothing of it executes."""
    GRADING = "grading"
    """Grading in a sandbox of its own, permits granted."""
    CANCELLING = "cancelling"
    """Was told to stop; whatever it reports until its end changes nothing."""
    ENDED = "ended"


class Step(StrEnum):
    """What can happen to a try: what it reports, and what the scheduler does to it (GRANT, CANCEL)."""

    AGENT_SANDBOX_OPENED = "agent sandbox opened"
    GRADE_SANDBOX_OPENED = "grade sandbox opened"
    SANDBOX_DISPOSED = "sandbox disposed"
    PHASE_STARTED = "phase started"
    GRADE_STARTED = "phase grade started"
    PHASE_ENDED = "phase ended"
    DISPOSE_ENDED = "phase dispose ended"
    CHECKPOINTED = "work checkpointed"
    ISSUE_RAISED = "issue raised"
    QUEUE_GRADING = "grading queued"
    GRANT = "grading granted"
    CANCEL = "cancelled"
    TRY_ENDED = "try ended"


def _phase_started(event: PhaseStarted) -> Step:
    return Step.GRADE_STARTED if event.phase is Phase.GRADE else Step.PHASE_STARTED


def _phase_ended(event: PhaseEnded) -> Step:
    return Step.DISPOSE_ENDED if event.phase is Phase.DISPOSE else Step.PHASE_ENDED


def _sandbox_opened(event: SandboxOpened) -> Step:
    return Step.AGENT_SANDBOX_OPENED if event.purpose is Purpose.AGENT else Step.GRADE_SANDBOX_OPENED


_STEPS: dict[type[TryEvent], Step | Callable[[Any], Step]] = {
    SandboxOpened: _sandbox_opened,
    SandboxDisposed: Step.SANDBOX_DISPOSED,
    PhaseStarted: _phase_started,
    PhaseEnded: _phase_ended,
    WorkCheckpointed: Step.CHECKPOINTED,
    GradingQueued: Step.QUEUE_GRADING,
    IssueRaised: Step.ISSUE_RAISED,
    TryEnded: Step.TRY_ENDED,
}


def step_of(event: TryEvent) -> Step:
    """Return the step that an event of a try stands for."""
    step = _STEPS[type(event)]
    return step if isinstance(step, Step) else step(event)


Table = dict[tuple[State, Step], State]


def _stay(states: Iterable[State], steps: Iterable[Step]) -> Table:
    chosen = tuple(steps)
    return {(state, step): state for state in states for step in chosen}


def _common() -> Table:
    s, t = State, Step
    executing = (s.WORKING, s.IN_SANDBOX, s.SANDBOX_GONE)
    reported = (t.PHASE_STARTED, t.PHASE_ENDED, t.SANDBOX_DISPOSED, t.ISSUE_RAISED, t.CHECKPOINTED)
    table = _stay(executing, reported)
    table[s.WORKING, t.AGENT_SANDBOX_OPENED] = s.IN_SANDBOX
    for state in executing:  # where none was opened, or again at the end of the try, there is nothing left to go
        table[state, t.DISPOSE_ENDED] = s.SANDBOX_GONE
    # The sandbox may have opened, or the agent may have finished, just before the word to stop arrived.
    table |= _stay((s.CANCELLING,), set(t) - {t.GRANT, t.CANCEL, t.TRY_ENDED, t.QUEUE_GRADING, t.GRADE_SANDBOX_OPENED})
    for state in (*executing, s.CANCELLING):
        table[state, t.TRY_ENDED] = s.ENDED
    for state in executing:
        table[state, t.CANCEL] = s.CANCELLING
    return table


def _fresh() -> Table:
    s, t = State, Step
    table = _common()
    for state in (s.WORKING, s.SANDBOX_GONE):
        table[state, t.QUEUE_GRADING] = s.GRADING_QUEUED
    table |= _stay((s.GRADING_QUEUED,), (t.SANDBOX_DISPOSED, t.ISSUE_RAISED))
    table[s.GRADING_QUEUED, t.GRANT] = s.GRADING
    reported = (t.PHASE_STARTED, t.PHASE_ENDED, t.SANDBOX_DISPOSED, t.ISSUE_RAISED)
    table |= _stay((s.GRADING,), (*reported, t.GRADE_SANDBOX_OPENED, t.GRADE_STARTED, t.DISPOSE_ENDED))
    table |= _stay((s.CANCELLING,), (t.QUEUE_GRADING, t.GRADE_SANDBOX_OPENED))
    for state in (s.GRADING_QUEUED, s.GRADING):
        table[state, t.CANCEL] = s.CANCELLING
        table[state, t.TRY_ENDED] = s.ENDED
    return table


TRANSITIONS: Mapping[GradingMode, Table] = {
    GradingMode.NONE: _common() | _stay((State.WORKING, State.SANDBOX_GONE), (Step.GRADE_STARTED,)),
    GradingMode.REUSE: _common() | _stay((State.WORKING, State.IN_SANDBOX), (Step.GRADE_STARTED,)),
    GradingMode.FRESH: _fresh(),
}
"""All that can happen, by grading mode."""


def advance(mode: GradingMode, state: State, step: Step) -> State:
    """Return the state after `step`; raises `InternalError` for a step that cannot happen there."""
    after = TRANSITIONS[mode].get((state, step))
    if after is None:
        raise InternalError(f"a try with grading {mode} that is `{state}` cannot have `{step}`")
    return after
