"""Lanes: one sandbox in which attempts run one after another (spec 03 L0 to L5)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from proctor.core.gates import Demand
from proctor.core.schedule import GroupPlan

if TYPE_CHECKING:
    from proctor.core.flight import Attempt
    from proctor.core.parts import Part


class Lane:
    """One lane, from the start of its first attempt until its sandbox is gone."""

    __slots__ = ("attempt", "closing", "gone", "has_sandbox", "held", "id", "opened_at", "pool")

    def __init__(self, lane: str, pool: LanePool, held: Demand, now: float) -> None:
        self.id = lane
        self.pool = pool
        self.held = held
        """What its sandbox takes, and the cap of its experiment, until it is gone."""
        self.opened_at = now
        self.attempt: Attempt | None = None
        """What runs in it, or waits for another try in it."""
        self.has_sandbox = False
        """Whether its sandbox was opened: a try that only grades opens none."""
        self.closing = False
        self.gone = False
        """Whether its sandbox is gone and it only keeps the permits for another try, which opens the next lane."""


class LanePool:
    """The lanes of one part of an experiment: up to `width` of them, or the one of a task group."""

    __slots__ = ("group", "idle", "lanes", "part", "width")

    def __init__(self, part: Part, width: int, group: GroupPlan | None) -> None:
        self.part = part
        self.width = width
        self.group = group
        self.lanes: dict[str, Lane] = {}
        """All that are not gone."""
        self.idle: deque[Lane] = deque()

    def may_open(self) -> bool:
        """Say whether there may be another lane."""
        return len(self.lanes) < self.width

    def allows(self, *, in_lane: bool) -> bool:
        """Say whether an attempt may start in an idle lane, or else by opening one, which it may where none is idle."""
        return bool(self.idle) if in_lane else not self.idle and self.may_open()

    def begin(self, lane: str, held: Demand, now: float) -> Lane:
        """Begin a lane."""
        begun = self.lanes[lane] = Lane(lane, self, held, now)
        return begun

    def outlived(self, lane: Lane, expected_seconds: float, now: float) -> bool:
        """Say whether the sandbox would reach the end of its life during an attempt of that length (L4)."""
        lifetime = self.part.run.plan.lifetime_seconds
        return lifetime is not None and now - lane.opened_at + expected_seconds > lifetime

    def leave(self, lane: Lane) -> None:
        """Take a lane out of the idle ones and mark it as closing."""
        if lane in self.idle:
            self.idle.remove(lane)
        lane.closing = True
