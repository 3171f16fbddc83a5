"""From plans and limits to gates, paces, asks, parts and lines: done once, before anything starts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from proctor.core.asks import AskBuilder
from proctor.core.decided import decide, kind_of_slots
from proctor.core.gates import NOTHING, GateLimits, demand_of
from proctor.core.lanes import LanePool
from proctor.core.order import READY, SPECULATIVE, GroupSlots
from proctor.core.parts import Asks, Part
from proctor.core.rank import Line
from proctor.core.run import Run
from proctor.core.schedule import ExperimentPlan, GroupPlan
from proctor.core.waits import Endpoint
from proctor.errors import InternalError
from proctor.model.attempt import GradingMode

_PartKey = tuple[object, ...]


class Builder(AskBuilder):
    """Makes everything that `Books` keeps."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits) -> None:
        if len({plan.name for plan in plans}) != len(plans):
            raise InternalError("two experiments of one scheduler have the same name")
        super().__init__(plans, limits)
        self.runs = [Run(index, plan, self.own[index], self.gates) for index, plan in enumerate(plans)]
        self._lines: dict[object, Line] = {}
        for run in self.runs:
            self._add_parts(run)
        self.lines = tuple(line for line in self._lines.values() if line.tier == READY)
        self.speculative = tuple(line for line in self._lines.values() if line.tier == SPECULATIVE)

    def too_large(self, run: Run) -> list[tuple[Part, int, str]]:
        """Return what needs a sandbox larger than the host, each with what it needs and what there is (G10)."""
        plan, found = run.plan, list[tuple[Part, int, str]]()
        if not self._host:
            return found
        for part, row in run.rows_of(range(len(plan.task_ids))):
            task = row if part.names is None else part.names.slot(row, part.table.attempts - 1)[0]
            demand = dict(part.start.demand)
            for other in (part.box, part.grading.demand if part.grading is not None else NOTHING):
                demand.update((gate, max(weight, demand.get(gate, 0))) for gate, weight in other)
            for gate, whole, permits, _ in self._host:
                if demand.get(gate, 0) > permits:
                    cpus = gate == self._host[0][0]
                    need = plan.cpus[task] if cpus else plan.memory_bytes[task]
                    unit = "cpus" if cpus else "bytes of memory"
                    twice = demand[gate] > math.ceil(need / whole * permits - 1e-9)
                    what = f"{need:g} {unit}{' each for agent and grading' if twice else ''}"
                    found.append((part, row, f"task `{plan.task_ids[task]}` needs {what}, this host has {whole:g}"))
                    break
        return found

    def _add_parts(self, run: Run) -> None:
        plan = run.plan
        group_of = {member: group for group in plan.groups for member in group.members}
        tasks_of: dict[_PartKey, list[int]] = {}
        asks_of: dict[_PartKey, Asks] = {}
        group_by_key: dict[_PartKey, GroupPlan | None] = {}
        simple: dict[object, Asks] = {}
        for task, sandbox in enumerate(plan.agent_sandbox):
            group = group_of.get(task)
            lane = sandbox and (plan.sandbox_reuse or group is not None)
            what = (
                sandbox,
                plan.cpus[task] if plan.cpus else 0,
                plan.memory_bytes[task] if plan.memory_bytes else 0,
                lane,
            )
            asks = simple.get(what)
            if asks is None:
                asks = simple[what] = self.asks_of(run, task, lane=lane)
            where = group.name if group and lane else (plan.environment_of(task), what) if lane else None
            key = (asks.start.key, asks.grading and asks.grading.key, asks.box, lane, where)
            tasks_of.setdefault(key, []).append(task)
            asks_of.setdefault(key, asks)
            group_by_key[key] = group if lane else None
        grouped = [group.name for group in group_by_key.values() if group is not None]
        if len(set(grouped)) != len(grouped):
            raise InternalError(f"members of a task group of `{plan.name}` need different sandboxes")
        bounds = [self._bound(run, asks) for asks in asks_of.values()]
        run.width_alone = self.slots
        run.at_a_time = min(self.slots, plan.max_concurrency or self.slots)
        run.width = min(run.at_a_time, max(bounds))
        everything, plain = len(plan.task_ids), kind_of_slots(plan)
        for key, tasks in tasks_of.items():
            group = group_by_key[key]
            chosen: Sequence[int] = range(everything) if len(tasks) == everything else tasks
            slots = (
                GroupSlots(run.table, sorted(tasks))
                if group is not None
                else plain(run.table, chosen, serial=not plan.isolated, early_exit=plan.early_exit and plan.isolated)
            )
            part = Part(run, slots, asks_of[key])
            part.endpoints = self._endpoints_of(run, sandbox=plan.agent_sandbox[tasks[0]])
            if key[3]:
                part.lanes = LanePool(part, 1 if group is not None else run.width, group)
            run.parts.append(part)
        self._assign(run, list(tasks_of.values()))
        if plan.decided:
            decide(run, lambda part: self.opening_to_grade(run, part))
        self._stand_in_lines(run)
        run.rerank()

    def _endpoints_of(self, run: Run, *, sandbox: bool) -> tuple[Endpoint, ...]:
        plan = run.plan
        used = [("model", name) for name in (plan.model, plan.judge) if name is not None]
        if sandbox:
            used.append(("provider", plan.provider))
        if plan.grading is GradingMode.FRESH:
            used.append(("provider", plan.graded_at))
        found = [self.endpoints[key] for key in dict.fromkeys(used)]
        return tuple(found if plan.model is not None else [run.unnamed_model, *found])

    def _assign(self, run: Run, tasks_of_parts: list[list[int]]) -> None:
        if len(tasks_of_parts) > 1:
            by_task = [0] * len(run.plan.task_ids)
            for index, tasks in enumerate(tasks_of_parts):
                for task in tasks:
                    by_task[task] = index
            run.assign(by_task)

    def _bound(self, run: Run, asks: Asks) -> int:
        """Return how many attempts of a part its gates allow at a time."""
        demand = demand_of((*asks.start.demand, *asks.box))
        limits = [(self.gates.limit(gate), weight) for gate, weight in demand]
        return max(1, min(limit // weight for limit, weight in limits if limit is not None))

    def _stand_in_lines(self, run: Run) -> None:
        for part in run.parts:
            demand = demand_of((*part.start.demand, *part.box))
            part.gates = tuple((self.work[gate], weight) for gate, weight in demand if gate in self.work)
        works = {id(work): work for part in run.parts for work, _ in part.gates}
        gates = tuple(works.values())
        places = tuple(sorted(works))
        seen: Counter[object] = Counter()
        for part in run.parts:
            tiers = (READY, SPECULATIVE) if run.plan.early_exit and run.plan.isolated else (READY,)
            for tier in tiers:
                asks = [(part.start, part.lanes is not None)]
                if part.opening is not None:
                    asks.append((part.opening, False))
                for ask, in_lane in asks:
                    # Two parts of one experiment never stand in one line.
                    key = (id(ask), places, tier, in_lane)
                    seen[key] += 1
                    key = (*key, seen[key])
                    line = self._lines.get(key)
                    if line is None:
                        line = self._lines[key] = Line(ask, self.runs, gates, tier, in_lane=in_lane)
                    line.careful = line.careful or run.offers_again or run.budget.limit is not None
                    part.lines.append(line)
                    run.part_in[line] = part
