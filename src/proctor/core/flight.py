"""What is kept of an attempt in flight. Only `core.scheduler` and its parts change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proctor.core.gates import Demand
from proctor.core.held import HELD, Kind, Moment
from proctor.core.lifecycle import Step, advance
from proctor.core.waits import Ask, Endpoint
from proctor.model.attempt import TryResult
from proctor.model.events import StopReason
from proctor.model.ids import AttemptId, SlotKey

if TYPE_CHECKING:
    from proctor.core.lanes import Lane
    from proctor.core.parts import Part

STORY_LENGTH = 16
"""So many of its last events are told of an attempt to which something impossible happened."""


class Attempt:
    """What is kept of one attempt in flight. In a lane the lane holds what the sandbox needs."""

    __slots__ = (
        "awaits_lane", "backing_off", "cancelled", "checkpointed", "executing_since", "held", "id", "lane", "last",
        "let_through", "moment", "ordinal", "part", "resume", "row", "run", "seconds", "slot", "slots", "spent",
        "state", "story", "task", "try_number",
    )  # fmt: skip

    def __init__(self, attempt: AttemptId, part: Part, row: int, place: int) -> None:
        self.id = attempt
        self.run = run = part.run
        self.part = part
        """Of its try, or of the next one while it waits for that."""
        self.slots, self.row = part.slots, row
        """Where its slot was taken from; the part may be another one in a later try."""
        self.task, self.ordinal = (row, place) if part.names is None else part.names.slot(row, place)
        self.slot: SlotKey = run.plan.slot(self.task, self.ordinal)
        self.try_number = 1
        self.state = part.begins
        self.moment = part.moment
        self.held: dict[Kind, Demand] = {}
        self.lane: Lane | None = None
        self.backing_off: Endpoint | None = None
        self.resume: Ask = part.resume
        self.last: TryResult | None = None
        """How the try before ended, while the attempt waits for another."""
        self.let_through = False
        """Whether its next try is paid for by the budget, and waits for a lane or for permits."""
        self.awaits_lane = False
        """Whether its next try waits for the sandbox of its lane to be gone."""
        self.checkpointed = False
        """Whether what the agent did was saved, so that grading can be tried again without it."""
        self.cancelled: StopReason | None = None
        self.spent = 0
        self.executing_since: float | None = None
        self.seconds = 0.0
        self.story: list[tuple[float, object]] = []
        """What happened to it; only its end is told, so that what is older may go."""

    def advance(self, step: Step) -> None:
        """Take a step in the life of the try; raises `InternalError`, without the story, if it cannot be."""
        after = self.part.transitions.get((self.state, step))
        self.state = advance(self.part.kind, self.state, step) if after is None else after

    def tells(self, now: float, happened: object) -> None:
        """Note what happened, for its story."""
        story = self.story
        story.append((now, happened))
        if len(story) >= 4 * STORY_LENGTH:
            del story[:-STORY_LENGTH]

    def returned(self, moment: Moment) -> list[Demand]:
        """Go to another moment; return what is not held there, by the table."""
        self.moment = moment
        held = self.held
        keeps = HELD[moment]
        return [held.pop(kind) for kind in tuple(held) if kind not in keeps]

    def pauses(self, now: float) -> None:
        """Note that it does not execute from now on."""
        if self.executing_since is not None:
            self.seconds += now - self.executing_since
            self.executing_since = None

    def tell(self) -> str:
        """Return the story of the attempt: where it stands, what it holds, and what happened last."""
        slot = self.slot
        held = {str(kind): demand for kind, demand in self.held.items()}
        lines = [f"@{self.id} ({slot.experiment} {slot}, try {self.try_number}) is `{self.state}`, holds {held}:"]
        lines += [f"  {moment:.3f} {happened}" for moment, happened in self.story[-STORY_LENGTH:]]
        return "\n".join(lines)
