"""The scheduler: events in, commands out (spec 03). No I/O, no clock, no tasks; only `start` and `handle` change it.

The protocol of a try, as the runtime has to keep it:

- `StartTry` is answered by what the try reports: sandboxes, phases, issues, and at last `TryEnded`, once.
- Grading `none`: `PhaseEnded(dispose)` of the agent's part returns the provider's permit, `TryEnded` the rest.
- Grading `reuse`: `TryEnded` returns everything.
- Grading `fresh`: when the agent's sandbox is gone (`PhaseEnded(dispose)`) the try sends `GradingQueued`; now it holds
  nothing that others share. It goes on, and opens its own sandbox, when `StartGrading` comes.
- `CancelTry` comes at most once for a try, also for one that waits for grading. It is answered by `TryEnded`.

Events that only echo commands (`RunStarted`, `TryStarted`, `GradingStarted`, `AttemptSealed`, `DispatchStopped`,
`RunEnded`) are accepted and change nothing. Of the commands of one answer `Seal` comes first, then `StopDispatch` and
`CancelTry`, then what starts, then `FinishRun`, and `Finish` last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proctor.core import failure
from proctor.core.books import Attempt, Books, Run, Snapshot
from proctor.core.commands import CancelTry, Command, Finish, FinishRun, Seal, StartGrading, StartTry, StopDispatch
from proctor.core.gates import NOTHING, Demand, GateLimits
from proctor.core.lifecycle import State, Step, advance, step_of
from proctor.core.order import Line
from proctor.core.plan import ExperimentPlan
from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, TryResult, Verdict, verdict_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    Event,
    GradingStarted,
    Interrupted,
    RunEnded,
    RunStarted,
    SandboxDisposed,
    SandboxOpened,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId

_ECHOES = (RunStarted, TryStarted, GradingStarted, AttemptSealed, DispatchStopped, RunEnded)


class Scheduler:
    """Decides what happens next.

    Experiments come in plan order and their names must differ. `mint` gives the id of each attempt; ids must differ.
    Whatever cannot happen raises `InternalError` with the story of the attempt; the scheduler is of no use afterwards.
    """

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits, mint: Callable[[], AttemptId]) -> None:
        self._mint = mint
        self._books = Books(plans, limits)
        self._gates = self._books.gates
        self._started = self._interrupted = self._finished = False
        self._unfinished = len(plans)

    def snapshot(self) -> Snapshot:
        """Return the state of all gates and experiments now; it never changes afterwards."""
        return self._books.snapshot()

    def validate(self) -> None:
        """Check everything that must hold between two events; raises `InternalError` where it does not."""
        self._books.audit()
        if self._started and not self._interrupted:
            idle = self._gates.fits(self._books.global_permit) and self._next_grading() is None
            if idle and self._next_slot() is not None:
                raise InternalError("a slot could start and does not")
        left = sum(run.completion is None for run in self._books.runs)
        if left != self._unfinished or (self._finished and left):
            raise InternalError(f"{left} experiments are unfinished, counted {self._unfinished}")

    # ------------------------------------------------------------------------------------------ what comes in

    def start(self, *, now: float) -> list[Command]:
        """Begin: return the first commands. To be called once; `Interrupted` may have come in before."""
        if self._started:
            raise InternalError("the scheduler was started twice")
        self._started = True
        commands: list[Command] = []
        if self._interrupted:
            self._stop(self._books.runs, StopReason.INTERRUPT, commands)
        self._go_on(now, commands, self._books.runs)
        return commands

    def handle(self, event: Event, *, now: float) -> list[Command]:
        """Take one event into account and return what follows, in the order in which it is to be done."""
        if isinstance(event, _ECHOES):
            return []
        if isinstance(event, Interrupted):
            return self._interrupt(now)
        attempt = self._books.in_flight.get(event.attempt)
        if attempt is None:
            if isinstance(event, SandboxDisposed):
                return []  # a disposal that had run out of time came to its end after all
            raise InternalError(f"{event} came in, but {self._books.story_of(event.attempt)}")
        attempt.story.append((now, event))
        step = step_of(event)
        self._advance(attempt, step)
        if isinstance(event, TryEnded):
            return self._try_ended(attempt, event, now)
        if isinstance(event, SandboxOpened):
            self._check_opened(attempt, event, step)
        commands: list[Command] = []
        if self._return_permits(attempt, step):
            self._go_on(now, commands, ())
        return commands

    def _advance(self, attempt: Attempt, step: Step) -> None:
        try:
            attempt.state = advance(attempt.run.plan.grading, attempt.state, step)
        except InternalError as error:
            raise _impossible(error.message, attempt) from None

    def _check_opened(self, attempt: Attempt, event: SandboxOpened, step: Step) -> None:
        if event.try_number != attempt.try_number:
            raise _impossible(f"try {event.try_number} opened a sandbox during try {attempt.try_number}", attempt)
        if step is Step.AGENT_SANDBOX_OPENED and not attempt.run.plan.agent_sandbox[attempt.task]:
            raise _impossible("a sandbox was opened for a task that was planned without, so under no permit", attempt)

    def _return_permits(self, attempt: Attempt, step: Step) -> bool:
        """Give back what the table "what is held when" says at a step inside a try; say whether that was anything."""
        if attempt.state is State.GRADING_QUEUED and step is Step.QUEUE_GRADING:
            self._books.gradings.put(attempt.id, self._books.sandbox_demand(attempt.run))
            keep: Demand = NOTHING
        elif attempt.state is State.SANDBOX_GONE and attempt.run.plan.grading is not GradingMode.REUSE:
            keep = self._books.global_permit
        else:
            return False
        if attempt.held == keep:
            return False
        self._gates.give(tuple(permit for permit in attempt.held if permit not in keep))
        attempt.held = keep
        return True

    def _try_ended(self, attempt: Attempt, event: TryEnded, now: float) -> list[Command]:
        run, books = attempt.run, self._books
        if event.try_number != attempt.try_number:
            raise _impossible(f"try {event.try_number} ended during try {attempt.try_number}", attempt)
        if isinstance(failure.after_try(event.result, attempt.try_number), failure.Retry):
            raise _impossible("a retry was decided, and nothing schedules one", attempt)
        books.gradings.discard(attempt.id, books.sandbox_demand(run))
        del books.in_flight[attempt.id]
        books.ended.append(attempt)
        self._gates.give(attempt.held)
        self._gates.give(run.own)
        attempt.held = NOTHING
        run.in_flight -= 1
        run.sealed += 1
        attempt.slots.freed(attempt.ordinal, attempt.task)
        for line, slots in run.parts.items():
            if slots.ready:
                line.offer(run.index)
        commands: list[Command] = [_seal(attempt, event.result)]
        touched: Sequence[Run] = (run,)
        stop = run.streak.observe(event.result)
        if stop is not None:
            touched = books.runs if stop.reach is failure.Reach.INVOCATION else touched
            self._stop(touched, stop.reason, commands)
        self._go_on(now, commands, touched)
        return commands

    def _interrupt(self, now: float) -> list[Command]:
        """Stop everything, once; a second interrupt is the runtime's affair. Before `start`, wait for that."""
        if self._interrupted or self._finished:
            return []
        self._interrupted = True
        if not self._started:
            return []
        commands: list[Command] = []
        self._stop(self._books.runs, StopReason.INTERRUPT, commands)
        self._books.gradings.clear()
        for attempt in self._books.in_flight.values():
            attempt.story.append((now, "cancel"))
            self._advance(attempt, Step.CANCEL)
            commands.append(CancelTry(attempt.id))
        self._go_on(now, commands, self._books.runs)
        return commands

    def _stop(self, runs: Sequence[Run], reason: StopReason, commands: list[Command]) -> None:
        for run in runs:
            dropped = sum(slots.clear() for slots in run.parts.values())
            if dropped:
                run.stopped[reason] = run.stopped.get(reason, 0) + dropped
                commands.append(StopDispatch(run.plan.name, reason, dropped))

    # --------------------------------------------------------------------------------------------- what goes out

    def _go_on(self, now: float, commands: list[Command], touched: Sequence[Run]) -> None:
        """Start what can start; then finish those of the touched experiments, and all, that have nothing left."""
        if not self._interrupted:
            self._admit(now, commands)
        for run in touched:
            if run.completion is None and not run.in_flight and not run.queued:
                run.completion = self._completion(run)
                self._unfinished -= 1
                commands.append(FinishRun(run.plan.name, run.completion))
        if self._unfinished == 0 and not self._finished:
            self._finished = True
            commands.append(Finish())

    def _completion(self, run: Run) -> Completion:
        if self._interrupted:
            return Completion.INTERRUPTED
        return Completion.STOPPED if run.stopped else Completion.COMPLETE

    def _admit(self, now: float, commands: list[Command]) -> None:
        """Start gradings, then slots, while any fits (O3); each choice is made anew, with what is left."""
        while self._gates.fits(self._books.global_permit):
            grading = self._next_grading()
            if grading is not None:
                commands.append(self._start_grading(grading, now))
                continue
            chosen = self._next_slot()
            if chosen is None:
                return
            commands.append(self._start_try(*chosen, now))

    def _next_grading(self) -> Attempt | None:
        attempt_id = self._books.gradings.first(self._gates)
        return None if attempt_id is None else self._books.in_flight[attempt_id]

    def _next_slot(self) -> tuple[Run, Line] | None:
        """Return the experiment and the line of the first slot in order among those whose whole vector fits."""
        best: tuple[Run, Line] | None = None
        for line in self._books.lines:
            if not self._gates.fits(line.demand):
                continue
            run = self._head(line)
            if run is None:
                continue
            if best is None or _place(run, line) < _place(*best):
                best = run, line
        return best

    def _head(self, line: Line) -> Run | None:
        """Return the first experiment in line that can start a slot as far as its own gates go."""
        while (index := line.head()) is not None:
            run = self._books.runs[index]
            if run.parts[line].ready and self._gates.fits(run.own):
                return run
            line.leave()
        return None

    def _start_try(self, run: Run, line: Line, now: float) -> StartTry:
        slots = run.parts[line]
        ordinal, task = slots.pop()
        attempt = Attempt(self._mint(), run, slots, task, ordinal)
        if attempt.id in self._books.in_flight:
            raise _impossible("its id was given out before", attempt)
        self._take(line.demand + run.own, attempt)
        attempt.held = line.demand
        attempt.story.append((now, "start try"))
        self._books.in_flight[attempt.id] = attempt
        run.in_flight += 1
        return StartTry(attempt.id, run.plan.slot(task, ordinal), attempt.try_number)

    def _start_grading(self, attempt: Attempt, now: float) -> StartGrading:
        demand = self._books.sandbox_demand(attempt.run)
        self._books.gradings.discard(attempt.id, demand)
        self._take(demand, attempt)
        attempt.held = demand
        attempt.story.append((now, "start grading"))
        self._advance(attempt, Step.GRANT)
        return StartGrading(attempt.id)

    def _take(self, demand: Demand, attempt: Attempt) -> None:
        if not self._gates.take(demand):
            raise _impossible(f"gate `{self._gates.blocker(demand)}` has no room for what was chosen", attempt)


def _seal(attempt: Attempt, result: TryResult) -> Seal:
    verdict = verdict_of(result)
    slot = attempt.run.plan.slot(attempt.task, attempt.ordinal)
    scored = verdict in (Verdict.PASSED, Verdict.FAILED)
    score = result.grade.score if scored and result.grade is not None else None
    return Seal(attempt.id, slot, verdict, score, attempt.try_number)


def _place(run: Run, line: Line) -> tuple[int, int]:
    return run.index, run.parts[line].first()


def _impossible(what: str, attempt: Attempt) -> InternalError:
    story = attempt.tell()
    return InternalError(f"{what}; the story of the attempt: {story}", hint="keep the run directory and report it")
