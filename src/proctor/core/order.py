"""Which slot goes next (spec 03, Order).

Now: experiments in plan order; inside one, first ordinals of all tasks before second ones, tasks in benchmark order.
Slots that ask for the same shared permits stand in one line, and only the head of a line is ever looked at. A slot has
no object of its own: a line holds experiments, and each experiment's part of it (`Slots`) is a cursor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from proctor.core.gates import Demand, Gates
from proctor.model.ids import AttemptId


class Slots:
    """The undispatched slots of those tasks of one experiment that ask for the same permits.

    A slot's place is `ordinal * stride + task`, with `stride` the number of tasks of the whole experiment, so that
    places of one experiment compare across lines. `tasks` are indexes in benchmark order. Where attempts of a task may
    not overlap (`serial`, G6) a task is left out from the start of its attempt until `freed`.
    """

    __slots__ = ("_attempts", "_cursor", "_end", "_freed", "_serial", "_stride", "_tasks", "remaining")

    def __init__(self, tasks: Sequence[int], stride: int, attempts: int, *, serial: bool) -> None:
        self._tasks = tasks
        self._stride = stride
        self._attempts = attempts
        self._serial = serial
        self._cursor = 0
        # The cursor of a serial experiment passes first ordinals only: later ones come back one by one, when their
        # task is freed, and never before all first ones have started.
        self._end = len(tasks) * (1 if serial else attempts)
        self._freed: list[int] = []
        self.remaining = len(tasks) * attempts

    @property
    def ready(self) -> bool:
        """Whether a slot is left whose task is free."""
        return self._cursor < self._end or bool(self._freed)

    def first(self) -> int:
        """Return the first place that is ready; raises `IndexError` if none is."""
        if self._cursor < self._end:
            ordinal, position = divmod(self._cursor, len(self._tasks))
            return ordinal * self._stride + self._tasks[position]
        return self._freed[0]

    def pop(self) -> tuple[int, int]:
        """Take the first place that is ready and return its (ordinal, task); raises `IndexError` if none is."""
        place = self.first()
        if self._cursor < self._end:
            self._cursor += 1
        else:
            heappop(self._freed)
        self.remaining -= 1
        return divmod(place, self._stride)

    def freed(self, ordinal: int, task: int) -> None:
        """Let the next attempt of a task start, now that attempt `ordinal` of it has ended."""
        if self._serial and self.remaining and ordinal + 1 < self._attempts:
            heappush(self._freed, (ordinal + 1) * self._stride + task)

    def clear(self) -> int:
        """Drop all undispatched slots and return how many there were."""
        dropped = self.remaining
        self.remaining = 0
        self._cursor = self._end
        self._freed.clear()
        return dropped


class Line:
    """Experiments whose next slots ask for the same shared permits, in plan order.

    Experiments are known by their index. One that is met at the head and cannot start anything (all its tasks busy,
    its own cap reached, nothing left) leaves the line, and comes back by `offer` when that may have changed.
    """

    __slots__ = ("_heap", "_waiting", "demand")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self._heap: list[int] = []
        self._waiting: set[int] = set()

    def __contains__(self, experiment: int) -> bool:
        return experiment in self._waiting

    def offer(self, experiment: int) -> None:
        """Put an experiment in line, unless it is there."""
        if experiment not in self._waiting:
            self._waiting.add(experiment)
            heappush(self._heap, experiment)

    def head(self) -> int | None:
        """Return the first experiment in line, or None."""
        return self._heap[0] if self._heap else None

    def leave(self) -> None:
        """Take the first experiment out of the line."""
        self._waiting.discard(heappop(self._heap))


class Waiting:
    """Attempts that go on as soon as their permits are there: first come, first served among those that fit.

    One queue for each demand, so that an attempt whose provider is full holds up nobody but those behind it who ask for
    the same (03 O3).
    """

    def __init__(self) -> None:
        self._queues: dict[Demand, OrderedDict[AttemptId, int]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __iter__(self) -> Iterator[AttemptId]:
        for queue in self._queues.values():
            yield from queue

    def put(self, attempt: AttemptId, demand: Demand) -> None:
        """Let an attempt wait for a demand."""
        self._queues.setdefault(demand, OrderedDict())[attempt] = self._arrivals
        self._arrivals += 1

    def discard(self, attempt: AttemptId, demand: Demand) -> None:
        """Take an attempt out, if it waits."""
        queue = self._queues.get(demand)
        if queue:
            queue.pop(attempt, None)

    def clear(self) -> None:
        """Take all out."""
        self._queues.clear()

    def first(self, gates: Gates) -> AttemptId | None:
        """Return the attempt that has waited longest among those whose demand fits, or None."""
        best: tuple[int, AttemptId] | None = None
        for demand, queue in self._queues.items():
            if queue and gates.fits(demand):
                attempt, arrival = next(iter(queue.items()))
                if best is None or arrival < best[0]:
                    best = arrival, attempt
        return best[1] if best else None
