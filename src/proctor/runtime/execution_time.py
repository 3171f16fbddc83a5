"""Limits the time of a command without what its processes spent waiting for a processor.

A limit counts execution only. On a busy machine a command waits for its turn as others do, and that must not make a
right answer a late one. The kernel tells, for each thread, how long it ran and how long it waited to run: the waiting
is taken off, but never so much that less is charged than the command itself computed. What sleeps does not wait for a
processor, so a command that hangs ends at its limit. See docs/design/execution-time.md.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from proctor.runtime import _killing

BACKSTOP = 30
"""After this many times its limit a command is ended whatever it waited for."""
STEPS = 10
LONGEST_STEP_SECONDS = 1.0
"""How often a command is looked at: so many times within its limit, and at least this often."""
SHORTEST_STEP_SECONDS = 0.02
LARGEST_SHARE = 0.01
"""How much of the time looking may take."""
MOST_THREADS = 256
"""How many threads of one command are looked at. Those beyond count as if they never waited."""


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """What a thread did since it began."""

    ran_seconds: float
    waited_seconds: float


NEW = ThreadTimes(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is seen of a command at one moment."""

    threads: Mapping[tuple[int, int], ThreadTimes]
    """Those that are alive, by process and thread."""
    ended_seconds: float = 0.0
    """How long those processes ran that have ended: how long they waited, nobody knows any more."""


class ExecutionTime:
    """The time that a command is charged for, from samples of its threads; `processors` is how many it may use."""

    def __init__(self, limit_seconds: float, processors: int) -> None:
        self._limit_seconds = limit_seconds
        self._processors = processors
        self._elapsed_seconds = 0.0
        self._last = Sample({})
        self.charged_seconds = 0.0

    def observe(self, elapsed_seconds: float, sample: Sample | None) -> float:
        """Take what is seen so long after the start, and return how much is left of the limit: 0 when it is over.

        `sample` is None where the kernel does not tell: then all time is charged.
        """
        passed = elapsed_seconds - self._elapsed_seconds
        self._elapsed_seconds = elapsed_seconds
        self.charged_seconds += passed if sample is None else self._charge(passed, sample)
        if elapsed_seconds >= BACKSTOP * self._limit_seconds:
            return 0.0
        return max(0.0, self._limit_seconds - self.charged_seconds)

    def _charge(self, passed: float, sample: Sample) -> float:
        """Return what is charged of the time that passed since the last sample."""
        before, self._last = self._last, sample
        ran: list[float] = []
        waited = 0.0
        for thread, now in sample.threads.items():
            then = before.threads.get(thread, NEW)
            if now.ran_seconds < then.ran_seconds or now.waited_seconds < then.waited_seconds:
                then = NEW  # another thread, with the number of one that has ended
            ran.append(now.ran_seconds - then.ran_seconds)
            waited += now.waited_seconds - then.waited_seconds
        known = sum(times.ran_seconds for thread, times in before.threads.items() if thread not in sample.threads)
        unseen = max(0.0, sample.ended_seconds - before.ended_seconds - known)
        if sum(ran) > 0:  # what came and went between two samples is taken to have waited as long as the others did
            waited += unseen * min(BACKSTOP, waited / sum(ran))
        computed = max(max(ran, default=0.0), (sum(ran) + unseen) / self._processors)
        return min(passed, max(passed - waited, computed))


class TimeLimit:
    """Calls `on_end` when the time of the command below the process `root` is over, unless `cancel` comes before."""

    def __init__(self, root: int, limit_seconds: float, on_end: Callable[[], None]) -> None:
        self._root = root
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._time = ExecutionTime(limit_seconds, len(os.sched_getaffinity(0)))
        self._step_seconds = max(SHORTEST_STEP_SECONDS, min(LONGEST_STEP_SECONDS, limit_seconds / STEPS))
        self._timer = self._loop.call_later(min(self._step_seconds, limit_seconds), self._look)

    def cancel(self) -> None:
        """Let the command run."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        left = self._time.observe(now - self._started, read_tree(self._root))
        if left == 0.0:
            self._on_end()
        else:
            step = max(self._step_seconds, (self._loop.time() - now) / LARGEST_SHARE)
            self._timer = self._loop.call_later(max(SHORTEST_STEP_SECONDS, min(left, step)), self._look)


def read_tree(root: int) -> Sample | None:
    """Return what is seen of the process `root` and its descendants; None where the kernel does not tell."""
    if not os.path.exists(f"/proc/{root}/schedstat"):
        return None
    found: dict[tuple[int, int], ThreadTimes] = {}
    ended_ticks = 0
    listed = os.path.exists(f"/proc/{root}/task/{root}/children")
    waiting = [root] if listed else [root, *_killing.descendants(root)]
    while waiting and len(found) < MOST_THREADS:
        pid = waiting.pop()
        # After the name, which may hold anything: the 14th and 15th are the times of children that were waited for.
        fields = _killing.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        ended_ticks += sum(map(int, fields[13:15]))
        for thread in _threads(pid)[: MOST_THREADS - len(found)]:
            folder = f"/proc/{pid}/task/{thread}"
            times = _killing.read_text(f"{folder}/schedstat").split()
            if len(times) >= 2:  # it has not ended meanwhile
                found[pid, thread] = ThreadTimes(int(times[0]) / 1e9, int(times[1]) / 1e9)
            if listed:
                waiting += [int(child) for child in _killing.read_text(f"{folder}/children").split()]
    return Sample(found, ended_ticks / os.sysconf("SC_CLK_TCK"))


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:  # it has ended
        return []
