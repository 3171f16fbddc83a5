"""What ends, by the rules: attempts, tries, early exit, budgets, leases, and runs (a referee's part)."""

from __future__ import annotations

from proctor.core.commands import (
    AcquireLease,
    CancelTry,
    Command,
    Finish,
    FinishRun,
    ReleaseLease,
    RunSetup,
    RunTeardown,
    Seal,
    StopDispatch,
    WakeAt,
)
from proctor.core.schedule import Filling, OnUnavailable
from proctor.model.attempt import GradingMode, Verdict
from proctor.model.events import (
    Completion,
    Event,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    Notice,
    RunEvent,
    SetupEnded,
    StopReason,
    StoreFailed,
    TeardownEnded,
    TryEnded,
)
from proctor.model.ids import AttemptId
from proctor.testing.referee_books import Ledger
from proctor.testing.referee_cases import Case, Live, Violation, require
from proctor.testing.referee_scopes import Scopes, of_tasks, uses
from proctor.testing.referee_tries import deserves_another, spend, verdict_of_try, wait_for_another


class Ends:
    """Judges what ends. What an event has to lead to is collected, and crossed out command by command."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.started = False
        self.finished = False
        self.reason_of_all: StopReason | None = None
        self._lost: set[str] = set()
        self._scopes = Scopes(ledger)
        self._cancel: dict[AttemptId, StopReason] = {}
        self._seal: dict[AttemptId, tuple[Live, set[Verdict]]] = {}

    def begin(self, event: Event | Notice | None) -> None:
        """Begin to judge an answer."""
        self._scopes, self._cancel, self._seal = Scopes(self._ledger), {}, {}
        self.started = self.started or event is None

    # ------------------------------------------------------------------------------------------------- what came

    def cut(self, event: Event | Notice | None) -> None:
        """Take the start, an interrupt, or trouble with the disk into account."""
        ledger = self._ledger
        if event is None:
            for case in ledger.cases:
                self._closed(case)
                self._too_large(case)
                if not case.plan.has_setup and case.plan.shared_state_key is None:
                    case.stage = "open"
        elif self.reason_of_all is None and not self.finished:
            self.reason_of_all = StopReason.DISK if isinstance(event, StoreFailed) else StopReason.INTERRUPT
        else:
            return
        if self.reason_of_all is None or not self.started:
            return
        for case in ledger.cases:
            closed = {place for index, _, places in self._scopes.stop if index == case.index for place in places}
            left = {p for p in case.queued - closed if (case.index, p) not in self._scopes.give_up}
            self._scopes.stop.append((case.index, self.reason_of_all, left))
        for attempt, live in ledger.live.items():
            if not live.cancelled:
                self._cancelled(attempt, live, self.reason_of_all)

    def _closed(self, case: Case) -> None:
        passed = {task for task, _, filling in case.plan.decided if filling is Filling.REUSED_PASSED}
        if case.plan.early_exit and (places := of_tasks(case, passed)):
            self._scopes.stop.append((case.index, StopReason.EARLY_EXIT, places))

    def _too_large(self, case: Case) -> None:
        ledger, plan = self._ledger, case.plan
        closed = {place for index, _, places in self._scopes.stop if index == case.index for place in places}
        for ordinal, task in sorted(case.queued - closed):
            agents = plan.agent_sandbox[task] and (ordinal, task) not in case.regraded
            boxes = [ledger.box(plan, task, plan.provider)] if agents else []
            if plan.grading is GradingMode.FRESH:
                boxes.append(ledger.box(plan, task, plan.graded_at))
            if ledger.pool_of(case, task) is not None:
                boxes = [ledger.lane_box(plan, task)]
            if any(box[gate] > ledger.limit(gate) for box in boxes for gate in ("cpus", "memory")):
                self._scopes.give_up[case.index, (ordinal, task)] = "environment.too_large"

    def _cancelled(self, attempt: AttemptId, live: Live, reason: StopReason) -> None:
        if live.between:
            self._seal[attempt] = live, {Verdict.CANCELLED}
        else:
            self._cancel[attempt] = reason

    def try_ended(self, event: TryEnded) -> None:
        """Take the end of a try into account."""
        ledger, result = self._ledger, event.result
        live = ledger.live[event.attempt]
        case = ledger.cases[live.index]
        require(event.try_number == live.try_number, f"{event} is of another try")
        spend(case, live, result)
        live.endpoint = None
        usable = event.sandbox_reusable
        again = not live.cancelled and self.reason_of_all is None and deserves_another(case, live, result)
        spared = live.only and live.lane is not None and not ledger.lanes[live.lane].opened
        if live.lane is not None and not usable and not spared and self._stops_group(case, live.task):
            again = False
            group = next(group for group in case.plan.groups if live.task in group.members)
            self._scopes.stop.append((case.index, StopReason.SCOPE_STOPPED, of_tasks(case, group.members)))
        verdict = verdict_of_try(result)
        if again:
            wait_for_another(ledger, case, live, event)
            self._seal[event.attempt] = live, {verdict}  # where the budget or a stopped scope refuses another try
        else:
            self._seal[event.attempt] = live, {verdict}
            live.last = result
            ledger.give_all(live)
        if live.lane is not None and not again:
            ledger.lanes[live.lane].attempt = None
        self._scopes.ended(case, live, result)

    def _stops_group(self, case: Case, task: int) -> bool:
        group = next((group for group in case.plan.groups if task in group.members), None)
        return group is not None and group.on_unavailable is OnUnavailable.STOP_GROUP

    def of_run(self, event: RunEvent) -> None:
        """Take an event of an experiment into account (S2, S6)."""
        case = self._ledger.by_name[event.experiment]
        match event:
            case LeaseGranted() if case.stage == "leasing":
                key = case.plan.shared_state_key
                holders = [c for c in self._ledger.cases if c.holds_lease and c.plan.shared_state_key == key]
                require(not holders, f"S1: {event} while another holds it")
                case.holds_lease = True
                case.stage = "leased" if case.plan.has_setup else "open"
            case LeaseRefused() if case.stage == "leasing":
                case.stage = "done"
                self._scopes.stop.append((case.index, StopReason.LEASE, set(case.queued)))
            case LeaseReleased():
                case.stage, case.holds_lease = "done", False
            case SetupEnded():
                case.stage = "open"
                if event.issue is not None:
                    self._scopes.give_up.update(((case.index, place), event.issue.code) for place in case.queued)
            case TeardownEnded():
                case.stage = "torn down"
                if event.issue is not None and case.holds_lease:
                    case.stage, case.holds_lease = "done", False
                    self._lose(case)
            case _:
                pass

    def _lose(self, case: Case) -> None:
        for other in self._ledger.cases:
            if other.plan.shared_state_key == case.plan.shared_state_key and other.stage == "waiting":
                self._scopes.stop.append((other.index, StopReason.LEASE, set(other.queued)))

    # ------------------------------------------------------------------------------------------------- commands

    def command(self, command: Command) -> None:
        """Judge a command."""
        match command:
            case Seal():
                self._sealed(command)
            case StopDispatch():
                self._stopped(command)
            case CancelTry(attempt, reason):
                require(self._cancel.pop(attempt, None) is reason, f"{command} has no reason")
                live = self._ledger.live[attempt]
                live.cancelled, live.endpoint = True, None
            case FinishRun():
                self._finish_run(command)
            case Finish():
                require(all(case.completion for case in self._ledger.cases), "finished before all runs were")
                self.finished = True
            case WakeAt(at):
                require(at >= self._ledger.now - 1e-9, f"{command} is in the past")
            case _:
                self._stage(command)

    def _stage(self, command: Command) -> None:
        match command:
            case AcquireLease(experiment):
                case = self._ledger.by_name[experiment]
                require(case.stage == "waiting" and case.queued, f"S2: {command} while {case.stage}")
                case.stage = "leasing"
            case ReleaseLease(experiment):
                case = self._ledger.by_name[experiment]
                require(self._is_over(case), f"S2: {command} with something left to do")
                require(not case.plan.has_setup or case.stage in ("leasing", "torn down"), f"S2: {command} too early")
                case.stage = "releasing"
            case RunSetup(experiment):
                case = self._ledger.by_name[experiment]
                first = "waiting" if case.plan.shared_state_key is None else "leased"
                require(case.stage == first and case.queued, f"S2: {command} while {case.stage}")
                case.stage, case.set_up = "setting up", True
            case RunTeardown(experiment):
                case = self._ledger.by_name[experiment]
                require(case.stage == "open" and case.set_up and self._is_over(case), f"S6: {command} too early")
                case.stage = "tearing down"
            case _:
                raise Violation(f"{command} has no reason")

    def _is_over(self, case: Case) -> bool:
        ledger = self._ledger
        lanes = any(lane.index == case.index for lane in ledger.lanes.values())
        return not case.queued and not lanes and not any(True for _ in ledger.of_case(case))

    def _sealed(self, command: Seal) -> None:
        ledger = self._ledger
        case = ledger.by_name[command.slot.experiment]
        place = (command.slot.ordinal, case.plan.task_ids.index(command.slot.task))
        require(place not in case.sealed, f"{command} comes twice")
        case.sealed.add(place)
        if command.tries == 0:
            code = self._scopes.give_up.get((case.index, place))
            require(place in case.queued and command.issue is not None, f"{command} of a slot that is not queued")
            require(command.issue is not None and command.issue.code == code, f"{command} has no reason but {code}")
            require(command.verdict is Verdict.ERRORED, f"{command} should be errored")
            case.queued.remove(place)
            return
        live = ledger.live.pop(command.attempt)
        require((case.index, *place) == (live.index, live.ordinal, live.task), f"{command} is of another slot")
        require(live.last is not None and command.tries == live.try_number, f"{command} while a try runs")
        assert live.last is not None
        _, verdicts = self._seal.pop(command.attempt, (live, {verdict_of_try(live.last)}))
        require(command.verdict in verdicts, f"{command} should be {verdicts}")
        scored = command.verdict in (Verdict.PASSED, Verdict.FAILED) and live.last.grade is not None
        require(command.score == (live.last.grade.score if scored and live.last.grade else None), f"score of {command}")
        if live.between and command.verdict is not Verdict.CANCELLED:
            self._no_other_try(command, live, case)
        ledger.give_all(live)
        self._leave_lane(command.attempt, live)
        if command.verdict is Verdict.PASSED and case.plan.early_exit:
            self._scopes.stop.append((case.index, StopReason.EARLY_EXIT, of_tasks(case, [live.task])))
            for attempt, other in ledger.of_case(case):
                if other.task == live.task and not other.cancelled:
                    self._cancelled(attempt, other, StopReason.EARLY_EXIT)

    def _no_other_try(self, command: Seal, live: Live, case: Case) -> None:
        """Judge the seal of an attempt that deserved another try."""
        stopped = any(
            index == live.index and live.task in tasks and (endpoint is None or endpoint in uses(case, live))
            for index, tasks, endpoint in self._scopes.no_retries
        )
        refused = command.issue is not None and command.issue.code == "budget.no_retry"
        everyone = sum(1 for _ in self._ledger.of_case(case))
        within = case.plan.budget_usd is None or self._ledger.allows(case, everyone)
        require(stopped or (refused and not within), f"{command} deserved another try")

    def _leave_lane(self, attempt: AttemptId, live: Live) -> None:
        lane = self._ledger.lanes.get(live.lane or "")
        if lane is not None and lane.attempt == attempt:
            lane.attempt = None
            if lane.gone:
                self._ledger.give_all(lane)
                del self._ledger.lanes[live.lane or ""]

    def _stopped(self, command: StopDispatch) -> None:
        case = self._ledger.by_name[command.experiment]
        grounds = [places & case.queued for index, reason, places in self._scopes.stop
                   if index == case.index and reason is command.reason]  # fmt: skip
        if command.reason is StopReason.BUDGET:
            flying = any(True for _ in self._ledger.of_case(case))
            require(not flying and not self._ledger.allows(case, 0), f"E4: {command} while something is in flight")
            grounds.append(set(case.queued))
        if command.reason is StopReason.LEASE and not any(grounds):
            grounds.append(set(case.queued) if case.stage == "waiting" else set())
        chosen = next((ground for ground in grounds if len(ground) == command.slots), None)
        require(chosen, f"{command} has no reason: {grounds}")
        assert chosen is not None
        case.queued -= chosen
        case.stopped[command.reason] += command.slots

    def _finish_run(self, command: FinishRun) -> None:
        case = self._ledger.by_name[command.experiment]
        name = case.plan.name
        require(case.completion is None, f"{name} was finished twice")
        require(self._is_over(case), f"{name} was finished with something left to do")
        require(not case.holds_lease, f"S2: {name} was finished with its lease")
        require(
            case.stage != "tearing down" and not (case.set_up and case.stage == "open"), f"S6: {name} not torn down"
        )
        cut = any(reason is not StopReason.EARLY_EXIT for reason in +case.stopped)
        right = Completion.STOPPED if cut else Completion.COMPLETE
        right = Completion.INTERRUPTED if self.reason_of_all else right
        require(command.completion is right, f"{command} should be {right}")
        case.completion = command.completion

    def settle(self) -> None:
        """Judge that everything was done that had to be."""
        require(not self._cancel, f"not cancelled: {self._cancel}")
        for index, reason, places in self._scopes.stop:
            left = places & self._ledger.cases[index].queued
            require(not left, f"{left} of experiment {index} should be stopped: {reason}")
        for (index, place), code in self._scopes.give_up.items():
            require(place not in self._ledger.cases[index].queued, f"{place} of {index} should be errored: {code}")
        for index, tasks, endpoint in self._scopes.no_retries:
            case = self._ledger.cases[index]
            for attempt, live in self._ledger.of_case(case):
                stopped = live.between and live.task in tasks and (endpoint is None or endpoint in uses(case, live))
                require(not stopped, f"@{attempt} gets no other try, and was not sealed")
        for attempt, (live, verdicts) in self._seal.items():
            require(attempt in self._ledger.live and live.between and verdicts != {Verdict.CANCELLED},
                    f"@{attempt} was not sealed: {verdicts}")  # fmt: skip
        for case in self._ledger.cases:
            flying = any(True for _ in self._ledger.of_case(case))
            if self.started and case.queued and not flying and case.stage in ("waiting", "open"):
                require(self._ledger.allows(case, 0), f"E4: {case.plan.name} should have ended")
