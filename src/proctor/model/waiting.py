"""What queued attempts wait for: the gates of the scheduler, as displays name them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Gate(StrEnum):
    """What may hold a queued attempt back, in the order in which it is looked at."""

    CONCURRENCY = "concurrency"
    """As many attempts execute as may at a time (G1)."""
    EXPERIMENT = "experiment"
    """The experiment's own cap (G2)."""
    PROVIDER = "provider"
    """Sandboxes at a provider (G3)."""
    OPEN_RATE = "open rate"
    """Openings at a provider are at least so far apart (G4)."""
    EXCLUSIVE = "exclusive"
    """A provider that is right only one at a time (G5)."""
    SAME_TASK = "same task"
    """Another attempt of its task is in flight, and they may not overlap (G6)."""
    LANE = "lane"
    """Every sandbox that it may use has an attempt in it (G7)."""
    SETUP = "setup"
    """The setup of its experiment has not finished (G8)."""
    LEASE = "lease"
    """The shared state of its experiment is held by somebody else (G9)."""
    HOST = "host"
    """CPUs or memory of this machine (G10)."""
    MODEL = "model"
    """Attempts that use a model endpoint at a time (G11)."""
    MODEL_RATE = "request rate"
    """Starts of attempts that use a model endpoint, in a minute (G11)."""
    BUDGET = "budget"
    """What is in flight may use up the rest of the budget (E4)."""
    BACKOFF = "backoff"
    """So many attempts back off on its endpoint that nothing new is sent there (B2)."""
    EARLY_EXIT = "early exit"
    """Another attempt of its task is in flight and may solve it (E3)."""
    RESERVED = "reserved"
    """What it needs is kept for an attempt that was overtaken too often (O4)."""
    DECIDED = "just decided"
    """The scheduler has started it or given it up, and that is being written."""


class Waiting(NamedTuple):
    """How many queued attempts of one experiment wait for one gate.

    `name` says which gate of its kind: a provider, a model, an experiment, the key of a lease, a resource of the host;
    empty where there is only one. `held` of `limit` permits are in use, both None where the gate has no number.
    """

    experiment: str
    gate: Gate
    name: str
    slots: int
    held: int | None = None
    limit: int | None = None

    @property
    def key(self) -> str:
        """The gate as one text, such as `provider docker` or `lane`: what is kept of it beside a number."""
        return f"{self.gate} {self.name}" if self.name else self.gate.value


def gate_of(key: str) -> Gate | None:
    """Return which gate a `Waiting.key` is of; None where it is of no known one."""
    kinds = [gate for gate in Gate if key == gate or key.startswith(f"{gate} ")]
    return max(kinds, key=len, default=None)
