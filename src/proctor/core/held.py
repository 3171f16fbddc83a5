"""What an attempt holds when (spec 03): the table, as data. The scheduler gives back by it and takes by it.

In a lane the lane holds what `BOX` and `EXPERIMENT` stand for; an attempt in it never does, so no cell changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """Permits that come and go together."""

    GLOBAL = "global"
    EXPERIMENT = "experiment"
    BOX = "provider, exclusive, host"
    TASK = "same-task, lease"
    MODEL = "model"
    LANE = "lane"


class Moment(StrEnum):
    """Where an attempt stands, as far as permits go: the columns of the table."""

    WAITING = "waiting to be dispatched"
    PACING = "pacing of a first open"
    EXECUTING = "executing"
    BACKING_OFF = "backoff inside a try"
    BETWEEN_TRIES = "backoff between tries"
    AWAITING_GRADING = "waiting for grading's vector"
    GRADING_FRESH = "grading fresh"
    GRADING_JUDGED = "grading none with a model judge"
    GRADING_NONE = "grading none"
    DISPOSING = "disposing"
    ENDED = "ended"


_THROUGHOUT = frozenset({Kind.EXPERIMENT, Kind.TASK, Kind.LANE})
"""From dispatch to the end."""

HELD: Mapping[Moment, frozenset[Kind]] = {
    Moment.WAITING: frozenset(),
    Moment.PACING: frozenset(),
    Moment.EXECUTING: _THROUGHOUT | {Kind.GLOBAL, Kind.BOX, Kind.MODEL},
    Moment.BACKING_OFF: _THROUGHOUT | {Kind.BOX, Kind.MODEL},
    Moment.BETWEEN_TRIES: _THROUGHOUT,
    Moment.AWAITING_GRADING: _THROUGHOUT,
    # What grading holds is a vector of its own: its provider's permit and the judge's, not those of the agent.
    Moment.GRADING_FRESH: _THROUGHOUT | {Kind.GLOBAL, Kind.BOX, Kind.MODEL},
    Moment.GRADING_JUDGED: _THROUGHOUT | {Kind.GLOBAL, Kind.MODEL},
    Moment.GRADING_NONE: _THROUGHOUT | {Kind.GLOBAL},
    Moment.DISPOSING: _THROUGHOUT | {Kind.GLOBAL, Kind.BOX},
    Moment.ENDED: frozenset(),
}
"""What is held at each moment; a sandbox that is kept after the end holds nothing but, through its run, the lease."""
