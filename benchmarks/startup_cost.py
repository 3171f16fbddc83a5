"""CPU of what every start costs above a bare interpreter, in milliseconds (least and median, interleaved).

Besides `--help` and `list` it is a run with nothing to execute: all of its 100 slots are reused.

python benchmarks/startup_cost.py [--repeat 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def cpu_of(command: list[str], folder: str) -> float:
    """Return the user plus system seconds of one process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    proctor = [sys.executable, "-m", "proctor"]
    run = [*proctor, "run", "trivial", "oracle", "--set", "benchmark.params.tasks=100", "--progress", "none"]
    commands = {
        "bare interpreter": [sys.executable, "-c", ""],
        "proctor --help": [*proctor, "--help"],
        "proctor list": [*proctor, "list"],
        "run of 100, all reused": [*run, "--reuse"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        cpu_of(run, folder)
        for _ in range(arguments.repeat):
            for name, command in commands.items():
                times[name].append(cpu_of(command, folder))
    bare = statistics.median(times["bare interpreter"])
    for name, measured in times.items():
        middle = statistics.median(measured)
        least = min(measured) * 1000
        print(f"{name:<22} {least:6.0f} to {middle * 1000:6.0f} ms CPU, {(middle - bare) * 1000:6.0f} ms above bare")


if __name__ == "__main__":
    main()
