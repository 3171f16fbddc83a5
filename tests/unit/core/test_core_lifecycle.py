"""The table of a try's life, by enumeration."""

from __future__ import annotations

import itertools

import pytest

from proctor.core.lifecycle import TRANSITIONS, Kind, State, Step, advance, kind_of, step_of
from proctor.errors import InternalError
from proctor.model.attempt import NO_USAGE, GradingMode, Outcome, Phase, TryResult, issue_of
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
    WorkCheckpointed,
)

NONE, FRESH, REUSE = GradingMode.NONE, GradingMode.FRESH, GradingMode.REUSE
LETTERS = {
    "n": kind_of(NONE), "f": kind_of(FRESH), "r": kind_of(REUSE), "j": kind_of(NONE, judged=True),
    "N": kind_of(NONE, only=True), "F": kind_of(FRESH, only=True),
}  # fmt: skip
ALL = list(itertools.product(LETTERS.values(), State, Step))

LEGAL = """
          WORKING IN_SANDBOX SANDBOX_GONE BACKING_OFF BACKING_OFF_IN_SANDBOX BACKING_OFF_GRADING GRADING_QUEUED GRADING CANCELLING BETWEEN_TRIES ENDED
IMAGE_WAIT  nfrj  -  -  -  -  -  -  fF  nfrjNF  -  -
AGENT_SANDBOX_OPENED  nfrj  -  -  -  -  -  -  -  nfrj  -  -
GRADE_SANDBOX_OPENED  -  -  -  -  -  -  -  fF  fF  -  -
SANDBOX_DISPOSED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  nfrjNF  -
PHASE_STARTED  nfrj  nfrj  nfrj  -  -  -  -  fjNF  nfrjNF  -  -
GRADE_STARTED  nr  r  n  -  -  -  -  fjNF  nfrjNF  -  -
PHASE_ENDED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  -  -
DISPOSE_STARTED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  -  -
DISPOSE_ENDED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  -  -
CHECKPOINTED  nfrj  nfrj  nfrj  -  -  -  -  -  nfrj  -  -
ISSUE_RAISED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  -  -
QUEUE_GRADING  fj  -  fj  -  -  -  -  -  fj  -  -
BACK_OFF  nfrj  nfrj  -  -  -  -  -  fjNF  nfrjNF  -  -
BACKED_OFF  -  -  -  nfrj  nfrj  fjNF  -  -  nfrjNF  -  -
GRANT  -  -  -  -  -  -  fj  -  -  -  -
RESUME  -  -  -  nfrj  nfrj  fjNF  -  -  -  -  -
RETRY  -  -  -  -  -  -  -  -  -  -  nfrjNF
START_AGAIN  -  -  -  -  -  -  -  -  -  nfrjNF  -
CANCEL  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  -  nfrjNF  -
TRY_ENDED  nfrj  nfrj  nfrj  nfrj  nfrj  fjNF  fj  fjNF  nfrjNF  -  -
"""  # noqa: E501
"""In which modes (n: none, f: fresh, r: reuse, j: none with a judge, N, F: only grading) a step can be in a state."""


def legal() -> set[tuple[Kind, State, Step]]:
    header, *rows = LEGAL.strip().splitlines()
    found = set()
    for row in rows:
        step, *cells = row.split()
        for state, cell in zip(header.split(), cells, strict=True):
            found |= {(LETTERS[letter], State[state], Step[step]) for letter in cell if letter != "-"}
    return found


def test_every_pair_of_state_and_step_is_decided_as_drawn():
    drawn = legal()
    for kind, state, step in ALL:
        if (kind, state, step) in drawn:
            advance(kind, state, step)
        else:
            with pytest.raises(InternalError, match="cannot have"):
                advance(kind, state, step)


MOVES = {
    Step.AGENT_SANDBOX_OPENED: State.IN_SANDBOX,
    Step.QUEUE_GRADING: State.GRADING_QUEUED,
    Step.GRANT: State.GRADING,
    Step.TRY_ENDED: State.ENDED,
    Step.RETRY: State.BETWEEN_TRIES,
    Step.START_AGAIN: State.WORKING,
}


def test_steps_lead_where_they_say():
    for kind, state, step in legal():
        after = advance(kind, state, step)
        if state is State.CANCELLING and step is not Step.TRY_ENDED:
            assert after is state
        elif step is Step.START_AGAIN and kind.only:
            assert after is State.GRADING
        elif step in MOVES and not (step is Step.AGENT_SANDBOX_OPENED and state is State.CANCELLING):
            assert after is MOVES[step], (kind, state, step)
    assert advance(LETTERS["f"], State.GRADING, Step.GRADE_SANDBOX_OPENED) is State.GRADING


