"""Runs the real scheduler in virtual time against a runtime with faults, all drawn from a seed.

`python -m proctor.testing.simulate --seeds 2000` tries many worlds; `--seed 17` tells the story of one. After every
event the scheduler validates itself, and a referee that knows nothing of it, only commands and events, recounts what
is held and checks what must hold (`Referee`). Whatever is wrong raises `Violation`, which names the seed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from proctor.core.commands import Command, FinishRun, Seal, StartTry, StopDispatch
from proctor.core.scheduler import Scheduler
from proctor.model.events import Event, Interrupted, Notice
from proctor.model.ids import AttemptId
from proctor.testing.referee import Referee, Violation
from proctor.testing.virtual_runtime import Runtime
from proctor.testing.worlds import World, world_of

__all__ = ["Decides", "Report", "Violation", "World", "check", "main", "simulate", "world_of"]


class Decides(Protocol):
    """A scheduler, as a simulation sees it."""

    def start(self, *, now: float) -> list[Command]:
        """Return the first commands."""
        ...

    def handle(self, event: Event | Notice, *, now: float) -> list[Command]:
        """Return what follows from an event."""
        ...

    def validate(self) -> None:
        """Raise if anything is wrong."""
        ...


@dataclass(slots=True)
class Report:
    """What happened in one world: every event and command in order, and how many of each kind."""

    seed: int
    log: list[tuple[float, Event | Notice | Command]] = field(
        default_factory=list[tuple[float, Event | Notice | Command]]
    )
    seen: Counter[str] = field(default_factory=Counter[str])

    def story(self) -> str:
        """Return everything that happened, one line each."""
        return "\n".join(f"{at:9.3f}  {'' if isinstance(i, Command) else '    '}{i}" for at, i in self.log)


MakeScheduler = Callable[[World, Callable[[], AttemptId]], Decides]


def real(world: World, mint: Callable[[], AttemptId]) -> Decides:
    """Make the scheduler that proctor uses."""
    jitter = random.Random(f"jitter {world.seed}").random  # noqa: S311
    return Scheduler(world.plans, world.limits, mint, jitter=jitter, patience=world.patience)


def simulate(world: World, make: MakeScheduler = real) -> Report:
    """Run a world to its end and return what happened; raises `Violation` with the story where a rule is broken."""
    report = Report(world.seed)
    try:
        _simulate(world, make, report)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
        raise Violation(f"seed {world.seed}: {wrong}\n{world}\n{report.story()}") from error
    return report


def _simulate(world: World, make: MakeScheduler, report: Report) -> None:
    minted = itertools.count()
    scheduler = make(world, lambda: f"a{next(minted)}")
    runtime, referee = Runtime(world), Referee(world.plans, world.limits, patience=world.patience)

    def carry_out(event: Event | Notice | None, commands: list[Command]) -> None:
        for command in commands:
            report.log.append((runtime.now, command))
            echo = runtime.obey(command)
            if world.echo and echo is not None and scheduler.handle(echo, now=runtime.now):
                raise Violation(f"{echo} is an echo and was answered")
        scheduler.validate()
        referee.see(event, commands, runtime.now)

    for _ in (at for at in world.interrupts if at < 0):
        early = Interrupted(2)
        report.log.append((runtime.now, early))
        carry_out(early, scheduler.handle(early, now=0.0))
    carry_out(None, scheduler.start(now=0.0))
    while (event := runtime.next_event()) is not None:
        report.log.append((runtime.now, event))
        carry_out(event, scheduler.handle(event, now=runtime.now))
    referee.end()
    for _, item in report.log:
        report.seen[_name(item)] += 1


def _name(item: Event | Notice | Command) -> str:
    if isinstance(item, Seal):
        return f"sealed {item.verdict}" if item.tries else "given up"
    if isinstance(item, StartTry) and item.try_number == 1 and item.grading_only:
        return "only graded"
    if isinstance(item, StartTry) and item.try_number > 1:
        return "retry of grading" if item.grading_only else "retry"
    if isinstance(item, StopDispatch):
        return f"stopped: {item.reason}"
    return f"run {item.completion}" if isinstance(item, FinishRun) else type(item).__name__


def check(seed: int) -> Report:
    """Run the world of a seed twice; raises `Violation` if a rule is broken or the runs differ (O5)."""
    report = simulate(world_of(seed))
    if simulate(world_of(seed)).log != report.log:
        raise Violation(f"seed {seed}: the same world went two ways")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 where a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m proctor.testing.simulate", description="simulate the scheduler")
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many worlds to try (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, metavar="S", help="tell the story of one world")
    given = parser.parse_args(arguments)
    try:
        if given.seed is not None:
            print(world_of(given.seed))
            print(check(given.seed).story())
            return 0
        seen: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.seeds):
            seen += check(seed).seen
    except Violation as violation:
        print(violation, file=sys.stderr)
        return 1
    print(f"{given.seeds} worlds, all rules held")
    for name, number in sorted(seen.items()):
        print(f"{number:10,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
