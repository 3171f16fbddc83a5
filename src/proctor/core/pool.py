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
        self._low = ordinal if ordinal < self._low else self._low

    def head(self, fallback: int) -> Place | None:
        """Return the place of the first slot; `fallback` is expected of tasks of which nothing is known."""
        table, mine, layers, low = self._table, self._where, self._layers, self._low
        where, following, expected = table.where, table.next, table.expected
        while low < len(layers):
            known, unknown = layers[low]
            while known:
                shortness, task = known[0]
                if where[task] == mine and following[task] == low and expected[task] == -shortness:
                    break
                heappop(known)
            while unknown:
                task = unknown[0]
                if where[task] == mine and following[task] == low and not expected[task]:
                    break
                heappop(unknown)
            first = known[0] if known else None
            if unknown and (first is None or (-fallback, unknown[0]) < first):
                first = -fallback, unknown[0]
            if not low:
                first = self._or_fresh(first, fallback)
            if first is not None:
                self._low = low
                return Place(low, first[0], first[1])
            low += 1
        self._low = low
        return None

    def _or_fresh(self, first: tuple[int, int] | None, fallback: int) -> tuple[int, int] | None:
        """Return the first of those that have not started at all and `first`, each as (-expected, task)."""
        unknown = self._fresh_unknown()
        if unknown is not None and (first is None or (-fallback, unknown) < first):
            first = -fallback, unknown
        table = self._table
        while self._known_cursor < len(self._known):
            task = self._known[self._known_cursor]
            if table.where[task] == self._where and not table.next[task]:
                known = -table.expected[task], task
                return known if first is None or known < first else first
            self._known_cursor += 1
        return first

    def _fresh_unknown(self) -> int | None:
        """Return the first task that has not started at all and of which nothing is known."""
        table, mine, tasks, cursor = self._table, self._where, self._unknown, self._cursor
        while cursor < len(tasks):
            task = tasks[cursor]
            if table.where[task] == mine and not table.next[task] and not table.expected[task]:
                self._cursor = cursor
                return task
            cursor += 1
        self._cursor = cursor
        return None

    def first_unknown(self) -> int | None:
        """Return the first task of which nothing is known."""
        table, fresh = self._table, self._fresh_unknown() if not self._low else None
        for ordinal in range(self._low, len(self._layers)):
            heap = self._layers[ordinal][1]
            while heap:
                task = heap[0]
                if table.where[task] == self._where and table.next[task] == ordinal and not table.expected[task]:
                    return task if fresh is None else min(task, fresh)
                heappop(heap)
            if fresh is not None:
                break
        return fresh
