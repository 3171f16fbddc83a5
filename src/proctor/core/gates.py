"""Gates: named limits, and vectors of permits that are taken whole or not at all (spec 03, G1 to G6).

A demand names gates by their index, so that a vector is a small tuple that many attempts share. Nothing ever waits
while it holds part of a vector, so gates cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from proctor.errors import InternalError, UsageError

Demand = tuple[tuple[int, int], ...]
"""Permits that belong together: (index of a gate, number of its permits), each gate at most once."""

NOTHING: Demand = ()


class GateView(NamedTuple):
    """One gate at one moment; `limit` is None where the gate is off."""

    name: str
    limit: int | None
    held: int


@dataclass(slots=True)
class _Gate:
    name: str
    limit: int | None
    held: int = 0


def demand_of(permits: Iterable[tuple[int, int]]) -> Demand:
    """Make a demand of permits in any order: sorted by gate, one entry for each gate.

    Raises `ValueError` for a number of permits that is not a positive integer.
    """
    weights: dict[int, int] = {}
    for index, weight in permits:
        if type(weight) is not int or weight < 1:
            raise ValueError(f"a demand takes a positive number of permits, not {weight!r}")
        weights[index] = weights.get(index, 0) + weight
    return tuple(sorted(weights.items()))


class Gates:
    """All gates of one invocation."""

    def __init__(self) -> None:
        self._gates: list[_Gate] = []

    def add(self, name: str, limit: int | None) -> int:
        """Add a gate and return its index; raises `ValueError` for a limit that is neither None nor at least 1."""
        _require_limit(name, limit)
        self._gates.append(_Gate(name, limit))
        return len(self._gates) - 1

    def fits(self, demand: Demand) -> bool:
        """Say whether every gate of the demand has room for it now."""
        gates = self._gates
        for index, weight in demand:
            gate = gates[index]
            if gate.limit is not None and gate.held + weight > gate.limit:
                return False
        return True

    def blocker(self, demand: Demand) -> str | None:
        """Return the name of the first gate, in the order of their indexes, without room for the demand, or None."""
        for index, weight in demand:
            gate = self._gates[index]
            if gate.limit is not None and gate.held + weight > gate.limit:
                return gate.name
        return None

    def take(self, demand: Demand) -> bool:
        """Take the whole demand and return True, or take nothing and return False."""
        if not self.fits(demand):
            return False
        gates = self._gates
        for index, weight in demand:
            gates[index].held += weight
        return True

    def give(self, demand: Demand) -> None:
        """Give the whole demand back; raises `InternalError`, changing nothing, if a gate holds less than that."""
        gates = self._gates
        for index, weight in demand:
            if gates[index].held < weight:
                gate = gates[index]
                raise InternalError(f"gate `{gate.name}` was given back {weight} permits of the {gate.held} it held")
        for index, weight in demand:
            gates[index].held -= weight

    def resize(self, index: int, limit: int | None) -> None:
        """Change a limit in place; who holds a permit keeps it, also above a smaller limit."""
        _require_limit(self._gates[index].name, limit)
        self._gates[index].limit = limit

    def snapshot(self) -> tuple[GateView, ...]:
        """Return all gates as they are now, in the order in which they were added; it never changes afterwards."""
        return tuple(GateView(gate.name, gate.limit, gate.held) for gate in self._gates)


def _require_limit(name: str, limit: int | None) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ValueError(f"the limit of gate `{name}` must be an integer of at least 1, or None for off, not {limit!r}")


@dataclass(frozen=True, slots=True)
class GateLimits:
    """The limits of an invocation: global slots (G1), and sandboxes at a time for each provider (G3).

    A provider that is missing, None or 0 has no limit. Raises `UsageError`, naming the field, for anything but
    integers in range (G1.3); `True` is not an integer here.
    """

    task_concurrency: int = 32
    providers: Mapping[str, int | None] = field(default_factory=dict[str, int | None])

    def __post_init__(self) -> None:
        if type(self.task_concurrency) is not int or self.task_concurrency < 1:
            raise UsageError(
                f"task_concurrency must be an integer of at least 1, not {self.task_concurrency!r}",
                hint="pass a number such as `--task-concurrency 8`",
            )
        for name, limit in self.providers.items():
            if limit is not None and (type(limit) is not int or limit < 0):
                raise UsageError(
                    f"the limit of provider `{name}` must be an integer of at least 0, not {limit!r}",
                    hint=f"pass a number such as `--provider-limit {name}=8`; 0 is off",
                )

    def of_provider(self, name: str) -> int | None:
        """Return the limit of a provider, or None where it has none."""
        return self.providers.get(name) or None
