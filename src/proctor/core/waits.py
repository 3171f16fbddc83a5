"""Waiting: for a moment, for permits, for the pace of a provider; and how long to wait (spec 03 B1 to B4, G4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from proctor.core.gates import Demand
from proctor.core.held import Kind
from proctor.core.schedule import RetryPolicy
from proctor.model.ids import AttemptId


def backoff_seconds(policy: RetryPolicy, repeat: int, unit: float, retry_after_seconds: float | None = None) -> float:
    """Return how long to wait before repeat number `repeat` (from 1); `unit` in [0, 1) is the jitter.

    The wait doubles from the least to the longest delay, and is between half and all of it. A server's Retry-After is
    obeyed where it is longer, up to the cap, and ignored where it is not above 0.
    """
    exponent = min(repeat - 1, 64)
    whole = min(policy.max_delay_seconds, policy.min_delay_seconds * 2.0**exponent)
    seconds = whole * (0.5 + 0.5 * unit)
    if retry_after_seconds is not None and retry_after_seconds > 0:  # also false for NaN
        seconds = max(seconds, min(retry_after_seconds, policy.retry_after_cap_seconds))
    return seconds


class Pace:
    """Starts at least `interval_seconds` apart, no burst; a pace and not a permit (G4)."""

    __slots__ = ("interval_seconds", "name", "next_at")

    def __init__(self, name: str, interval_seconds: float) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.next_at = float("-inf")

    def take(self, now: float) -> None:
        """Note a start."""
        self.next_at = now + self.interval_seconds


class Endpoint:
    """A provider or a model endpoint, with the number of attempts that back off on it inside a try (B2)."""

    __slots__ = ("backing_off", "code", "name", "row")

    def __init__(self, name: str) -> None:
        self.name = name
        self.backing_off = 0
        self.code: str | None = None
        self.row = 0
        """So many tries in a row ended with the permanent failure `code`."""


class Ask:
    """Everything that a start needs at once: permits by kind, the paces it obeys, the endpoints it uses."""

    __slots__ = (
        "by_kind", "contested", "demand", "endpoints", "gate", "held", "key", "more", "paces", "weight", "weights",
    )  # fmt: skip

    def __init__(
        self,
        by_kind: tuple[tuple[Kind, Demand], ...],
        demand: Demand,
        paces: tuple[Pace, ...] = (),
        endpoints: tuple[Endpoint, ...] = (),
    ) -> None:
        self.by_kind = by_kind
        self.held: dict[Kind, Demand] = dict(by_kind)
        self.demand = demand
        self.paces = paces
        self.endpoints = endpoints
        names = tuple(pace.name for pace in paces), tuple(endpoint.name for endpoint in endpoints)
        self.weights = dict(demand)
        free = {gate for kind, permits in by_kind if kind is Kind.GLOBAL for gate, _ in permits}
        self.contested = frozenset(self.weights) - free
        """The gates other than that of global slots."""
        elsewhere = tuple((gate, weight) for gate, weight in demand if gate in self.contested)
        self.gate, self.weight = elsewhere[0] if elsewhere else (0, 0)
        """What it takes at the first of these, on its own since most often it is the only one."""
        self.more: Demand = elsewhere[1:]
        """What it takes at the others."""
        self.key = (by_kind, names)
        """Equal for equal asks."""

    def ready_at(self) -> float:
        """Return the moment from which the paces allow a start."""
        return max((pace.next_at for pace in self.paces), default=float("-inf"))


class Queue:
    """Attempts that go on as soon as their permits are there: first come, first served among those that fit.

    One row for each ask, so that an attempt whose provider is full holds up nobody but those behind it who ask for the
    same (03 O3).
    """

    def __init__(self) -> None:
        self.rows: dict[object, tuple[Ask, OrderedDict[AttemptId, int]]] = {}
        """Empty when nobody waits."""
        self._arrivals = 0

    def __len__(self) -> int:
        return sum(len(row) for _, row in self.rows.values())

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __iter__(self) -> Iterator[AttemptId]:
        for _, row in self.rows.values():
            yield from row

    def put(self, attempt: AttemptId, ask: Ask) -> None:
        """Let an attempt wait."""
        self.rows.setdefault(ask.key, (ask, OrderedDict()))[1][attempt] = self._arrivals
        self._arrivals += 1

    def discard(self, attempt: AttemptId) -> bool:
        """Take an attempt out, if it waits; say whether it did."""
        for key, (_, row) in self.rows.items():
            if row.pop(attempt, None) is not None:
                if not row:
                    del self.rows[key]
                return True
        return False

    def first(self, fits: Callable[[Ask], bool]) -> AttemptId | None:
        """Return the attempt that has waited longest among those whose ask fits, or None."""
        best: tuple[int, AttemptId] | None = None
        for ask, row in self.rows.values():
            if row:
                attempt, arrival = next(iter(row.items()))
                if (best is None or arrival < best[0]) and fits(ask):
                    best = arrival, attempt
        return best[1] if best else None


class Dues:
    """Attempts that wait for a moment."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, AttemptId]] = []
        self.due: dict[AttemptId, tuple[float, int]] = {}
        """Empty when nobody waits."""
        self._arrivals = 0

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self.due

    def __len__(self) -> int:
        return len(self.due)

    def put(self, attempt: AttemptId, at: float) -> None:
        """Let an attempt wait until a moment."""
        self._arrivals += 1
        self.due[attempt] = at, self._arrivals
        heappush(self._heap, (at, self._arrivals, attempt))

    def discard(self, attempt: AttemptId) -> bool:
        """Take an attempt out, if it waits; say whether it did."""
        return self.due.pop(attempt, None) is not None

    def at(self, attempt: AttemptId) -> float | None:
        """Return the moment that an attempt waits for; None where it waits for none, or that has come."""
        due = self.due.get(attempt)
        return None if due is None else due[0]

    def earliest(self) -> float | None:
        """Return the next moment that somebody waits for."""
        heap = self._heap
        while heap and self.due.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now: float) -> AttemptId | None:
        """Take out the next attempt whose moment has come, or return None."""
        earliest = self.earliest()
        if earliest is None or earliest > now:
            return None
        attempt = heappop(self._heap)[2]
        del self.due[attempt]
        return attempt


def is_held(ask: Ask, slots: int) -> bool:
    """Say whether as many attempts back off on an endpoint that is asked for as there are global slots (B2)."""
    return any(endpoint.backing_off >= slots for endpoint in ask.endpoints)
