"""The script of one try for an exploration: what it has still to report, and the ways in which it may end."""

from __future__ import annotations

from proctor.core.commands import StartTry
from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Outcome, Phase, TryResult, issue_of
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    Event,
    GradingQueued,
    PhaseEnded,
    TryEnded,
    WorkCheckpointed,
)
from proctor.testing.worlds import World


def _broken(code: str, phase: Phase) -> TryResult:
    return TryResult(Outcome.BROKEN, issues=(issue_of(code, "explored", phase),))


_ENDS = {
    "passed": TryResult(Outcome.GRADED, Grade(solved=True, score=1.0)),
    "lost": _broken("provider.lost", Phase.AGENT),
    "ungraded": _broken("grader.crashed", Phase.GRADE),
    "spoiled": _broken("grader.crashed", Phase.GRADE),
    "damaged": _broken("checkpoint.damaged", Phase.GRADE),
    "task fatal": _broken("task.fatal", Phase.SETUP),
    "experiment fatal": _broken("experiment.fatal", Phase.AGENT),
    "cancelled": TryResult(Outcome.CANCELLED),
}


class Script:
    """What one try has still to report. It ends in the ways that its world has faults for.

    `in_box` says of a try in a lane that a sandbox is there.
    """

    def __init__(self, world: World, start: StartTry, *, in_box: bool) -> None:
        plan = next(plan for plan in world.plans if plan.name == start.slot.experiment)
        sandbox = plan.agent_sandbox[plan.task_ids.index(start.slot.task)]
        self.start = start
        self.steps: list[str] = ["backoff", "backed off"] if world.backoff_rate and start.try_number == 1 else []
        if not start.grading_only:
            if world.grading_fault_rate and plan.grading is not GradingMode.REUSE:
                self.steps.append("saved")
            if sandbox and start.lane is None and plan.grading is not GradingMode.REUSE:
                self.steps.append("disposed")
            if plan.grading is GradingMode.FRESH or (plan.grading is GradingMode.NONE and plan.judge):
                self.steps.append("queue")
        self.steps.append("end")
        self.ends = ["passed"]
        if world.fault_rate and start.try_number == 1:
            self.ends.append("lost")
        if world.severe_rate and start.try_number == 1 and not start.grading_only:
            self.ends += ["task fatal", "experiment fatal"]
        if world.grading_fault_rate and start.try_number <= plan.retry.max_retries:
            self.ends.append("ungraded")
            if start.grading_only:
                self.ends.append("damaged")
            elif start.lane is not None:
                self.ends.append("spoiled")
        self._usable = {"passed", "ungraded", "damaged", "task fatal"} if in_box else set[str]()
        self.waits = False
        self.cancelled = False

    def moves(self) -> list[str]:
        """Return what it can do next."""
        if self.cancelled:
            return ["cancelled"]
        if self.waits:
            return []
        return [self.steps[0]] if self.steps[0] != "end" else self.ends

    def event(self, how: str) -> Event:
        """Do something, and return what it reports."""
        attempt, number = self.start.attempt, self.start.try_number
        if how in _ENDS:
            return TryEnded(attempt, number, _ENDS[how], sandbox_reusable=how in self._usable)
        self.steps.pop(0)
        self.waits = how in ("backed off", "queue")
        match how:
            case "backoff":
                return BackoffStarted(attempt, "model.overloaded", 1.0)
            case "backed off":
                return BackoffEnded(attempt, 1.0)
            case "saved":
                return WorkCheckpointed(attempt, number, None, NO_USAGE)
            case "queue":
                return GradingQueued(attempt)
            case _:
                return PhaseEnded(attempt, Phase.DISPOSE, 0.0)
