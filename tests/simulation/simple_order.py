"""The order of the simple scheduler: what may start, and which of it goes first, scanned from a list of slots."""

from __future__ import annotations

import statistics

from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan, Filling
from proctor.model.attempt import GradingMode, TryResult
from proctor.model.events import StopReason

QUEUED, WORKING, WAITING, GRADING, BETWEEN, SEALED, STOPPED, FILLED = range(8)


class Slot:
    def __init__(self, run: Run, task: int, ordinal: int) -> None:
        self.run, self.plan, self.task, self.ordinal = run, run.plan, task, ordinal
        self.key = self.plan.slot(task, ordinal)
        self.state, self.number = QUEUED, 0
        self.attempt = ""
        self.holds: set[str] = set()
        self.endpoint = self.refused = ""
        self.resuming = self.cancelled = self.let_through = self.boxed = False
        self.place = ordinal
        """Where it stands among the attempts of its task, those counted first of which planning decided."""
        self.saved = self.only = self.regraded = False
        self.started = self.asked = 0
        self.due = self.seconds = self.spent = 0.0
        self.since: float | None = None
        self.last: TryResult | None = None

    @property
    def in_flight(self) -> bool:
        return self.state in (WORKING, WAITING, GRADING, BETWEEN)

    @property
    def boxes(self) -> bool:
        return self.plan.agent_sandbox[self.task]

    def pause(self, now: float) -> None:
        if self.since is not None:
            self.seconds, self.since = self.seconds + now - self.since, None


class Run:
    def __init__(self, index: int, plan: ExperimentPlan) -> None:
        self.index, self.plan = index, plan
        self.record = [round(s * 1e6) or 1 if s is not None else 0 for s in plan.expected_seconds]
        self.durations = [micros for micros in self.record if micros]
        self.learned: dict[int, list[int]] = {}
        self.slots: list[Slot] = []
        for ordinal in range(plan.attempts):
            self.slots += [Slot(self, task, ordinal) for task in range(len(plan.task_ids))]
        self.decide()
        self.stopped: set[StopReason] = set()
        self.done = self.dispatched = False
        self.spent = plan.spent_before_usd
        self.largest = -1.0 if plan.largest_before_usd is None else plan.largest_before_usd

    def decide(self) -> None:
        for task, ordinal, filling in self.plan.decided:
            slot = self.slots[ordinal * len(self.plan.task_ids) + task]
            slot.regraded = slot.saved = slot.only = filling is Filling.GRADING_ONLY
            slot.state = QUEUED if slot.only else FILLED
        of_tasks = [[slot for slot in self.slots if slot.task == task] for task in range(len(self.plan.task_ids))]
        depth = max(sum(slot.only for slot in slots) for slots in of_tasks)
        for slots in of_tasks:
            left = [slot for slot in slots if slot.state == QUEUED and not slot.only]
            only = [slot for slot in slots if slot.only]
            for alike, end in ((left, self.plan.attempts), (only, depth)):
                for place, slot in enumerate(alike):
                    slot.place = end - len(alike) + place

    def expected(self, task: int) -> int:
        if self.record and self.record[task]:
            return self.record[task]
        if self.learned.get(task):
            return statistics.median_low(self.learned[task])
        return 0

    @property
    def fallback(self) -> int:
        return statistics.median_low(self.durations) if self.durations else 1

    def known(self, slot: Slot) -> int:
        of_record = self.record[slot.task] if self.record else 0
        return of_record if slot.regraded else self.expected(slot.task)

    def length(self, slot: Slot) -> int:
        return self.known(slot) or self.fallback

    @property
    def queued(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.state == QUEUED]

    def allows(self, more: int = 1) -> bool:
        if self.plan.budget_usd is None:
            return True
        reserving = sum(s.in_flight and (s.state != BETWEEN or s.let_through) for s in self.slots)
        reserve = self.largest if self.largest >= 0 else self.plan.expected_cost_usd
        if reserve is None:
            return not reserving and self.spent < self.plan.budget_usd
        return round(1e9 * (self.spent + reserve * (reserving + more))) <= round(1e9 * self.plan.budget_usd)