def test_T3_a_try_that_only_grades_never_meets_the_agent_or_its_sandbox():
    for mode in (NONE, FRESH):
        table = TRANSITIONS[kind_of(mode, only=True)]
        never = {Step.AGENT_SANDBOX_OPENED, Step.CHECKPOINTED, Step.QUEUE_GRADING, Step.GRANT}
        assert not {step for _, step in table} & never
        of_agent = {State.WORKING, State.IN_SANDBOX, State.SANDBOX_GONE, State.GRADING_QUEUED}
        assert not {state for state, _ in table} & of_agent


@pytest.mark.parametrize("state", [State.WORKING, State.IN_SANDBOX, State.GRADING])
def test_B1_a_resume_leads_back_to_where_the_backoff_began(state):
    kind = kind_of(FRESH)
    waits = advance(kind, state, Step.BACK_OFF)
    assert advance(kind, advance(kind, waits, Step.BACKED_OFF), Step.RESUME) is state


def test_the_end_can_be_reached_from_everywhere_and_leads_to_another_try_at_most():
    for table in TRANSITIONS.values():
        states = {state for state, _ in table} | set(table.values())
        for state in states - {State.ENDED, State.BETWEEN_TRIES}:
            assert table[state, Step.TRY_ENDED] is State.ENDED
            assert state is State.CANCELLING or table[state, Step.CANCEL] is State.CANCELLING
        assert table[State.BETWEEN_TRIES, Step.CANCEL] is State.ENDED
        assert [step for state, step in table if state is State.ENDED] == [Step.RETRY]


def test_a_sandbox_opens_only_where_a_permit_of_its_provider_is_held():
    """WORKING holds the agent's permit, GRADING the grader's; the sandbox that is gone has given its permit back."""
    for table in TRANSITIONS.values():
        for state, step in table:
            if step in (Step.AGENT_SANDBOX_OPENED, Step.GRADE_SANDBOX_OPENED):
                assert state in (State.WORKING, State.GRADING, State.CANCELLING)


def test_hidden_tests_never_meet_a_running_agent_unless_grading_is_declared_to_happen_there():
    for kind, table in TRANSITIONS.items():
        if not kind.lane:  # there the sandbox stays, and the agent in it has ended
            assert ((State.IN_SANDBOX, Step.GRADE_STARTED) in table) == (kind.mode is REUSE)
            assert (State.IN_SANDBOX, Step.QUEUE_GRADING) not in table


@pytest.mark.parametrize(
    ("event", "step"),
    [
        (SandboxOpened("a", 1, "s", Purpose.AGENT), Step.AGENT_SANDBOX_OPENED),
        (SandboxOpened("a", 1, "s", Purpose.GRADE), Step.GRADE_SANDBOX_OPENED),
        (SandboxDisposed("a", "s"), Step.SANDBOX_DISPOSED),
        (SandboxKept("a", 1, "s", Purpose.AGENT, "local"), Step.SANDBOX_DISPOSED),
        (ImageWaitStarted("a", "alpine"), Step.IMAGE_WAIT),
        (ImageWaitEnded("a", 1.0), Step.IMAGE_WAIT),
        (PhaseStarted("a", Phase.AGENT), Step.PHASE_STARTED),
        (PhaseStarted("a", Phase.DISPOSE), Step.DISPOSE_STARTED),
        (PhaseStarted("a", Phase.GRADE), Step.GRADE_STARTED),
        (PhaseEnded("a", Phase.GRADE, 1.0), Step.PHASE_ENDED),
        (PhaseEnded("a", Phase.DISPOSE, 1.0), Step.DISPOSE_ENDED),
        (WorkCheckpointed("a", 1, None, NO_USAGE), Step.CHECKPOINTED),
        (GradingQueued("a"), Step.QUEUE_GRADING),
        (BackoffStarted("a", "model.overloaded", 1.0), Step.BACK_OFF),
        (BackoffEnded("a", 1.0), Step.BACKED_OFF),
        (IssueRaised("a", issue_of("internal", "x")), Step.ISSUE_RAISED),
        (TryEnded("a", 1, TryResult(Outcome.CANCELLED)), Step.TRY_ENDED),
    ],
)
def test_every_event_of_a_try_is_a_step(event, step):
    assert step_of(event) is step
