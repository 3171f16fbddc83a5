"""What the panel costs: CPU of one frame, of redrawing it, and as a share of one core while a large run goes on.

    python benchmarks/panel_cost.py [--attempts 10000] [--flying 1000] [--frames 200]

A run of 10,000 attempts with 1,000 in flight is folded from events. Between two frames so many events come in as would
in a quarter of a second. CPU seconds of this process; `share` is what frames cost at the rate at which they are drawn,
which the panel itself lowers where a frame takes long. What the scheduler is asked for each frame is measured with it.
The longest frame is one in which Python collected its garbage.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time

from proctor.cli.live_panel import CPU_SHARE, USUAL_SECONDS
from proctor.core.commands import StartTry
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Verdict
from proctor.model.events import AttemptSealed, PhaseStarted, RunStarted, TryEnded, TryStarted
from proctor.report.health import CallStats, Health, HostLoad
from proctor.report.panel import Look, Page, frame
from proctor.report.panel_screen import Screen
from proctor.report.sign import Sign
from proctor.report.view import RunView

PASSED = TryResult(Outcome.GRADED, Grade(True, 1.0))
EVENTS_PER_FRAME = 200


class Crowd:
    """A run with a given number of attempts in flight, whose oldest ends when there is something to change."""

    def __init__(self, attempts: int, flying: int, experiments: int) -> None:
        tasks = tuple(f"task/{number}" for number in range(attempts // experiments))
        plans = [
            ExperimentPlan(f"e{number}", tasks, 1, "docker", (True,) * len(tasks)) for number in range(experiments)
        ]
        ids = itertools.count()
        self.scheduler = Scheduler(plans, GateLimits(flying, {"docker": 0}), lambda: f"a{next(ids)}")
        self.views = {plan.name: RunView(plan.name) for plan in plans}
        self.now = 1_000_000.0
        for plan in plans:
            self.views[plan.name].add(RunStarted(1, "i", "r", plan.name, "0", "h", 1, plan.slots, len(tasks)), self.now)
        self.flying: list[StartTry] = []
        self.start([c for c in self.scheduler.start(now=self.now) if isinstance(c, StartTry)])

    def start(self, commands: list[StartTry]) -> None:
        for command in commands:
            slot = command.slot
            self.now += 0.001
            view = self.views[slot.experiment]
            view.add(TryStarted(command.attempt, slot.task, slot.ordinal, 1), self.now)
            view.add(PhaseStarted(command.attempt, Phase.AGENT), self.now)
            self.flying.append(command)

    def change(self, attempts: int) -> None:
        for _ in range(min(attempts, len(self.flying))):
            first = self.flying.pop(0)
            slot, view = first.slot, self.views[first.slot.experiment]
            ended = TryEnded(first.attempt, 1, PASSED)
            commands = self.scheduler.handle(ended, now=self.now)
            view.add(ended, self.now)
            view.add(AttemptSealed(first.attempt, slot.task, slot.ordinal, Verdict.PASSED, 1.0, 1), self.now)
            self.start([c for c in commands if isinstance(c, StartTry)])

    def page(self) -> Page:
        return Page(
            now=self.now,
            views=self.views,
            plan=["10,000 attempts", "concurrency 1000 (from flag)"],
            waiting=self.scheduler.waiting(now=self.now),
            health=Health(2.1, CallStats(50, 3.2, 2, 1), HostLoad(0.35, 0.62)),
            sight=lambda _: Sign(4.0, 1200.0),
        )


def measure(crowd: Crowd, frames: int, look: Look, changes: int) -> list[float]:
    """Return the CPU seconds of each frame, events not counted."""
    screen, found = Screen(colour=True), list[float]()
    for _ in range(frames):
        crowd.change(changes)
        crowd.now += USUAL_SECONDS
        began = time.process_time()
        screen.draw(frame(crowd.page(), look), look.width)
        found.append(time.process_time() - began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--flying", type=int, default=1_000)
    parser.add_argument("--experiments", type=int, default=1)
    parser.add_argument("--frames", type=int, default=100)
    arguments = parser.parse_args()
    print(f"{arguments.attempts:,} attempts, {arguments.flying:,} in flight, {arguments.experiments:,} experiments")
    print(
        f"{'terminal':>10} {'median ms':>10} {'95 % ms':>8} {'longest ms':>11} {'frames/s':>9} {'share of a core':>16}"
    )
    for width, height in ((80, 24), (120, 40), (200, 60)):
        crowd = Crowd(arguments.attempts, arguments.flying, arguments.experiments)
        found = measure(crowd, arguments.frames, Look(width, height - 1), EVENTS_PER_FRAME // 4)
        middle = statistics.median(found)
        pause = max(USUAL_SECONDS, middle / CPU_SHARE)
        size, most = f"{width}x{height}", sorted(found)[len(found) * 95 // 100]
        numbers = f"{middle * 1e3:>10.2f} {most * 1e3:>8.2f} {max(found) * 1e3:>11.2f}"
        print(f"{size:>10} {numbers} {1 / pause:>9.1f} {middle / pause:>15.2%}")


if __name__ == "__main__":
    main()
