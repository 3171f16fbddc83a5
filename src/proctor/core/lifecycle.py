"""The life of a try, as far as the scheduler has to know it: a table (kind, state, step) -> state.

What is not in the table cannot happen; it is a bug of the runtime or of the scheduler, and said as one. The table is
strict where permits or trust depend on it (a sandbox opens only under a permit, grading starts only after the agent's
sandbox is gone unless it happens there) and lenient in what is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    GradingQueued,
    ImageWaitEnded,
    ImageWaitStarted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxKept,
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
    BACKING_OFF = "backing off"
    """Waits inside the try, or for the word to go on; without a sandbox."""
    BACKING_OFF_IN_SANDBOX = "backing off in sandbox"
    BACKING_OFF_GRADING = "backing off in grading"
    SANDBOX_GONE = "sandbox gone"
    """The disposal of the agent's sandbox is over, or it was set aside for a person to look at: it holds no gate."""
    GRADING_QUEUED = "grading queued"
    """Waits for the permits of a fresh grading sandbox; nothing of it executes."""
    GRADING = "grading"
    """Grading under permits of its own, which were granted."""
    BETWEEN_TRIES = "between tries"
    """The try is over, and another one is to come."""
    CANCELLING = "cancelling"
    """Was told to stop; whatever it reports until its end changes nothing."""
    ENDED = "ended"


class Step(StrEnum):
    """What can happen to a try: what it reports, and what the scheduler does to it (GRANT, CANCEL)."""

    IMAGE_WAIT = "image waited for"
    AGENT_SANDBOX_OPENED = "agent sandbox opened"
    GRADE_SANDBOX_OPENED = "grade sandbox opened"
    SANDBOX_DISPOSED = "sandbox disposed"
    PHASE_STARTED = "phase started"
    GRADE_STARTED = "phase grade started"
    PHASE_ENDED = "phase ended"
    DISPOSE_STARTED = "phase dispose started"
    DISPOSE_ENDED = "phase dispose ended"
    CHECKPOINTED = "work checkpointed"
    ISSUE_RAISED = "issue raised"
    QUEUE_GRADING = "grading queued"
    BACK_OFF = "backoff started"
    BACKED_OFF = "backoff ended"
    GRANT = "grading granted"
    RESUME = "resumed"
    RETRY = "another try decided"
    START_AGAIN = "another try started"
    CANCEL = "cancelled"
    TRY_ENDED = "try ended"


_BEGINS = {Phase.GRADE: Step.GRADE_STARTED, Phase.DISPOSE: Step.DISPOSE_STARTED}