class Order:
    limits: GateLimits
    runs: list[Run]
    slots: list[Slot]
    invocation: list[int]
    retried: bool
    now: float
    paced: dict[str, float]

    # ------------------------------------------------------------------------------------------------ choosing

    def choose(self) -> Slot | None:
        first = sorted((s for s in self.slots if s.in_flight and not s.cancelled), key=lambda s: s.asked)
        for kind in ([s for s in first if s.resuming], [s for s in first if s.state == WAITING]):
            found = next((slot for slot in kind if self.fits(slot)), None)
            if found:
                return found
        retry = next((s for s in first if s.state == BETWEEN and s.let_through and self.fits(s)), None)
        ready = [s for s in self.slots if s.state == QUEUED and self.may(s) and self.fits(s)]
        calm = [slot for slot in ready if not self.speculative(slot)]
        if retry and not (self.retried and any(slot.run is not retry.run for slot in calm)):
            return retry
        return self.first_of(calm, calm=True) or self.first_of(ready, calm=False)

    def may(self, slot: Slot) -> bool:
        same = [other for other in slot.run.slots if other.task == slot.task]
        alike = [other for other in same if other.state == QUEUED and other.regraded is slot.regraded]
        if any(other.ordinal < slot.ordinal for other in alike):
            return False
        return slot.run.allows() and (slot.plan.isolated or not any(other.in_flight for other in same))

    def speculative(self, slot: Slot) -> bool:
        flying = any(other.in_flight and other.task == slot.task for other in slot.run.slots)
        return flying and slot.plan.early_exit and slot.plan.isolated

    def models(self, slot: Slot) -> list[str]:
        plan = slot.plan
        if slot.resuming:
            return []
        if slot.state == WAITING or slot.only:
            return [plan.judge] if plan.judge else []
        both = [plan.model, plan.judge] if plan.grading is GradingMode.REUSE else [plan.model]
        return [name for name in dict.fromkeys(both) if name]

    def opens(self, slot: Slot) -> str:
        if slot.resuming:
            return slot.refused
        if slot.state == WAITING or slot.only:
            return slot.plan.graded_at if slot.plan.grading is GradingMode.FRESH else ""
        return slot.plan.provider if slot.boxes else ""

    def asks(self, slot: Slot) -> set[str]:
        gates = {"global"} | {f"model {name}" for name in self.models(slot)}
        if not slot.resuming and self.opens(slot):
            gates.add(f"provider {self.opens(slot)}")
        return gates | ({f"experiment {slot.plan.name}"} if slot.state == QUEUED else set())

    def limit(self, gate: str) -> float:
        kind, _, name = gate.partition(" ")
        if kind == "global":
            return self.limits.task_concurrency
        if kind == "provider":
            return 1 if name in self.limits.exclusive else self.limits.providers.get(name) or 10**9
        if kind == "model":
            return self.limits.of_model(name).max_connections or 10**9
        return next(run.plan.max_concurrency or 10**9 for run in self.runs if run.plan.name == name)

    def paces(self, slot: Slot) -> dict[str, float]:
        opens = self.opens(slot)
        found = {f"open {opens}": self.limits.open_interval_seconds(opens)} if opens else {}
        found |= {m: 60.0 / rpm for m in self.models(slot) if (rpm := self.limits.of_model(m).requests_per_minute)}
        return {name: apart for name, apart in found.items() if apart}

    def fits(self, slot: Slot) -> bool:
        room = all(sum(gate in s.holds for s in self.slots) < self.limit(gate) for gate in self.asks(slot))
        used = {f"provider {self.opens(slot)}", *(f"model {name}" for name in self.models(slot))}
        full = any(sum(s.endpoint == name for s in self.slots) >= self.limits.task_concurrency for name in used)
        in_pace = all(self.paced.get(name, -1.0) <= self.now for name in self.paces(slot))
        return room and in_pace and (slot.resuming or not full)

    # --------------------------------------------------------------------------------------------------- order

    def gates_of(self, slot: Slot, only: bool = False) -> set[str]:
        plan = slot.plan
        if only:
            gates = {f"model {plan.judge}"} if plan.judge else set()
            gates |= {f"provider {plan.graded_at}"} if plan.grading is GradingMode.FRESH else set()
            return {gate for gate in gates if self.limit(gate) < 10**9}
        models = [plan.model, plan.judge] if plan.grading is GradingMode.REUSE else [plan.model]
        gates = {f"model {name}" for name in models if name} | ({f"provider {plan.provider}"} if slot.boxes else set())
        return {gate for gate in gates if self.limit(gate) < 10**9}

    def width(self, run: Run) -> int:
        bounds = [min((self.limit(gate) for gate in self.gates_of(slot)), default=10**9) for slot in run.slots]
        return int(min(self.limits.task_concurrency, run.plan.max_concurrency or 10**9, max(bounds)))

    def own_need(self, run: Run, unit: int) -> float:
        lengths = [run.length(slot) for slot in run.queued]
        at_a_time = min(self.limits.task_concurrency, run.plan.max_concurrency or 10**9)
        need = max(float(max(lengths)), sum(lengths) / at_a_time)
        return need if run.durations else need * unit

    def need(self, run: Run, unit: int) -> tuple[float, float]:
        own = need = self.own_need(run, unit)
        for gate in {gate for slot in run.slots for gate in self.gates_of(slot, slot.regraded)}:
            waiting = [s for other in self.runs for s in other.queued if gate in self.gates_of(s, s.regraded)]
            work = sum(s.run.length(s) * (1 if s.run.durations else unit) for s in waiting)
            need = max(need, work / int(self.limit(gate)))
        return need, own

    def first_of(self, ready: list[Slot], *, calm: bool) -> Slot | None:
        if not ready:
            return None
        runs = list(dict.fromkeys(slot.run for slot in ready))
        slots = self.limits.task_concurrency
        unit = statistics.median_low(self.invocation) if self.invocation else 1
        probes = [r for r in runs if not r.dispatched and not r.durations and self.width(r) < slots]
        best = probes[0] if probes else max(runs, key=lambda run: (*self.need(run, unit), -run.index))
        left = sum(slot.state == QUEUED for slot in self.slots)
        if not probes and not self.invocation and self.need(best, unit)[0] * slots < left:
            best = runs[0]
        mine = [slot for slot in ready if slot.run is best]
        if calm:
            return self.at_once(best, mine)
        return min(mine, key=self.in_order)

    def in_order(self, slot: Slot) -> tuple[int, int, bool, int]:
        return slot.place, -slot.run.length(slot), slot.regraded, slot.task

    def at_once(self, run: Run, mine: list[Slot]) -> Slot:
        """Choose in order, unless the longest of those that ask for the same is as long as the rest of the work."""
        places: list[tuple[tuple[int, int, bool, int], Slot]] = []
        work = sum(run.length(slot) for slot in run.queued)
        for part in {self.part(slot) for slot in mine}:
            all_of = [slot for slot in run.queued if self.part(slot) == part]
            able = [slot for slot in mine if self.part(slot) == part]
            first = min(able, key=self.in_order)
            place = (self.in_order(first), first)
            longest = min(all_of, key=lambda s: (-run.length(s), not run.known(s), s.task))
            if not run.known(longest):
                unknown = [slot for slot in able if not run.known(slot)]
                longest = min(unknown, key=lambda s: (s.place, s.task)) if unknown else longest
            else:
                longest = next((slot for slot in able if slot.task == longest.task), longest)
            enough = run.length(longest) * self.width(run) >= work
            if longest in able and enough and run.length(longest) > run.length(first):
                place = ((-1, *self.in_order(longest)[1:]), longest)
            places.append(place)
        return min(places, key=lambda place: place[0])[1]

    def part(self, slot: Slot) -> tuple[bool, bool]:
        return slot.boxes, slot.regraded
