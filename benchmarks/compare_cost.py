"""What `proctor compare` of two large runs takes, and what the end of such a run does: CPU seconds of each step.

python benchmarks/compare_cost.py [--tasks 25000] [--attempts 4] [--keep DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from proctor.report.compare import all_versus
from proctor.report.metrics_text import metrics_of_view
from proctor.report.summary import summary_of
from proctor.store.layout import RunLayout
from proctor.viewer.run_read import read_run
from proctor.viewer.run_skim import compared, skimmed
from viewer_cost import make

RUNS = ("one/20261201_000000", "two/20261201_000000")

T = TypeVar("T")


def timed(what: str, step: Callable[[], T]) -> T:
    """Do a step and print what it took."""
    begin = time.process_time()
    done = step()
    print(f"{what:<44}{time.process_time() - begin:7.2f} s CPU", flush=True)
    return done


def main() -> None:
    """Print a line for each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=25_000)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--keep", metavar="DIR", help="Make the runs here, or use those that are here.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(arguments.keep or folder)
        layouts = [RunLayout(root / run) for run in RUNS]
        for seed, layout in enumerate(layouts):
            if not layout.journal.is_file():
                make(root, arguments.tasks, arguments.attempts, run=RUNS[seed], seed=seed)
        size = sum(layout.journal.stat().st_size for layout in layouts) / 1e6
        print(f"two runs of {arguments.tasks * arguments.attempts:,} attempts, journals of {size:.0f} MB")
        timed("an addition, 3 million times", lambda: sum(number for number in range(3_000_000)))
        sides = [timed("compare: read a run", lambda one=layout: compared(one.directory)[0]) for layout in layouts]
        timed("compare: their tasks", lambda: all_versus(sides))
        timed("of that the journal of a run", lambda: skimmed(layouts[0].journal, ""))
        view = timed("the whole fold of a run, for comparison", lambda: read_run(layouts[0].directory)).view
        timed("metrics at the end of a run", lambda: metrics_of_view(view))
        timed("all that its summary says", lambda: summary_of(view, run="r", directory="d"))


if __name__ == "__main__":
    main()
