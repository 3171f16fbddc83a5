"""What the viewer takes for one large run: wall and CPU seconds of each page, and the memory of the server.

python benchmarks/viewer_cost.py [--tasks 25000] [--attempts 4] [--keep DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict
from proctor.model.events import (
    AttemptSealed,
    Event,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import ID_ALPHABET, ID_LENGTH
from proctor.model.reasons import Completion
from proctor.store.codec import encode
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan

RUN = "model_benchmark_harness/20261201_000000"
LANES = 64
START = 1.79e9


def events(slots: list[PlannedSlot], seed: int = 1) -> Iterator[tuple[Event, float]]:
    """Yield the events of a run in which `LANES` attempts run at once."""
    rng = random.Random(seed)
    tasks = len({slot.task for slot in slots})
    yield RunStarted(1, "i", "20261201_000000", "b/h/m", "0", "host", 1, len(slots), tasks), START
    for first in range(0, len(slots), LANES):
        wave = [("".join(rng.choices(ID_ALPHABET, k=ID_LENGTH)), slot) for slot in slots[first : first + LANES]]
        at = START + first / 10
        for attempt, slot in wave:
            yield TryStarted(attempt, slot.task, slot.ordinal, 1), at
        for place, phase in enumerate((Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT, Phase.GRADE)):
            for attempt, _ in wave:
                yield PhaseStarted(attempt, phase), at + place
                yield PhaseEnded(attempt, phase, 0.9), at + place + 0.9
        for attempt, slot in wave:
            passed = rng.random() < 0.6
            result = TryResult(Outcome.GRADED, Grade(passed, float(passed)), Usage(3, 4000, 500, cost_usd=0.01))
            yield TryEnded(attempt, 1, result), at + 6
            verdict = Verdict.PASSED if passed else Verdict.FAILED
            yield AttemptSealed(attempt, slot.task, slot.ordinal, verdict, float(passed), 1), at + 6
    yield RunEnded("b/h/m", Completion.COMPLETE), START + len(slots)


def make(root: Path, tasks: int, attempts: int, *, run: str = RUN, seed: int = 1) -> RunLayout:
    """Write the run, and a small summary as `proctor run` would have left it."""
    layout = RunLayout(root / run)
    layout.directory.mkdir(parents=True)
    slots = [PlannedSlot(f"task-{n:06}", o, f"{n * attempts + o:032x}") for n in range(tasks) for o in range(attempts)]
    parts = {slot.task: {"task": slot.identity} for slot in slots if not slot.ordinal}
    write_plan(layout.plan, PlanFile({"name": "b/h/m", "attempts": attempts}, slots, {"model": "1"}, parts, {}))
    with layout.journal.open("wb") as file:
        file.writelines(encode(event, at) for event, at in events(slots, seed))
    layout.summary_json.write_text(json.dumps({"completion": "complete", "headline": "60.0%", "seconds": 1.0}))
    return layout


def cpu_seconds(pid: int) -> float:
    """Return the user plus system seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has had, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Print a line for each page, each asked for twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=25_000)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--keep", metavar="DIR", help="Make the run here, or use the one that is here.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(arguments.keep or folder)
        layout = RunLayout(root / RUN)
        if not layout.journal.is_file():
            layout = make(root, arguments.tasks, arguments.attempts)
        size = layout.journal.stat().st_size / 1e6
        print(f"{arguments.tasks * arguments.attempts:,} attempts, a journal of {size:.0f} MB")
        measure(root, layout)


def measure(root: Path, layout: RunLayout) -> None:
    """Serve a results root and ask for its pages."""
    command = [sys.executable, "-m", "proctor", "view", "--results-dir", str(root), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip().rstrip("/")
    with layout.journal.open("rb") as file:
        file.readline()
        attempt = json.loads(file.readline())["attempt"]
    pages = {
        "list of runs": "/",
        "run": f"/run/{RUN}",
        "run, failed tasks, page 9": f"/run/{RUN}?state=failed&page=9",
        "attempt": f"/attempt/{attempt}/{RUN}",
        "lanes": f"/lanes/{RUN}",
        "lanes, page 200": f"/lanes/{RUN}?page=200",
    }
    try:
        print(f"{'page':<28}{'first wall':>11}{'CPU':>7}{'again wall':>12}{'CPU':>7}{'KB':>7}{'peak MB':>9}")
        for name, page in pages.items():
            row = ""
            size = 0
            for _ in range(2):
                cpu, begin = cpu_seconds(server.pid), time.perf_counter()
                with urllib.request.urlopen(address + page) as answer:
                    size = len(answer.read())
                row += f"{time.perf_counter() - begin:10.2f}s{cpu_seconds(server.pid) - cpu:6.2f}s "
            print(f"{name:<28}{row}{size / 1000:6.0f}{peak_mb(server.pid):9.0f}", flush=True)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


if __name__ == "__main__":
    main()
