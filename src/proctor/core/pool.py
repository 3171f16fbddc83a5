"""The tasks of one experiment that have slots left, and the heaps from which the next one is taken."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

READY, SPECULATIVE, BUSY, CLOSED = range(4)
"""Where a task stands: it may start; only when nothing else can (E3); not before its attempt ends; nothing is left."""


class Place(NamedTuple):
    """Where a slot stands in its experiment; the least goes first. Ordinal -1 is for one that goes at once."""

    ordinal: int
    shortness: int
    task: int


class TaskTable:
    """What is known of each task of one experiment; `expected` is in microseconds, 0 where nothing is known."""

    __slots__ = ("attempts", "busy", "expected", "fixed", "longest_ever", "next", "where")

    def __init__(self, tasks: int, attempts: int, expected: Sequence[int]) -> None:
        self.attempts = attempts
        self.expected = array("q", expected if expected else bytes(8 * tasks))
        self.fixed = bool(expected)
        """Whether some durations are known from the start; these do not change."""
        self.longest_ever = max(self.expected, default=0)
        """Nothing that was ever expected of any of them is longer."""
        self.next = array("i", bytes(4 * tasks))
        self.where = bytearray(tasks)
        self.busy: dict[int, int] = {}
        """Attempts in flight, of the tasks that have some and may not have several, or only when nothing else can."""


class Pool:
    """The tasks that may start now, by ordinal; what is stale in its heaps is dropped when it comes to the top."""

    __slots__ = ("_cursor", "_known", "_known_cursor", "_layers", "_low", "_table", "_unknown", "_where")

    def __init__(self, table: TaskTable, where: int, unknown: Sequence[int], known: Sequence[int]) -> None:
        self._table = table
        self._where = where
        self._layers: list[tuple[list[tuple[int, int]], list[int]]] = []
        self._low = 0
        # Tasks that have not started at all, in order: they need no heap.
        self._unknown, self._cursor = unknown, 0
        self._known, self._known_cursor = known, 0
        self._layer(0)

    def _layer(self, ordinal: int) -> tuple[list[tuple[int, int]], list[int]]:
        while len(self._layers) <= ordinal:
            self._layers.append(([], []))
        return self._layers[ordinal]

    def push(self, task: int) -> None:
        """Put a task in, by its next ordinal and what is expected of it now."""
        table = self._table
        ordinal, expected = table.next[task], table.expected[task]
        layers = self._layers
        known, unknown = layers[ordinal] if ordinal < len(layers) else self._layer(ordinal)
        if expected:
            heappush(known, (-expected, task))
        else:
            heappush(unknown, task)
        if ordinal < self._low:
            self._low = ordinal

    def first_unknown(self) -> tuple[int, int] | None:
        """Return (ordinal, task) of the first task of which nothing is known."""
        for ordinal in range(self._low, len(self._layers)):
            _, task = self._tops(ordinal)
            if task is not None:
                return ordinal, task
        return None

    def head(self, fallback: int) -> Place | None:
        """Return the place of the first slot; `fallback` is expected of tasks of which nothing is known."""
        low, layers = self._low, len(self._layers)
        while low < layers:
            known, unknown = self._tops(low)
            if known is not None or unknown is not None:
                self._low = low
                if known is None or (unknown is not None and (-fallback, unknown) < known):
                    assert unknown is not None
                    return Place(low, -fallback, unknown)
                return Place(low, known[0], known[1])
            low += 1
        self._low = low
        return None

    def _tops(self, ordinal: int) -> tuple[tuple[int, int] | None, int | None]:
        """Return the first task of which something is known, as (-expected, task), and the first of the others."""
        table, mine = self._table, self._where
        where, following, expected = table.where, table.next, table.expected
        known, unknown = self._layers[ordinal]
        while known:
            shortness, task = known[0]
            if where[task] == mine and following[task] == ordinal and expected[task] == -shortness:
                break
            heappop(known)
        while unknown:
            task = unknown[0]
            if where[task] == mine and following[task] == ordinal and not expected[task]:
                break
            heappop(unknown)
        of_known, of_unknown = known[0] if known else None, unknown[0] if unknown else None
        if ordinal:
            return of_known, of_unknown
        while self._known_cursor < len(self._known):
            task = self._known[self._known_cursor]
            if where[task] == mine and not following[task]:
                entry = -expected[task], task
                of_known = entry if of_known is None or entry < of_known else of_known
                break
            self._known_cursor += 1
        while self._cursor < len(self._unknown):
            task = self._unknown[self._cursor]
            if where[task] == mine and not following[task] and not expected[task]:
                of_unknown = task if of_unknown is None or task < of_unknown else of_unknown
                break
            self._cursor += 1
        return of_known, of_unknown
