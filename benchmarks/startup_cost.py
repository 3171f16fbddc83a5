"""CPU of `proctor --help` above a bare interpreter, in milliseconds (median of some starts, interleaved).

python benchmarks/startup_cost.py [--repeat 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys


def cpu_of(command: list[str]) -> float:
    """Return the user plus system seconds of one process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    commands = {
        "bare interpreter": [sys.executable, "-c", ""],
        "proctor --help": [sys.executable, "-m", "proctor", "--help"],
        "proctor list": [sys.executable, "-m", "proctor", "list"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(arguments.repeat):
        for name, command in commands.items():
            times[name].append(cpu_of(command))
    bare = statistics.median(times["bare interpreter"])
    for name, measured in times.items():
        middle = statistics.median(measured)
        print(f"{name:<18} {middle * 1000:6.0f} ms CPU, {(middle - bare) * 1000:6.0f} ms above bare")


if __name__ == "__main__":
    main()
