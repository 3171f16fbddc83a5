"""Measures how many decisions the scheduler makes per second of CPU time: starts of tries and of gradings (spec 12).

Every world is run to its end by the shortest possible runtime: whatever starts ends again, in the order of starting.
`--events` feeds all events of a try, not its end alone. Run it as `python benchmarks/scheduler_speed.py`.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections import deque
from collections.abc import Iterator

from proctor.core.commands import Command, Finish, StartGrading, StartTry
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import Grade, GradingMode, Outcome, Phase, TryResult
from proctor.model.events import Event, GradingQueued, PhaseEnded, PhaseStarted, Purpose, SandboxOpened, TryEnded

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
PHASES = (Phase.SETUP, Phase.AGENT, Phase.COLLECT)


def plans_of(kind: str, experiments: int, queued: int) -> list[ExperimentPlan]:
    """Make plans with `queued` slots in all, two attempts for each task."""
    tasks = max(1, queued // experiments // 2)
    ids = tuple(f"task/{index}" for index in range(tasks))
    plain = kind == "plain"
    return [
        ExperimentPlan(
            name=f"experiment-{index}",
            task_ids=ids,
            attempts=2,
            provider=f"provider-{index % 4}",
            agent_sandbox=tuple(not plain and (task + index) % 3 > 0 for task in range(tasks)),
            grading=GradingMode.FRESH if kind == "mixed" and index % 3 == 0 else GradingMode.NONE,
            isolated=plain or index % 2 == 0,
            max_concurrency=None if plain else 1 + index % 4,
        )
        for index in range(experiments)
    ]


def agent_part(start: StartTry, *, sandbox: bool) -> Iterator[Event]:
    if sandbox:
        yield SandboxOpened(start.attempt, start.try_number, "sandbox", Purpose.AGENT)
    for phase in PHASES:
        yield PhaseStarted(start.attempt, phase)
        yield PhaseEnded(start.attempt, phase, 0.0)
    if sandbox:
        yield PhaseEnded(start.attempt, Phase.DISPOSE, 0.0)


def run(plans: list[ExperimentPlan], limits: GateLimits, *, all_events: bool) -> tuple[int, int, float]:
    """Return (decisions, events, CPU seconds spent in the scheduler and in this loop)."""
    number = itertools.count()
    scheduler = Scheduler(plans, limits, lambda: f"a{next(number)}")
    by_name = {plan.name: plan for plan in plans}
    places = {name: {task: i for i, task in enumerate(plan.task_ids)} for name, plan in by_name.items()}
    ongoing: deque[tuple[StartTry, bool]] = deque()
    tries: dict[str, StartTry] = {}
    decisions = events = 0
    began = time.process_time()
    commands: list[Command] = scheduler.start(now=0.0)
    finished = False
    while not finished:
        for command in commands:
            if isinstance(command, StartTry):
                tries[command.attempt] = command
                ongoing.append((command, False))
                decisions += 1
            elif isinstance(command, StartGrading):
                ongoing.append((tries[command.attempt], True))
                decisions += 1
            elif isinstance(command, Finish):
                finished = True
        if finished:
            break
        start, graded = ongoing.popleft()
        plan = by_name[start.slot.experiment]
        pending: list[Event] = []
        if not graded and (all_events or plan.grading is GradingMode.FRESH):
            sandbox = plan.agent_sandbox[places[plan.name][start.slot.task]]
            pending = list(agent_part(start, sandbox=sandbox))
        if plan.grading is GradingMode.FRESH and not graded:
            pending.append(GradingQueued(start.attempt))
        else:
            pending.append(TryEnded(start.attempt, start.try_number, PASSED))
            del tries[start.attempt]
        commands = []
        for event in pending:
            commands += scheduler.handle(event, now=0.0)
        events += len(pending)
    return decisions, events, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=10_000, help="slots in all (default: 10000)")
    parser.add_argument("--experiments", type=int, default=50, help="experiments (default: 50)")
    parser.add_argument("--events", action="store_true", help="feed all events of each try, not its end alone")
    given = parser.parse_args()
    for kind in ("plain", "capped", "mixed"):
        plans = plans_of(kind, given.experiments, given.queued)
        limits = GateLimits(64, {"provider-0": 8, "provider-1": 16, "provider-2": 32})
        decisions, events, seconds = run(plans, limits, all_events=given.events)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{kind:7} {decisions:9,} decisions {events:10,} events {seconds:7.3f} s CPU"
            f" {decisions / seconds:9,.0f} decisions/s {events / seconds:9,.0f} events/s  peak {peak:.0f} MB"
        )


if __name__ == "__main__":
    main()
