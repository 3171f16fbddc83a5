"""What `progress.json` and the estimate cost while a run goes on: CPU as a share of one core, by attempts in flight.

python benchmarks/progress_cost.py [--seconds 30] [--in-flight 1 1000 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from proctor.cli.estimating import Estimator
from proctor.cli.progress_writer import ProgressWriter
from proctor.core.expectations import Sample
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import Phase
from proctor.model.events import Event, PhaseStarted, RunStarted, TryStarted
from proctor.model.spec import TimeLimits
from proctor.report.view import RunView
from proctor.runtime.backoff import Backoff
from proctor.runtime.clock import SystemClock
from proctor.runtime.countdown import Countdown


async def measure(in_flight: int, seconds: float, folder: Path) -> None:
    clock, tries = SystemClock(), {}
    names = tuple(f"task-{number}" for number in range(10 * in_flight))
    plan = ExperimentPlan("e", names, 1, "local", (False,) * len(names))
    view = RunView("e")
    known = {"e": {names[0]: [Sample(600.0, cost_usd=0.1)] * 3}}
    estimator = Estimator([plan], GateLimits(task_concurrency=in_flight), known, {"e": view}, clock)

    def take(event: Event) -> None:
        view.add(event, clock.wall())
        estimator.take([("e", event, clock.wall())])

    take(RunStarted(1, "i", "r", "e", "0", "host", 1, len(names)))
    for number in range(in_flight):
        attempt = f"a{number:011d}"
        take(TryStarted(attempt, names[number], 0, 1))
        take(PhaseStarted(attempt, Phase.AGENT))
        backoff = tries[attempt] = Backoff(attempt, lambda event: None, clock)
        backoff.countdown = Countdown(
            attempt, Phase.AGENT, activity=backoff.activity, seconds=1200.0, idle_seconds=300.0
        )
    room: Any = SimpleNamespace(
        writer=SimpleNamespace(run_id="r", layout=SimpleNamespace(progress=folder / "progress.json")),
        resolved=SimpleNamespace(experiment=SimpleNamespace(limits=TimeLimits())),
    )
    writer = ProgressWriter("i", {"e": room}, {"e": view}, clock, estimator)
    writer.sight = lambda attempt: tries[attempt].sight()
    work = [asyncio.create_task(writer.write_forever()), asyncio.create_task(estimator.estimate_forever())]
    await asyncio.sleep(1.0)  # the first ones are written before it is known what they cost
    cpu, since = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    share = (time.process_time() - cpu) / (time.monotonic() - since)
    size = (folder / "progress.json").stat().st_size
    for task in work:
        task.cancel()
    await writer.end()
    print(f"{in_flight:>7,} in flight: {share:7.3%} of a core, {size / 1024:8.1f} KiB, each {writer._every:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 1_000, 10_000])
    arguments = parser.parse_args()
    for in_flight in arguments.in_flight:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(in_flight, arguments.seconds, Path(folder)))


if __name__ == "__main__":
    main()
