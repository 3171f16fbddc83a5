"""Which slot of an experiment goes next (spec 03 O2).

First ordinals of all tasks go before second ones; within an ordinal the longest expected first, ties in plan order. A
slot has no object of its own: a task has the number of its next ordinal, and stands in at most one heap by it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush

from proctor.core.pool import BUSY, CLOSED, READY, SPECULATIVE, Place, Pool, TaskTable

__all__ = ["BUSY", "CLOSED", "READY", "SPECULATIVE", "GroupSlots", "Place", "Slots", "TaskTable"]

_LEFT_OUT = (BUSY, SPECULATIVE)


class Slots:
    """The undispatched slots of those tasks of one experiment that ask for the same permits.

    Where attempts of a task may not overlap (`serial`, G6) a task is left out from the start of its attempt until it is
    free. With early exit a task with an attempt in flight is speculative (E3).
    """

    __slots__ = ("_leaves_out", "_longest", "_longest_cursor", "_pools", "_serial", "_sorted",
                 "_table", "count", "known", "remaining", "tasks", "unknown", "version")  # fmt: skip

    def __init__(self, table: TaskTable, tasks: Sequence[int], *, serial: bool, early_exit: bool) -> None:
        self._table = table
        self.tasks = tasks
        self._serial = serial
        self._leaves_out = serial or early_exit
        """Whether a task with an attempt in flight is not READY, so that those in flight have to be counted."""
        expected = table.expected
        known: Sequence[int] = ()
        unknown = tasks
        if table.fixed:
            ordered = sorted((task for task in tasks if expected[task]), key=lambda task: (-expected[task], task))
            known = array("i", ordered)
            unknown = [task for task in tasks if not expected[task]]
        self._sorted = known
        self._longest_cursor = 0
        self._longest: list[tuple[int, int]] = []
        ready = Pool(table, READY, unknown, known)
        self._pools = (ready, Pool(table, SPECULATIVE, (), ()))
        self.version = 0
        """Another one after every change."""
        self.count = [len(tasks), 0, 0, 0]
        """How many tasks stand where: READY, SPECULATIVE, BUSY, CLOSED."""
        self.remaining = len(tasks) * table.attempts
        self.known = sum(expected[task] for task in known) * table.attempts
        """Expected work of queued slots of which something is known."""
        self.unknown = len(unknown) * table.attempts
        """Queued slots of which nothing is known."""

    def head(self, tier: int, fallback: int) -> Place | None:
        """Return the first slot of a tier (READY or SPECULATIVE), or None."""
        return self._pools[tier].head(fallback)

    def longest(self, fallback: int) -> tuple[int, int] | None:
        """Return the longest duration that is expected of a queued slot, and its task, -1 for any of unknown length."""
        known = self.longest_known()
        if self.unknown and (known is None or fallback > known[0]):
            return fallback, -1
        return known

    def longest_known(self) -> tuple[int, int] | None:
        """Like `longest`, of the slots of which something is known."""
        table, heap = self._table, self._longest
        while heap:
            shortness, task = heap[0]
            if table.where[task] != CLOSED and table.expected[task] == -shortness:
                break
            heappop(heap)
        best = (-heap[0][0], heap[0][1]) if heap else None
        while self._longest_cursor < len(self._sorted):
            task = self._sorted[self._longest_cursor]
            if table.where[task] != CLOSED:
                expected = table.expected[task]
                if best is None or (-expected, task) < (-best[0], best[1]):
                    best = expected, task
                break
            self._longest_cursor += 1
        return best

    def at_once(self, fallback: int, work: int, width: int) -> Place | None:
        """Return the longest slot if it is expected to last at least as long as `work / width`, and may start (O2)."""
        longest = self.longest(fallback)
        if longest is None or longest[0] * width < work:
            return None
        task = longest[1]
        if task < 0:
            found = self._pools[READY].first_unknown()
            return None if found is None else Place(-1, -fallback, found)
        return Place(-1, -longest[0], task) if self._table.where[task] == READY else None

    def pop(self, task: int) -> int:
        """Take the next slot of a task and return its ordinal."""
        table = self._table
        self.version += 1
        ordinal = table.next[task]
        table.next[task] = ordinal + 1
        self.remaining -= 1
        expected = table.expected[task]
        if expected:
            self.known -= expected
        else:
            self.unknown -= 1
        if ordinal + 1 == table.attempts:
            self._move(task, CLOSED)
            heap = self._longest
            while heap and table.where[heap[0][1]] == CLOSED:  # else it would keep all, as it is seldom asked
                heappop(heap)
        elif not self._leaves_out:
            self._pools[READY].push(task)
        elif self._serial:
            self._move(task, BUSY)
        else:
            self._move(task, SPECULATIVE)
            self._pools[SPECULATIVE].push(task)
        if self._leaves_out:
            table.busy[task] = table.busy.get(task, 0) + 1
        return ordinal

    def _move(self, task: int, where: int) -> None:
        places = self._table.where
        self.count[places[task]] -= 1
        self.count[where] += 1
        places[task] = where

    def _leave(self, task: int, slots: int) -> None:
        self.remaining -= slots
        expected = self._table.expected[task]
        if expected:
            self.known -= expected * slots
        else:
            self.unknown -= slots

    def freed(self, task: int) -> None:
        """Note that an attempt of a task has ended."""
        if not self._leaves_out:
            return
        table = self._table
        left = table.busy[task] - 1
        if left:
            table.busy[task] = left
            return
        del table.busy[task]
        if table.where[task] in _LEFT_OUT:
            self.version += 1
            self._move(task, READY)
            self._pools[READY].push(task)

    def learn(self, task: int, expected: int) -> bool:
        """Expect so many microseconds of an attempt of a task from now on; say whether that changes anything."""
        table = self._table
        before, where = table.expected[task], table.where[task]
        if before == expected or where == CLOSED:
            return False
        self.version += 1
        slots = table.attempts - table.next[task]
        self._leave(task, slots)
        table.expected[task] = expected
        self.remaining += slots
        self.known += expected * slots
        heappush(self._longest, (-expected, task))
        table.longest_ever = max(table.longest_ever, expected)
        if where != BUSY:
            self._pools[where].push(task)
        return True

    def drop(self, task: int) -> list[int]:
        """Drop the undispatched slots of a task and return their ordinals."""
        table = self._table
        dropped = list(range(table.next[task], table.attempts))
        if dropped:
            self.version += 1
            self._leave(task, len(dropped))
            table.next[task] = table.attempts
            self._move(task, CLOSED)
        return dropped

    def clear(self) -> int:
        """Drop all undispatched slots and return how many there were."""
        table, dropped = self._table, self.remaining
        if dropped:
            self.version += 1
            for task in self.tasks:
                table.next[task] = table.attempts
                table.where[task] = CLOSED
            self.count[:] = 0, 0, 0, len(self.tasks)
            self.remaining = self.known = self.unknown = 0
        return dropped


class GroupSlots(Slots):
    """The slots of a task group (L3): all attempts of one member before the next, members in plan order."""

    __slots__ = ("_member", "_members")

    def __init__(self, table: TaskTable, tasks: Sequence[int]) -> None:
        super().__init__(table, tasks, serial=True, early_exit=False)
        self._members = tasks
        self._member = 0

    def head(self, tier: int, fallback: int) -> Place | None:
        """Return the first slot, or None."""
        table = self._table
        while tier == READY and self._member < len(self._members):
            task = self._members[self._member]
            if table.where[task] == READY:
                return Place(table.next[task], -(table.expected[task] or fallback), task)
            if table.where[task] == BUSY:
                return None
            self._member += 1
        return None

    def at_once(self, fallback: int, work: int, width: int) -> Place | None:
        """Return None: the order of a group is fixed."""
        return None
