"""Those tasks of an experiment that ask for the same. Only `core.scheduler` and its parts change it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Protocol

from proctor.core.gates import NOTHING, Demand
from proctor.core.held import Moment
from proctor.core.lifecycle import TRANSITIONS, Kind, State, kind_of
from proctor.core.order import Place, Slots
from proctor.core.rank import GateWork, Line
from proctor.core.schedule import ExperimentPlan
from proctor.core.waits import Ask, Endpoint
from proctor.model.attempt import GradingMode

if TYPE_CHECKING:
    from proctor.core.lanes import LanePool
    from proctor.core.run import Run


class Names(Protocol):
    """Tells which slot it is that a row of a table stands for."""

    def slot(self, row: int, place: int) -> tuple[int, int]:
        """Return the task and the ordinal of the slot at a place of a row."""
        ...


class Part:
    """Those tasks of an experiment that ask for the same permits, with all that their attempts ever ask for."""

    __slots__ = (
        "_known", "_regrading", "begins", "box", "endpoints", "found", "gates", "grading", "kind", "lanes", "lines",
        "moment", "names", "opening", "reckoned", "resume", "retry", "run", "slots", "start", "table", "transitions",
        "whole", "work",
    )  # fmt: skip

    def __init__(self, run: Run, slots: Slots, asks: Asks) -> None:
        self.run = run
        self.slots = slots
        self.table = run.table
        """Of the slots."""
        self.names: Names | None = None
        """What tells which slot it is that a row of the table stands for; None where rows are tasks."""
        self.start = asks.start
        """For a first try; in a lane, for a try in a lane that is open."""
        self.retry = asks.retry
        self.opening = asks.opening
        """For a first try that opens a lane: its own ask and the lane's."""
        self.box = asks.box
        """What a lane holds as long as it lives."""
        self.grading = asks.grading
        """For grading with a vector of its own; None where grading has none."""
        self.resume = asks.resume
        plan = run.plan
        self.kind: Kind = kind_of(plan.grading, judged=plan.judge is not None, lane=asks.opening is not None)
        self.transitions = TRANSITIONS[self.kind]
        self.begins = State.WORKING
        """The state in which its tries begin, and the moment."""
        self.moment = Moment.EXECUTING
        self.lanes: LanePool | None = None
        self.lines: list[Line] = []
        self.found: list[tuple[int, int, Place | None]] = [(-1, 0, None), (-1, 0, None)]
        """The first slot of each tier in its own order, as it was last looked for, with what that depends on."""
        self.work = 0
        """What is expected of its queued slots, all together."""
        self.reckoned = -1
        """The version of the slots for which that holds."""
        self._known = False
        """Whether the gates were told of that work in microseconds."""
        self.endpoints: tuple[Endpoint, ...] = ()
        """The provider and the model endpoints that its attempts use, that of its grading included."""
        self.gates: tuple[tuple[GateWork, int], ...] = ()
        """Limited gates that are shared between experiments, with the permits that an attempt takes there."""
        self.whole: Part = self
        """The part as it is for tries that do all the work."""
        self._regrading: Part | None = None

    @property
    def regrading(self) -> Part:
        """The part as it is for tries that only grade (spec 05 T3): they ask for grading's vector, use only what
        grading uses, and live as long as grading does.
        """
        made = self.whole._regrading
        if made is None:
            made = self.whole._regrading = copy(self.whole)
            made.kind = kind_of(self.run.plan.grading, only=True)
            made.transitions = TRANSITIONS[made.kind]
            made.begins, made.moment = State.GRADING, _moment_of(self.run.plan)
            made.lines, made.found, made.gates = [], [(-1, 0, None), (-1, 0, None)], ()
            made.work, made.reckoned, made._known = 0, -1, False
            made.start = made.retry = self.grading or self.resume
            made.endpoints = made.start.endpoints
        return made

    def reckon(self, fallback: int, known: bool) -> None:
        """Reckon the work anew, and tell the gates how much of it waits for them."""
        slots = self.slots
        self.reckoned = slots.version
        work, before, was_known = slots.known + slots.unknown * fallback, self.work, self._known
        if work == before and was_known is known:
            return
        self.work, self._known = work, known
        for gate, weight in self.gates:
            if was_known is known:
                gate.add((work - before) * weight, known=known)
            else:
                gate.add(-before * weight, known=was_known)
                gate.add(work * weight, known=known)


def _moment_of(plan: ExperimentPlan) -> Moment:
    if plan.grading is GradingMode.FRESH:
        return Moment.GRADING_FRESH
    return Moment.GRADING_NONE if plan.judge is None else Moment.GRADING_JUDGED


class Asks:
    """All that attempts of one part ask for."""

    __slots__ = ("box", "grading", "opening", "resume", "retry", "start")

    def __init__(
        self,
        start: Ask,
        retry: Ask,
        resume: Ask,
        grading: Ask | None,
        *,
        opening: Ask | None = None,
        box: Demand = NOTHING,
    ) -> None:
        self.start = start
        self.retry = retry
        self.resume = resume
        self.grading = grading
        self.opening = opening
        self.box = box
