"""The events of whole invocations, as journals hold them: the real scheduler against a virtual runtime, from a seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from proctor.core.commands import Command, FinishRun, Seal, StopDispatch
from proctor.core.schedule import Filling
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import Verdict
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    Interrupted,
    IssueRaised,
    Notice,
    RunEnded,
    RunStarted,
    SlotFilled,
)
from proctor.testing.virtual_runtime import Runtime
from proctor.testing.worlds import World

EPOCH = 1_000_000.0

Told = tuple[str, Event, float]
"""(experiment, event, moment)."""


class Invocation:
    """Runs a world, step by step; each step is the events that one turn of the loop writes down."""

    def __init__(self, world: World) -> None:
        minted = itertools.count()
        self.world = world
        self.scheduler = Scheduler(world.plans, world.limits, lambda: f"a{next(minted)}", patience=world.patience)
        self.runtime = Runtime(world)
        self._of: dict[str, str] = {}
        self.waited: dict[str, dict[str, float]] = {}

    @property
    def now(self) -> float:
        return EPOCH + self.runtime.now

    def steps(self) -> Iterator[list[Told]]:
        world = self.world
        yield [each for plan in world.plans for each in self._opening(plan)]
        step: list[Told] = []
        for _ in (at for at in world.interrupts if at < 0):
            early = Interrupted(2)
            step += [(plan.name, early, self.now) for plan in world.plans]
            step += self._carried_out(self.scheduler.handle(early, now=0.0))
        step += self._carried_out(self.scheduler.start(now=0.0))
        yield step
        while (event := self.runtime.next_event()) is not None:
            step = list(self._written(event))
            step += self._carried_out(self.scheduler.handle(event, now=self.runtime.now))
            yield step

    def _opening(self, plan) -> Iterator[Told]:
        started = RunStarted(
            1, "i", f"run-{plan.name}", plan.name, "0", "h", 1, plan.slots, len(plan.task_ids), plan.early_exit
        )
        yield plan.name, started, self.now
        for number, slot in enumerate(plan.decided):
            if slot.filling is not Filling.GRADING_ONLY:
                verdict = Verdict.PASSED if slot.filling is Filling.REUSED_PASSED or number % 2 else Verdict.FAILED
                task = plan.task_ids[slot.task]
                filled = SlotFilled(f"r{plan.name}{number}", task, slot.ordinal, "m/r", verdict, 1.0)
                yield plan.name, filled, self.now

    def _written(self, event: Event | Notice) -> Iterator[Told]:
        if isinstance(event, Notice):
            return
        if isinstance(event, Interrupted):
            yield from ((plan.name, event, self.now) for plan in self.world.plans)
            return
        experiment = getattr(event, "experiment", None) or self._of.get(getattr(event, "attempt", ""))
        if experiment is not None:
            yield experiment, event, self.now

    def _carried_out(self, commands: list[Command]) -> list[Told]:
        found: list[Told] = []
        for command in commands:
            echo = self.runtime.obey(command)
            match command:
                case Seal(attempt, slot, verdict, score, tries, issue):
                    self._of.pop(attempt, None)
                    if issue is not None:
                        found.append((slot.experiment, IssueRaised(attempt, issue), self.now))
                    echo = AttemptSealed(attempt, slot.task, slot.ordinal, verdict, score, tries)
                    found.append((slot.experiment, echo, self.now))
                case StopDispatch(name, reason, slots):
                    found.append((name, DispatchStopped(name, reason, slots), self.now))
                case FinishRun(name, completion):
                    found.append((name, RunEnded(name, completion, self.waited.get(name, {})), self.now))
                case _ if echo is not None:
                    if hasattr(command, "slot"):
                        self._of[command.attempt] = command.slot.experiment
                    found.append((self._of[command.attempt], echo, self.now))
                case _:
                    pass
        return found
