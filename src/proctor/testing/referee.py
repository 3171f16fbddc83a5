"""An independent judge of a scheduler: it sees events and commands, and recounts everything from them alone.

It shares no code with `core.scheduler` beyond the data, counts by names where that counts by vectors, and scans where
that keeps heaps. Rules are those of spec 03; each check names its own. The order among slots that may start is not
judged here: for that there is a second scheduler to compare with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proctor.core.commands import CloseLane, Command, OpenLane, ResumeTry, StartGrading, StartTry
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import (
    BackoffEnded,
    Event,
    Interrupted,
    LaneClosed,
    Notice,
    PhaseEnded,
    PhaseStarted,
    RunEvent,
    SandboxDisposed,
    SandboxOpened,
    StopReason,
    StoreFailed,
    TryEnded,
    TryEvent,
)
from proctor.model.ids import AttemptId
from proctor.testing.referee_books import Ledger
from proctor.testing.referee_cases import Case, LaneBook, Live, Place, Violation, require
from proctor.testing.referee_ends import Ends
from proctor.testing.referee_gates import Startable
from proctor.testing.referee_held import held_when, opened

__all__ = ["Referee", "Violation", "require"]


class Referee:
    """Judges one run of a scheduler, answer by answer."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits, *, patience: int = 100) -> None:
        self._ledger = Ledger(plans, limits)
        self._can = Startable(self._ledger)
        self._ends = Ends(self._ledger)
        self._exact = patience >= 100
        """Whether no slot is ever held back for a claimant (O4)."""
        self._ids: set[AttemptId] = set()
        self._retried_last = False
        self._opened_lane: str | None = None

    # --------------------------------------------------------------------------------------------------- seeing

    def see(self, event: Event | Notice | None, commands: Sequence[Command], now: float = 0.0) -> None:
        """Judge the answer to an event; None is the start."""
        ledger, ends = self._ledger, self._ends
        ledger.now = now
        ends.begin(event)
        if isinstance(event, TryEnded):
            ends.try_ended(event)
        elif isinstance(event, LaneClosed):
            self._lane_closed(event)
        elif isinstance(event, RunEvent):
            ends.of_run(event)
        elif isinstance(event, TryEvent) and event.attempt in ledger.live:
            self._reported(event, ledger.live[event.attempt])
        elif event is None or isinstance(event, Interrupted | StoreFailed):
            ends.cut(event)
        for command in commands:
            require(not ends.finished, f"{command} came after the end")
            self._command(command)
        require(self._opened_lane is None, f"lane {self._opened_lane} was opened, and nothing starts in it")
        ends.settle()
        self._settle()

    def end(self) -> None:
        """Judge the whole, after the last event (liveness, and every slot in exactly one place)."""
        ledger = self._ledger
        require(self._ends.finished, "nothing more can happen, and the scheduler has not finished")
        require(not ledger.live and not +ledger.held, f"left at the end: {ledger.live}, {+ledger.held}")
        require(not ledger.lanes, f"left at the end: {ledger.lanes}")
        for case in ledger.cases:
            number = len(case.sealed) + sum(case.stopped.values())
            slots = case.plan.slots - case.plan.reused
            require(number == slots, f"{number} of {slots} slots of {case.plan.name} ended")

    def _reported(self, event: TryEvent, live: Live) -> None:
        ledger = self._ledger
        if isinstance(event, SandboxDisposed):
            if live.sandbox == event.sandbox:
                live.sandbox = None
            return
        require(not live.between, f"{event} between two tries")
        if isinstance(event, PhaseStarted):
            dying = event.phase is Phase.DISPOSE and live.where in ("backing off", "resuming", "waiting for grading")
            require("global" in live.gates or live.cancelled or dying, f"G1: {event} without a global permit")
        if isinstance(event, SandboxOpened):
            opened(ledger, event, live)
        if isinstance(event, PhaseEnded) and event.phase is Phase.DISPOSE:
            live.sandbox = None
        waits = live.where in ("backing off", "resuming") and not isinstance(event, BackoffEnded)
        if not live.cancelled and not waits:
            held_when(ledger, event, live)

    def _lane_closed(self, event: LaneClosed) -> None:
        lane = self._ledger.lanes[event.lane]
        require(lane.closing, f"{event}, and nobody closed it")
        if lane.attempt is None:
            self._ledger.give_all(lane)
            del self._ledger.lanes[event.lane]
        else:
            lane.gone = True

    # ------------------------------------------------------------------------------------------------- commands

    def _command(self, command: Command) -> None:
        match command:
            case StartTry(attempt, _, number):
                if number == 1:
                    require(attempt not in self._ids, f"{command} uses an id again")
                    self._ids.add(attempt)
                    self._start_first(command)
                else:
                    self._start_again(command)
                require(self._opened_lane is None, f"{command} does not use lane {self._opened_lane}")
            case StartGrading(attempt):
                self._start_grading(command, self._ledger.live[attempt])
            case ResumeTry(attempt):
                self._resume(command, self._ledger.live[attempt])
            case OpenLane(lane):
                require(self._opened_lane is None and lane not in self._ledger.lanes, f"{command} comes twice")
                self._opened_lane = lane
            case CloseLane(lane):
                book = self._ledger.lanes[lane]
                running = book.attempt is not None and not self._ledger.live[book.attempt].between
                require(not running and not book.closing, f"{command} while something runs in it")
                book.closing = True
            case _:
                self._ends.command(command)

    def _case_of(self, command: StartTry) -> tuple[Case, Place]:
        case = self._ledger.by_name[command.slot.experiment]
        return case, (command.slot.ordinal, case.plan.task_ids.index(command.slot.task))

    def _pace(self, command: Command, plan: ExperimentPlan, opens: str | None, models: Sequence[str | None]) -> None:
        paces: dict[str, float] = {}
        for model in (None, *models):
            paces |= self._ledger.paces(plan, opens, model)
        require(self._ledger.in_pace(paces), f"G4, G11: {command} is ahead of its pace {paces}")
        self._ledger.paced.update(dict.fromkeys(paces, self._ledger.now))

    def _before_others(self, command: Command, *, gradings: bool = True) -> None:
        resume = self._can.resume()
        require(resume is None, f"B1: {command} went before the resume of @{resume}")
        if gradings:
            grading = self._can.grading()
            require(grading is None, f"B1: {command} went before the grading of @{grading}")

    def _start_first(self, command: StartTry) -> None:
        ledger = self._ledger
        case, place = self._case_of(command)
        plan, task = case.plan, place[1]
        self._before_others(command)
        require(self._can.retry() is None or self._retried_last, f"B1: {command} went before a retry")
        require(case.stage == "open", f"G8, G9: {command}, and the experiment is {case.stage}")
        require(place in case.queued, f"{command} is of no queued slot")
        others = sum(not live.between for _, live in ledger.of_case(case))
        require(ledger.allows(case, others), f"E4: {command} is above the budget")
        if self._can.is_speculative(case, task):
            other = self._can.slot(speculative=False)
            require(other is None or not self._exact, f"E3: {command} went before {other}")
        pool = ledger.pool_of(case, task)
        require((pool is None) == (command.lane is None), f"L1: {command} is in the wrong place")
        only = place in case.regraded
        require(command.grading_only is only, f"T3: {command}, and its work is {'' if only else 'not '}done")
        case.queued.remove(place)
        live = ledger.live[command.attempt] = Live(
            case.index, *place, Counter(), lane=command.lane, only=only, saved=only
        )
        if pool is None:
            ledger.take(live, Counter({f"experiment {plan.name}": 1}))
        self._execute(command, live, plan, pool)
        self._retried_last = False

    def _execute(self, command: StartTry, live: Live, plan: ExperimentPlan, pool: str | None) -> None:
        ledger = self._ledger
        lane_id, opens = command.lane, ledger.opens(plan, live.task, only=live.only)
        if lane_id is not None and pool is not None:
            if self._opened_lane == lane_id:
                lane = ledger.lanes[lane_id] = LaneBook(live.index, pool, Counter(), ledger.now)
                ledger.take(lane, ledger.lane_box(plan, live.task))
            else:
                opens = opens if live.only else None
                lane = ledger.lanes[lane_id]
                require(lane.pool == pool, f"L1: {command} shares a lane with another environment")
                require(lane.attempt in (None, command.attempt) and not lane.closing, f"G7: {command} in a busy lane")
            lane.attempt = command.attempt
            self._opened_lane = None
        models = ledger.models(plan, only=live.only)
        used = {f"model {name}" for name in models} | ({f"provider {opens}"} if opens else set[str]())
        require(ledger.endpoint_free(used), f"B2: {command} uses an endpoint on which all back off")
        self._pace(command, plan, opens, models)
        takes = ledger.grading if live.only else ledger.executing
        ledger.take(live, takes(plan, live.task, lane=lane_id is not None))
        live.where, live.try_number = "grading" if live.only else "executing", command.try_number

    def _start_again(self, command: StartTry) -> None:
        ledger = self._ledger
        live = ledger.live[command.attempt]
        case, place = self._case_of(command)
        require((case.index, *place) == (live.index, live.ordinal, live.task), f"{command} is of another slot")
        require(live.between and not live.cancelled, f"B3: {command} before the try before has ended")
        require(command.try_number == live.try_number + 1 <= 1 + case.plan.retry.max_retries, f"T1: {command}")
        require(command.grading_only is live.next_only, f"T3: {command}, and what there is of it: {live}")
        live.only = command.grading_only
        require(ledger.now >= live.earliest - 1e-6, f"B4: {command} at {ledger.now}, not before {live.earliest}")
        self._before_others(command)
        if self._retried_last and self._exact:
            other = self._can.slot(speculative=False, other_than=live.index)
            require(other is None, f"B1: {command} is the second retry in a row, and {other} could start")
        others = sum(not each.between for _, each in ledger.of_case(case))
        require(ledger.allows(case, others), f"E4: {command} is above the budget")
        pool = ledger.pool_of(case, live.task)
        if live.lane is not None and command.lane != live.lane:
            old = ledger.lanes.pop(live.lane)
            require(old.gone, f"L2: {command} left its lane")
            ledger.give_all(old)
        live.lane = command.lane
        self._execute(command, live, case.plan, pool)
        live.last = None
        self._retried_last = True

    def _start_grading(self, command: StartGrading, live: Live) -> None:
        plan = self._ledger.plan_of(live)
        require(live.where == "waiting for grading" and not live.cancelled, f"{command} was not asked for")
        self._before_others(command, gradings=False)
        require(self._can.grading_fits(live), f"{command} does not fit")
        self._pace(command, plan, plan.graded_at if plan.grading is GradingMode.FRESH else None, (plan.judge,))
        self._ledger.take(live, self._ledger.grading(plan, live.task, lane=live.lane is not None))
        live.where = "grading"

    def _resume(self, command: ResumeTry, live: Live) -> None:
        require(live.where == "resuming" and not live.cancelled, f"{command} was not asked for")
        self._pace(command, self._ledger.plan_of(live), live.refused_open, ())
        self._ledger.take(live, Counter({"global": 1}))
        live.where, live.endpoint, live.refused_open = live.before, None, None

    # ------------------------------------------------------------------------------------------- between events

    def _settle(self) -> None:
        """Judge the state between two events."""
        ledger = self._ledger
        for case in ledger.cases:
            overlap = max(Counter(live.task for _, live in ledger.of_case(case)).values(), default=0)
            require(case.plan.isolated or overlap <= 1, f"G6: attempts of one task of {case.plan.name} overlap")
        if not self._ends.started or self._ends.reason_of_all in (StopReason.INTERRUPT, StopReason.DISK):
            return
        for kind, found in (
            ("resume", self._can.resume()), ("grading", self._can.grading()), ("retry", self._can.retry()),
        ):  # fmt: skip
            require(found is None, f"O3: {kind} of @{found} could start, and nothing did")
        if self._exact:
            for speculative in (False, True):
                slot = self._can.slot(speculative=speculative)
                require(slot is None, f"O3: {slot} could start, and nothing did")
