"""The table of a try's life, by enumeration."""

from __future__ import annotations

import itertools

import pytest

from proctor.core.lifecycle import TRANSITIONS, State, Step, advance, step_of
from proctor.errors import InternalError
from proctor.model.attempt import NO_USAGE, GradingMode, Outcome, Phase, TryResult, issue_of
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    WorkCheckpointed,
)

NONE, FRESH, REUSE = GradingMode.NONE, GradingMode.FRESH, GradingMode.REUSE
ALL = list(itertools.product(GradingMode, State, Step))

LEGAL = """
               WORKING   IN_SANDBOX  SANDBOX_GONE  GRADING_QUEUED  GRADING  CANCELLING  ENDED
AGENT_SANDBOX_OPENED  nfr  -  -  -  -  nfr  -
GRADE_SANDBOX_OPENED  -  -  -  -  f  f  -
SANDBOX_DISPOSED  nfr  nfr  nfr  f  f  nfr  -
PHASE_STARTED  nfr  nfr  nfr  -  f  nfr  -
GRADE_STARTED  nr  r  n  -  f  nfr  -
PHASE_ENDED  nfr  nfr  nfr  -  f  nfr  -
DISPOSE_ENDED  nfr  nfr  nfr  -  f  nfr  -
CHECKPOINTED  nfr  nfr  nfr  -  -  nfr  -
ISSUE_RAISED  nfr  nfr  nfr  f  f  nfr  -
QUEUE_GRADING  f  -  f  -  -  f  -
GRANT  -  -  -  f  -  -  -
CANCEL  nfr  nfr  nfr  f  f  -  -
TRY_ENDED  nfr  nfr  nfr  f  f  nfr  -
"""
"""In which modes (n: none, f: fresh, r: reuse) a step can happen in a state."""


def legal() -> set[tuple[GradingMode, State, Step]]:
    header, *rows = LEGAL.strip().splitlines()
    modes = {"n": NONE, "f": FRESH, "r": REUSE}
    found = set()
    for row in rows:
        step, *cells = row.split()
        for state, cell in zip(header.split(), cells, strict=True):
            found |= {(modes[letter], State[state], Step[step]) for letter in cell if letter != "-"}
    return found


MOVES = {
    Step.AGENT_SANDBOX_OPENED: State.IN_SANDBOX,
    Step.DISPOSE_ENDED: State.SANDBOX_GONE,
    Step.QUEUE_GRADING: State.GRADING_QUEUED,
    Step.GRANT: State.GRADING,
    Step.CANCEL: State.CANCELLING,
    Step.TRY_ENDED: State.ENDED,
}
"""Steps that move a try on; all others leave it where it is."""


def test_every_pair_of_state_and_step_is_decided_as_drawn():
    drawn = legal()
    for mode, state, step in ALL:
        if (mode, state, step) not in drawn:
            with pytest.raises(InternalError, match="cannot have"):
                advance(mode, state, step)
            continue
        after = advance(mode, state, step)
        stays = state in (State.CANCELLING, State.GRADING) and step is not Step.TRY_ENDED and step is not Step.CANCEL
        assert after is (state if stays else MOVES.get(step, state)), (mode, state, step)


def test_the_end_can_be_reached_from_everywhere_and_is_final():
    for mode, table in TRANSITIONS.items():
        states = {state for state, _ in table} | set(table.values())
        for state in states - {State.ENDED}:
            assert table[state, Step.TRY_ENDED] is State.ENDED
            assert state is State.CANCELLING or table[state, Step.CANCEL] is State.CANCELLING
        assert not [step for state, step in table if state is State.ENDED]
        assert (State.GRADING in states) == (mode is FRESH)


def test_a_sandbox_opens_only_where_a_permit_of_its_provider_is_held():
    """WORKING holds the agent's permit, GRADING the grader's; the sandbox that is gone has given its permit back."""
    for mode, state, step in ALL:
        if step in (Step.AGENT_SANDBOX_OPENED, Step.GRADE_SANDBOX_OPENED) and (state, step) in TRANSITIONS[mode]:
            assert state in (State.WORKING, State.GRADING, State.CANCELLING)


def test_hidden_tests_never_meet_a_running_agent_unless_grading_is_declared_to_happen_there():
    for mode, table in TRANSITIONS.items():
        assert ((State.IN_SANDBOX, Step.GRADE_STARTED) in table) == (mode is REUSE)
        assert (State.IN_SANDBOX, Step.QUEUE_GRADING) not in table


@pytest.mark.parametrize(
    ("event", "step"),
    [
        (SandboxOpened("a", 1, "s", Purpose.AGENT), Step.AGENT_SANDBOX_OPENED),
        (SandboxOpened("a", 1, "s", Purpose.GRADE), Step.GRADE_SANDBOX_OPENED),
        (SandboxDisposed("a", "s"), Step.SANDBOX_DISPOSED),
        (PhaseStarted("a", Phase.AGENT), Step.PHASE_STARTED),
        (PhaseStarted("a", Phase.DISPOSE), Step.PHASE_STARTED),
        (PhaseStarted("a", Phase.GRADE), Step.GRADE_STARTED),
        (PhaseEnded("a", Phase.GRADE, 1.0), Step.PHASE_ENDED),
        (PhaseEnded("a", Phase.DISPOSE, 1.0), Step.DISPOSE_ENDED),
        (WorkCheckpointed("a", 1, None, NO_USAGE), Step.CHECKPOINTED),
        (GradingQueued("a"), Step.QUEUE_GRADING),
        (IssueRaised("a", issue_of("internal", "x")), Step.ISSUE_RAISED),
        (TryEnded("a", 1, TryResult(Outcome.CANCELLED)), Step.TRY_ENDED),
    ],
)
def test_every_event_of_a_try_is_a_step(event, step):
    assert step_of(event) is step