_STEPS: dict[type[TryEvent], Step | Callable[[Any], Step]] = {
    SandboxOpened: lambda event: (
        Step.AGENT_SANDBOX_OPENED if event.purpose is Purpose.AGENT else Step.GRADE_SANDBOX_OPENED
    ),
    SandboxDisposed: Step.SANDBOX_DISPOSED,
    SandboxKept: Step.SANDBOX_DISPOSED,  # it is gone from the try
    ImageWaitStarted: Step.IMAGE_WAIT,
    ImageWaitEnded: Step.IMAGE_WAIT,
    PhaseStarted: lambda event: _BEGINS.get(event.phase, Step.PHASE_STARTED),
    PhaseEnded: lambda event: Step.DISPOSE_ENDED if event.phase is Phase.DISPOSE else Step.PHASE_ENDED,
    WorkCheckpointed: Step.CHECKPOINTED,
    GradingQueued: Step.QUEUE_GRADING,
    BackoffStarted: Step.BACK_OFF,
    BackoffEnded: Step.BACKED_OFF,
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


class Kind(NamedTuple):
    """What decides which life a try has: where it is graded, whether grading asks for permits of its own, a lane.

    A try that only grades (spec 05 T3) begins with grading, under permits of its own.
    """

    mode: GradingMode
    apart: bool
    lane: bool
    only: bool = False


_BACKOFFS: Mapping[State, State] = {
    State.WORKING: State.BACKING_OFF,
    State.IN_SANDBOX: State.BACKING_OFF_IN_SANDBOX,
    State.GRADING: State.BACKING_OFF_GRADING,
}
"""Where a try stands while it waits inside."""


_DYING = (Step.DISPOSE_STARTED, Step.DISPOSE_ENDED, Step.PHASE_ENDED)
"""What a try that died while it waited reports: it disposes and ends without the word to go on."""


def _common() -> Table:
    s, t = State, Step
    executing = (s.WORKING, s.IN_SANDBOX, s.SANDBOX_GONE)
    phases = (t.PHASE_STARTED, t.PHASE_ENDED, t.DISPOSE_STARTED)
    table = _stay(executing, (*phases, t.SANDBOX_DISPOSED, t.ISSUE_RAISED, t.CHECKPOINTED))
    table[s.WORKING, t.IMAGE_WAIT] = s.WORKING
    table[s.WORKING, t.AGENT_SANDBOX_OPENED] = s.IN_SANDBOX
    for state in executing:  # where none was opened, or again at the end of the try, there is nothing left to go
        table[state, t.DISPOSE_ENDED] = s.SANDBOX_GONE
        table[state, t.CANCEL] = s.CANCELLING
        table[state, t.TRY_ENDED] = s.ENDED
    for state in (s.WORKING, s.IN_SANDBOX):
        table |= _backoff(state)
    table |= _ends(State.WORKING)
    return table | _stay((s.CANCELLING,), (t.AGENT_SANDBOX_OPENED, t.CHECKPOINTED))


def _ends(begin: State) -> Table:
    """Return what is common to all tries from the word to stop on, and between two tries; `begin` is how one begins."""
    s, t = State, Step
    # The sandbox may have opened, or the agent may have finished, just before the word to stop arrived.
    ours = {t.GRANT, t.CANCEL, t.RESUME, t.RETRY, t.START_AGAIN, t.TRY_ENDED}
    not_of_all = {t.QUEUE_GRADING, t.AGENT_SANDBOX_OPENED, t.GRADE_SANDBOX_OPENED, t.CHECKPOINTED}
    table = _stay((s.CANCELLING,), set(t) - ours - not_of_all)
    table[s.CANCELLING, t.TRY_ENDED] = s.ENDED
    table[s.ENDED, t.RETRY] = s.BETWEEN_TRIES
    table[s.BETWEEN_TRIES, t.SANDBOX_DISPOSED] = s.BETWEEN_TRIES
    table[s.BETWEEN_TRIES, t.CANCEL] = s.ENDED
    table[s.BETWEEN_TRIES, t.START_AGAIN] = begin
    return table


def _backoff(state: State) -> Table:
    s, t = State, Step
    waits = _BACKOFFS[state]
    table = _stay((waits,), (t.BACKED_OFF, t.SANDBOX_DISPOSED, t.ISSUE_RAISED, *_DYING))
    table[state, t.BACK_OFF] = waits
    table[waits, t.RESUME] = state
    table[waits, t.CANCEL] = s.CANCELLING
    table[waits, t.TRY_ENDED] = s.ENDED
    return table


def _apart(kind: Kind) -> Table:
    """Return what is more where grading asks for permits of its own."""
    s, t = State, Step
    table: Table = {}
    for state in (s.WORKING, s.SANDBOX_GONE, *((s.IN_SANDBOX,) if kind.lane else ())):
        table[state, t.QUEUE_GRADING] = s.GRADING_QUEUED
    table |= _stay((s.GRADING_QUEUED,), (t.SANDBOX_DISPOSED, t.ISSUE_RAISED, *_DYING))
    table[s.GRADING_QUEUED, t.GRANT] = s.GRADING
    table[s.GRADING_QUEUED, t.CANCEL] = s.CANCELLING
    table[s.GRADING_QUEUED, t.TRY_ENDED] = s.ENDED
    table[s.CANCELLING, t.QUEUE_GRADING] = s.CANCELLING
    return table | _grading(kind)


def _grading(kind: Kind) -> Table:
    """Return what can happen while it is graded under permits of its own."""
    s, t = State, Step
    reported = (t.PHASE_STARTED, t.PHASE_ENDED, t.DISPOSE_STARTED, t.SANDBOX_DISPOSED, t.ISSUE_RAISED)
    table = _stay((s.GRADING,), (*reported, t.GRADE_STARTED, t.DISPOSE_ENDED))
    if kind.mode is GradingMode.FRESH:
        table |= _stay((s.GRADING, s.CANCELLING), (t.IMAGE_WAIT, t.GRADE_SANDBOX_OPENED))
    table[s.GRADING, t.CANCEL] = s.CANCELLING
    table[s.GRADING, t.TRY_ENDED] = s.ENDED
    return table | _backoff(s.GRADING)


def _table(kind: Kind) -> Table:
    s = State
    if kind.only:
        return _ends(s.GRADING) | _grading(kind)
    if kind.apart:
        return _common() | _apart(kind)
    if kind.mode is GradingMode.REUSE:
        return _common() | _stay((s.WORKING, s.IN_SANDBOX), (Step.GRADE_STARTED,))
    states = (s.WORKING, s.SANDBOX_GONE, *((s.IN_SANDBOX,) if kind.lane else ()))
    return _common() | _stay(states, (Step.GRADE_STARTED,))


KINDS = tuple(
    Kind(mode, apart, lane)
    for mode in GradingMode
    for apart in (False, True)
    for lane in (False, True)
    if not (mode is GradingMode.FRESH and not apart) and not (mode is GradingMode.REUSE and apart)
) + tuple(Kind(mode, apart=True, lane=False, only=True) for mode in (GradingMode.NONE, GradingMode.FRESH))

TRANSITIONS: Mapping[Kind, Table] = {kind: _table(kind) for kind in KINDS}
"""All that can happen, by the kind of a try."""


def kind_of(mode: GradingMode, *, judged: bool = False, lane: bool = False, only: bool = False) -> Kind:
    """Return the kind of tries with a grading mode; `judged` says that a model judges, `only` that they only grade."""
    if only:
        return Kind(mode, apart=True, lane=False, only=True)
    return Kind(mode, mode is GradingMode.FRESH or (judged and mode is GradingMode.NONE), lane)


def advance(kind: Kind, state: State, step: Step) -> State:
    """Return the state after `step`; raises `InternalError` for a step that cannot happen there."""
    after = TRANSITIONS[kind].get((state, step))
    if after is None:
        only = " only" if kind.only else ""
        raise InternalError(f"a try with{only} grading {kind.mode} that is `{state}` cannot have `{step}`")
    return after
