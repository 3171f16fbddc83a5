"""Why things are done and left undone, as events say it."""

from __future__ import annotations

from enum import StrEnum


class Purpose(StrEnum):
    """What a sandbox was opened for."""

    AGENT = "agent"
    GRADE = "grade"


class StopReason(StrEnum):
    """Why slots are not dispatched, and why tries are cancelled; a later member replaces an earlier one."""

    EARLY_EXIT = "early exit"
    BUDGET = "budget"
    LEASE = "lease"
    SCOPE_STOPPED = "stopped scope"
    DISK = "disk"
    INTERRUPT = "interrupt"


class Completion(StrEnum):
    """How a run ended."""

    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
