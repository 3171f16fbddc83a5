"""Speed of the journal: durable events per second in group commits, CPU per event, and the files of attempts.

    python benchmarks/journal_speed.py [--attempts 20000] [--directory DIR] [--offered RATE]

The events of no-op attempts are appended, flushed every 50 ms and synced in a thread meanwhile, as a run does it. Then
they are read back, and a result.json is written for each attempt. Exits 1 below 5,000 durable events per second (spec
12); the other lines are for people. The CPU of writing files is nearly all the system's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Verdict
from proctor.model.events import (
    AttemptSealed,
    Event,
    PhaseEnded,
    PhaseStarted,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.store.codec import encode
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.reader import read_journal
from proctor.store.results import AttemptFold, fold_attempts, write_attempt

COMMIT_SECONDS = 0.05
DURABLE_PER_SECOND = 5_000


def attempt(number: int) -> Iterator[Event]:
    name, task = f"{number:012d}", f"task-{number:06d}"
    yield TryStarted(name, task, 0, 1)
    for phase in (Phase.SETUP, Phase.AGENT, Phase.COLLECT):
        yield PhaseStarted(name, phase)
        yield PhaseEnded(name, phase, 0.000012)
    yield WorkCheckpointed(name, 1, None, NO_USAGE)
    yield PhaseStarted(name, Phase.GRADE)
    yield PhaseEnded(name, Phase.GRADE, 0.000012)
    yield TryEnded(name, 1, TryResult(Outcome.GRADED, Grade(True, 1.0)))
    yield AttemptSealed(name, task, 0, Verdict.PASSED, 1.0, 1)


def group_commits(journal: Journal, events: list[Event], offered: float | None) -> list[float]:
    """Append all events in commits of 50 ms; return how long each sync took."""
    flushed, done = threading.Event(), threading.Event()
    seconds: list[float] = []

    def commit() -> None:
        while not done.is_set():
            flushed.wait()
            flushed.clear()
            begin = time.perf_counter()
            journal.sync()
            seconds.append(time.perf_counter() - begin)

    thread = threading.Thread(target=commit)
    thread.start()
    begin = due = time.perf_counter()
    for number, event in enumerate(events):
        if offered and (ahead := begin + number / offered - time.perf_counter()) > 0.001:
            time.sleep(ahead)
        journal.append(event, time.time())
        if time.perf_counter() >= due:
            journal.flush()
            flushed.set()
            due = time.perf_counter() + COMMIT_SECONDS
    journal.flush()
    done.set()
    flushed.set()
    thread.join()
    journal.sync()
    return seconds


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return seconds of wall time and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> int:
    parser = argparse.ArgumentParser(description="measure the journal")
    parser.add_argument("--attempts", type=int, default=20_000, help="attempts to journal (default: 20000)")
    parser.add_argument("--directory", type=Path, help="where to write (default: a temporary directory)")
    parser.add_argument("--offered", type=float, help="events per second to append (default: as fast as it goes)")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="journal-speed-", dir=options.directory))
    try:
        return measure(RunLayout.create(directory, "e", default_id="run"), options.attempts, options.offered)
    finally:
        shutil.rmtree(directory)


def measure(layout: RunLayout, attempts: int, offered: float | None) -> int:
    events = [event for number in range(attempts) for event in attempt(number)]
    count = len(events)
    _, cpu = timed(lambda: [encode(event, 1796056235.123456) for event in events])
    print(f"encode          {cpu / count * 1e6:8.2f} us of CPU per event")
    journal = Journal.create(layout.journal, at=time.time())
    syncs: list[float] = []
    wall, cpu = timed(lambda: syncs.extend(group_commits(journal, events, offered)))
    assert journal.durable_events == count
    journal.close()
    durable = count / wall
    print(f"journal         {cpu / count * 1e6:8.2f} us of CPU per event, {durable:,.0f} durable events/s")
    print(f"                {len(syncs):8} commits, slowest sync {max(syncs) * 1e3:.1f} ms")
    _, cpu = timed(lambda: sum(1 for _ in read_journal(layout.journal)))
    print(f"read            {cpu / count * 1e6:8.2f} us of CPU per event")
    folds: list[AttemptFold] = []
    moments = [(event, 1796056235.123456) for event in events]
    _, cpu = timed(lambda: folds.extend(fold_attempts(moments)))
    print(f"fold            {cpu / attempts * 1e6:8.2f} us of CPU per attempt")
    wall, cpu = timed(lambda: [write_attempt(layout, fold) for fold in folds])
    print(f"write_attempt   {cpu / attempts * 1e6:8.2f} us of CPU per attempt, {wall / attempts * 1e6:.0f} us in all")
    size = layout.journal.stat().st_size / attempts
    result = layout.result("task-000000", 0).stat().st_size
    print(f"size            {size:8.0f} bytes of journal and {result} of result.json per attempt")
    return 0 if offered or durable >= DURABLE_PER_SECOND else 1


if __name__ == "__main__":
    sys.exit(main())
