"""Gates: named limits, and vectors of permits that are taken whole or not at all (spec 03, G1 to G6).

A demand names gates by their index, so that a vector is a small tuple that many attempts share. Nothing ever waits
while it holds part of a vector, so gates cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from proctor.core.limits import GateLimits, ModelLimits
from proctor.errors import InternalError

Demand = tuple[tuple[int, int], ...]
"""Permits that belong together: (index of a gate, number of its permits), each gate at most once."""

NOTHING: Demand = ()


class GateView(NamedTuple):
    """One gate at one moment; `limit` is None where the gate is off."""

    name: str
    limit: int | None
    held: int


_UNLIMITED = 1 << 62
"""So many permits has a gate without a limit, so that it is asked like any other."""


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
        self._names: list[str] = []
        self._limits: list[int | None] = []
        self._whole: list[int] = []
        self.free: list[int] = []
        """Permits that are left, by gate; to be read only. More than anybody takes where there is no limit."""

    def add(self, name: str, limit: int | None) -> int:
        """Add a gate and return its index; raises `ValueError` for a limit that is neither None nor at least 1."""
        _require_limit(name, limit)
        self._names.append(name)
        self._limits.append(limit)
        whole = _UNLIMITED if limit is None else limit
        self._whole.append(whole)
        self.free.append(whole)
        return len(self._names) - 1

    def limit(self, index: int) -> int | None:
        """Return the limit of a gate."""
        return self._limits[index]

    def fits(self, demand: Demand) -> bool:
        """Say whether every gate of the demand has room for it now."""
        free = self.free
        for index, weight in demand:  # noqa: SIM110 - a generator costs more than the loop, in every decision
            if free[index] < weight:
                return False
        return True

    def blocker(self, demand: Demand) -> str | None:
        """Return the name of the first gate, in the order of their indexes, without room for the demand, or None."""
        for index, weight in demand:
            if self.free[index] < weight:
                return self._names[index]
        return None

    def take(self, demand: Demand) -> bool:
        """Take the whole demand and return True, or take nothing and return False."""
        free = self.free
        for index, weight in demand:
            if free[index] < weight:
                return False
        for index, weight in demand:
            free[index] -= weight
        return True

    def give(self, demand: Demand) -> None:
        """Give the whole demand back; raises `InternalError`, changing nothing, if a gate holds less than that."""
        self.give_each((demand,))

    def give_each(self, demands: Iterable[Demand]) -> None:
        """Give several demands back, like `give`; of the last of them nothing where it raises."""
        free, whole = self.free, self._whole
        for demand in demands:
            for index, weight in demand:
                free[index] += weight
                if free[index] > whole[index]:
                    self._take_again(demand, index, weight)

    def _take_again(self, demand: Demand, wrong: int, weight: int) -> None:
        """Undo what was given back of a demand, up to the gate that did not hold as much; raises `InternalError`."""
        for index, permits in demand:
            self.free[index] -= permits
            if index == wrong:
                break
        held = self._whole[wrong] - self.free[wrong]
        raise InternalError(f"gate `{self._names[wrong]}` was given back {weight} permits of the {held} it held")

    def resize(self, index: int, limit: int | None) -> None:
        """Change a limit in place; who holds a permit keeps it, also above a smaller limit."""
        _require_limit(self._names[index], limit)
        whole = _UNLIMITED if limit is None else limit
        self.free[index] += whole - self._whole[index]
        self._limits[index], self._whole[index] = limit, whole

    def snapshot(self) -> tuple[GateView, ...]:
        """Return all gates as they are now, in the order in which they were added; it never changes afterwards."""
        held = (whole - free for whole, free in zip(self._whole, self.free, strict=True))
        return tuple(map(GateView, self._names, self._limits, held))


def _require_limit(name: str, limit: int | None) -> None:
    if limit is not None and (type(limit) is not int or limit < 1):
        raise ValueError(f"the limit of gate `{name}` must be an integer of at least 1, or None for off, not {limit!r}")


__all__ = ["NOTHING", "Demand", "GateLimits", "GateView", "Gates", "ModelLimits", "demand_of"]
