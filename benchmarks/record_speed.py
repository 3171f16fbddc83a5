"""Speed of the record: rebuilding it, following a run, catching up over many runs, and looking candidates up.

    python benchmarks/record_speed.py [--attempts 100000] [--runs 2000] [--copies 10] [--directory DIR]

Exits 1 where a limit of the specification is not met: a rebuild of 100,000 attempts in 30 s of CPU, candidates for
100,000 slots among 1,000,000 attempts in 10 s, no journal read again that has not changed. Times are CPU seconds of the
process.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import literal, select

from journal_speed import timed
from proctor.model.attempt import NO_USAGE, Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    Event,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxOpened,
    SavedFile,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.ids import new_id
from proctor.store.codec import FORMAT_VERSION, encode
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.store.record import Candidate, Record
from proctor.store.record_schema import ATTEMPT, JOURNAL, MEMBER, RUN, SLOT, TRY

AT = 1796056235.123456
USED = Usage(calls=7, input_tokens=9_000, output_tokens=1_200, cost_usd=0.0315)
RNG = random.Random(1)


def identity(task: str) -> str:
    """Return what looks like the identity of a slot: in no order."""
    return hashlib.sha256(task.encode()).hexdigest()[:32]


def attempt(number: int, task: str) -> Iterator[Event]:
    """An attempt with a sandbox, usage, a checkpoint with a file; one in ten has an issue."""
    name = new_id(RNG)
    yield TryStarted(name, task, 0, 1)
    yield SandboxOpened(name, 1, f"box-{number}", Purpose.AGENT)
    for phase in (Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT):
        yield PhaseStarted(name, phase)
        yield PhaseEnded(name, phase, 1.234567)
    yield WorkCheckpointed(name, 1, "0" * 64, USED, (SavedFile("checkpoint/answer.txt", "0" * 64, 120),))
    yield PhaseStarted(name, Phase.DISPOSE)
    yield PhaseEnded(name, Phase.DISPOSE, 0.1)
    yield SandboxDisposed(name, f"box-{number}")
    yield PhaseStarted(name, Phase.GRADE)
    yield PhaseEnded(name, Phase.GRADE, 0.5)
    issues = (issue_of("time.agent", "limit of 600 s reached", Phase.AGENT),) if number % 10 == 0 else ()
    yield TryEnded(name, 1, TryResult(Outcome.GRADED, Grade(True, 1.0), USED, NO_USAGE, issues))
    yield AttemptSealed(name, task, 0, Verdict.PASSED, 1.0, 1)


def write_run(root: Path, group: str, attempts: int, *, ended: bool = True) -> tuple[RunLayout, bytes]:
    """Write a run with plan and journal; return it, and its journal."""
    layout = RunLayout.create(root, group, default_id="20261130_163035")
    tasks = [f"task-{number:06d}" for number in range(attempts)]
    slots = [PlannedSlot(task, 0, identity(task)) for task in tasks]
    parts = {task: {"task": f"{number:016x}", "grader": "0" * 16} for number, task in enumerate(tasks)}
    experiment = {"name": group, "benchmark": {"id": "b"}, "harness": {"id": "h"}, "model": {"id": "m"}}
    write_plan(layout.plan, PlanFile(experiment, slots, {"model": "0" * 16, "harness": "1" * 16}, parts))
    started = RunStarted(FORMAT_VERSION, new_id(RNG), layout.run_id, group, "0.1.0", "host", 1, attempts, attempts)
    lines = [encode(started, AT)]
    for number, task in enumerate(tasks):
        lines += [encode(event, AT + number / 100) for event in attempt(number, task)]
    if ended:
        lines.append(encode(RunEnded(group, Completion.COMPLETE), AT + attempts / 100))
    data = b"".join(lines)
    layout.journal.write_bytes(data)
    return layout, data


def copy_run(record: Record, run_key: int, copies: int) -> None:
    """Give the record further runs like one that it has: for looking up, journals are not needed."""
    with record.database.writing() as connection:
        for number in range(1, copies):
            for table in (RUN, SLOT, MEMBER, ATTEMPT, TRY, JOURNAL):
                columns = [
                    literal(run_key + number)
                    if column.name == "run_key"
                    else (column + str(number))
                    if column.name in ("attempt_id", "directory")
                    else column
                    for column in table.c
                ]
                made = select(*columns).where(table.c.run_key == run_key)
                connection.execute(table.insert().from_select(table.c.keys(), made))


def _passed(candidate: Candidate) -> bool:
    return candidate.verdict == "passed"


def measure_large(root: Path, attempts: int, copies: int) -> bool:
    layout, data = write_run(root, "large", attempts)
    print(f"one run of {attempts:,} attempts, {len(data) / attempts:,.0f} bytes of journal each")
    with Record.open(root, catch_up=False) as record:
        wall, rebuilt = timed(record.rebuild)
        print(f"rebuild         {rebuilt:8.2f} s of CPU, {wall:.2f} s in all, {rebuilt / attempts * 1e6:.0f} us each")
        database = root / ".proctor" / "record.sqlite"
    print(f"                {database.stat().st_size / attempts:8.0f} bytes of record each")
    with Record.open(root, catch_up=False) as record:
        _, again = timed(record.rebuild)
        print(f"again           {again:8.2f} s of CPU, over the rows of before")
        _, nothing = timed(record.catch_up)
        print(f"catch up        {nothing * 1e3:8.2f} ms of CPU, nothing new")
        [run] = record.runs()
        copy_run(record, run.run_key, copies)
    for number in range(1, copies):
        shutil.copytree(layout.directory, f"{layout.directory}{number}", copy_function=lambda _, to: Path(to).touch())
    with Record.open(root, catch_up=False) as record:
        wanted = [identity(f"task-{number:06d}") for number in range(attempts)]
        found: list[int] = []
        wall, cpu = timed(lambda: found.append(sum(map(len, record.candidates(wanted).values()))))
        print(f"candidates      {cpu:8.2f} s of CPU, {wall:.2f} s in all: {found[0]:,} for {attempts:,} slots")
        some: list[int] = []
        _, usual = timed(lambda: some.append(sum(map(len, record.candidates(wanted, enough=_passed).values()))))
        print(f"                {usual:8.2f} s of CPU, where one that passed is enough: {some[0]:,} are returned")
        _, few = timed(lambda: record.candidates(wanted[:100]))
        print(f"                {few * 1e3:8.2f} ms of CPU for 100 slots")
    return rebuilt <= 30.0 * attempts / 100_000 and cpu <= 10.0 * attempts / 100_000 * copies / 10


def measure_following(root: Path, attempts: int) -> None:
    """Index a run while it grows, as its publisher does: 50 attempts at a time."""
    layout, data = write_run(root, "live", attempts)
    lines = data.splitlines(keepends=True)
    layout.journal.write_bytes(b"")
    with Record.open(root, catch_up=False) as record, layout.journal.open("ab") as journal:
        steps = 0

        def follow() -> None:
            nonlocal steps
            for start in range(0, len(lines), 50 * 20 + 7):
                journal.write(b"".join(lines[start : start + 50 * 20 + 7]))
                journal.flush()
                record.index_run(layout.directory)
                steps += 1

        wall, cpu = timed(follow)
    print(f"following       {cpu / attempts * 1e6:8.0f} us of CPU per attempt, {wall / steps * 1e3:.1f} ms a step")


def measure_many(root: Path, runs: int) -> bool:
    for number in range(runs):
        write_run(root, f"group-{number % 20:02d}", 5)
    with Record.open(root, catch_up=False) as record:
        _, first = timed(record.catch_up)
        print(f"{runs:,} runs      {first:8.2f} s of CPU, indexed for the first time")
    reads = count_reads(lambda: Record.open(root).close())
    wall, cpu = timed(lambda: Record.open(root).close())
    print(f"opened again    {cpu * 1e3:8.1f} ms of CPU, {wall * 1e3:.1f} ms in all, {reads} journals or plans opened")
    return reads == 0


def count_reads(work: Callable[[], object]) -> int:
    """Return how many journals and plans are opened meanwhile."""
    opened: list[str] = []
    watching = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if watching and event == "open" and str(arguments[0]).endswith(("journal.jsonl", "plan.json")):
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    work()
    watching = False
    return len(opened)


def main() -> int:
    parser = argparse.ArgumentParser(description="measure the record")
    parser.add_argument("--attempts", type=int, default=100_000, help="attempts of the large run (default: 100000)")
    parser.add_argument("--copies", type=int, default=10, help="such runs when candidates are looked up (default: 10)")
    parser.add_argument("--runs", type=int, default=2_000, help="runs to catch up over (default: 2000)")
    parser.add_argument("--directory", type=Path, help="where to write (default: a temporary directory)")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="record-speed-", dir=options.directory))
    begin = time.perf_counter()
    try:
        for name in ("large", "live", "many"):
            (directory / name).mkdir()
        none_read = measure_many(directory / "many", options.runs)
        measure_following(directory / "live", min(options.attempts, 20_000))
        met = measure_large(directory / "large", options.attempts, options.copies)
    finally:
        shutil.rmtree(directory)
    print(f"in all          {time.perf_counter() - begin:8.0f} s, making the journals included")
    return 0 if met and none_read else 1


if __name__ == "__main__":
    sys.exit(main())
