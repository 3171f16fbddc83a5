"""What an attempt costs the runner: CPU, memory and bytes per no-op attempt, by size of the run.

    python benchmarks/attempt_cost.py [--sizes 100,1000,20000] [--sandbox] [--repeat 3]

Each run is a process of its own (`proctor run trivial nop`, concurrency 32, results in a new folder). CPU is user plus
system time of the process and its children, from `getrusage`; the cost per attempt has the cost of a run of one attempt
taken off. `--sandbox` makes every attempt open and dispose of a local sandbox.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONCURRENCY = 32


def run_once(tasks: int, *, sandbox: bool, progress: str) -> tuple[float, float, int, int]:
    """Return CPU seconds, peak memory in MB, bytes of content and number of files of one run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "proctor", "run", "trivial", "nop",
            "--set", f"benchmark.params.tasks={tasks}",
            "--set", f"benchmark.params.sandbox={str(sandbox).lower()}",
            "--task-concurrency", str(CONCURRENCY),
            "--results-dir", folder,
            "--progress", progress,
        ]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"the run of {tasks} attempts ended with exit code {process.returncode}")
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, size, len(files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1000,20000", help="attempts per run, separated by commas")
    parser.add_argument("--sandbox", action="store_true", help="open a local sandbox for every attempt")
    parser.add_argument("--repeat", type=int, default=3, help="runs per size; the median is shown")
    parser.add_argument("--progress", default="none", choices=["none", "plain"])
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]

    def measure(tasks: int) -> tuple[float, float, int, int]:
        runs = [
            run_once(tasks, sandbox=arguments.sandbox, progress=arguments.progress) for _ in range(arguments.repeat)
        ]
        return statistics.median(run[0] for run in runs), max(run[1] for run in runs), runs[0][2], runs[0][3]

    base_cpu, base_memory, base_bytes, _ = measure(1)
    print(f"one attempt: {base_cpu:.2f} CPU s, {base_memory:.0f} MB, {base_bytes:,} bytes")
    print(f"{'attempts':>9} {'CPU s':>8} {'ms/attempt':>11} {'peak MB':>8} {'bytes/attempt':>14} {'files':>8}")
    for tasks in sizes:
        cpu, memory, size, files = measure(tasks)
        each = (cpu - base_cpu) / tasks * 1000
        print(f"{tasks:>9,} {cpu:>8.2f} {each:>11.3f} {memory:>8.0f} {(size - base_bytes) / tasks:>14.0f} {files:>8,}")


if __name__ == "__main__":
    main()
