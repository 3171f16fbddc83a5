"""CPU of carrying finished attempts: `proctor run --reuse` and `proctor plan --reuse` with nothing left to execute.

    python benchmarks/reuse_speed.py [--slots 100,5000] [--repeat 3]

Exits 1 where carrying 100 results costs a second of CPU or more, start of the program included. Each number is the
least of some starts; what `proctor --help` costs is said beside it, to know what of it is the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from startup_cost import cpu_of

LIMIT_SECONDS = 1.0
LIMITED_SLOTS = 100


def least(command: Sequence[str], repeat: int) -> float:
    """Return the least CPU of some starts, in seconds."""
    return min(cpu_of([sys.executable, "-m", "proctor", *command]) for _ in range(repeat))


def main() -> int:
    parser = argparse.ArgumentParser(description="measure what carrying costs")
    parser.add_argument("--slots", default="100,5000", help="numbers of slots, with commas (default: 100,5000)")
    parser.add_argument("--repeat", type=int, default=3, help="starts for each number (default: 3)")
    options = parser.parse_args()
    met = True
    # A program that is installed has its modules compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compiled = tempfile.TemporaryDirectory(prefix="reuse-speed-")
    os.environ["PYTHONPYCACHEPREFIX"] = compiled.name
    for slots in map(int, options.slots.split(",")):
        with tempfile.TemporaryDirectory(prefix="reuse-speed-") as directory:
            settings = ["trivial", "nop", "--set", f"benchmark.params.tasks={slots}"]
            place = ["--results-dir", str(Path(directory, "results"))]
            first = ["run", *settings, *place, "--progress", "none", "--no-attempt-files"]
            cpu_of([sys.executable, "-m", "proctor", *first])
            planned = least(["plan", *settings, *place, "--reuse"], options.repeat)
            carried = least([*first, "--reuse"], options.repeat)
        print(f"plan of {slots:>6,} slots         {planned:7.2f} s of CPU")
        print(f"run  of {slots:>6,} slots carried {carried:7.2f} s of CPU")
        met = met and (slots > LIMITED_SLOTS or carried < LIMIT_SECONDS)
    print(f"{'proctor --help':<28} {least(['--help'], options.repeat):7.2f} s of CPU")
    compiled.cleanup()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
