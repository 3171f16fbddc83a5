"""What attempts ask for: gates, paces and endpoints of an invocation, put together into asks (spec 03 G1 to G11)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proctor.core.gates import NOTHING, Demand, GateLimits, Gates, demand_of
from proctor.core.held import Kind
from proctor.core.parts import Asks, Part
from proctor.core.rank import GateWork
from proctor.core.run import Run
from proctor.core.schedule import ExperimentPlan
from proctor.core.waits import Ask, Endpoint, Pace
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode

HOST_CLASSES = 64
"""With more different demands than this on the host, they are rounded up to 1/64 of it (O7)."""


class AskBuilder:
    """Makes gates and asks."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits) -> None:
        self.limits = limits
        self.gates = Gates()
        self.slots = limits.task_concurrency
        self.global_permit: Demand = ((self.gates.add("global", self.slots), 1),)
        self.own = [self._own_permit(plan) for plan in plans]
        """Permits of the gates that belong to one experiment each (G2)."""
        self.endpoints: dict[tuple[str, str], Endpoint] = {}
        self.paces: dict[tuple[str, str], Pace] = {}
        self.work: dict[int, GateWork] = {}
        self._gate_of: dict[tuple[str, str], int] = {}
        self._asks: dict[object, Ask] = {}
        for plan in plans:
            self._add_gates(plan)
        self._host = self._host_gates(plans)

    # ---------------------------------------------------------------------------------------------------- gates

    def _own_permit(self, plan: ExperimentPlan) -> Demand:
        if plan.max_concurrency is None:
            return NOTHING
        return ((self.gates.add(f"experiment {plan.name}", plan.max_concurrency), 1),)

    def _add_gates(self, plan: ExperimentPlan) -> None:
        limits = self.limits
        for name in (plan.provider, plan.graded_at):
            if ("provider", name) not in self._gate_of:
                limit = 1 if name in limits.exclusive else limits.of_provider(name)
                self._gate_of["provider", name] = self._limited(f"provider {name}", limit)
                self.endpoints["provider", name] = Endpoint(f"provider {name}")
                if interval := limits.open_interval_seconds(name):
                    self.paces["provider", name] = Pace(f"open rate of {name}", interval)
        for name in (plan.model, plan.judge):
            if name is not None and ("model", name) not in self._gate_of:
                of_model = limits.of_model(name)
                self._gate_of["model", name] = self._limited(f"model {name}", of_model.max_connections)
                self.endpoints["model", name] = Endpoint(f"model {name}")
                if of_model.requests_per_minute:
                    self.paces["model", name] = Pace(f"request rate of {name}", 60.0 / of_model.requests_per_minute)

    def _limited(self, name: str, limit: int | None) -> int:
        index = self.gates.add(name, limit)
        if limit is not None:
            self.work[index] = GateWork(limit)
        return index

    def _host_gates(self, plans: Sequence[ExperimentPlan]) -> list[tuple[int, float, int, bool]]:
        """Return (gate, whole of the host, its permits, whether demands are rounded) for CPUs and memory."""
        limits = self.limits
        demands = {
            (plan.cpus[task] if plan.cpus else 0, plan.memory_bytes[task] if plan.memory_bytes else 0)
            for plan in plans
            if limits.host_providers & {plan.provider, plan.graded_at} and (plan.cpus or plan.memory_bytes)
            for task in range(len(plan.task_ids))
        }
        if not demands - {(0, 0)}:
            return []
        rounded = len(demands) > HOST_CLASSES
        found: list[tuple[int, float, int, bool]] = []
        for name, whole, fine in (
            ("host cpus", limits.host_cpus, 1000.0), ("host memory", limits.host_memory_bytes, 1 / (1 << 20)),
        ):  # fmt: skip
            if whole is None:
                found.append((-1, 0.0, 0, False))
                continue
            permits = HOST_CLASSES if rounded else max(1, math.floor(whole * fine))
            found.append((self._limited(name, permits), float(whole), permits, rounded))
        return found

    def host_permits(self, plan: ExperimentPlan, task: int, provider: str) -> Demand:
        """Return what the sandbox of a task takes of this host."""
        if provider not in self.limits.host_providers or not self._host:
            return NOTHING
        needs = (
            plan.cpus[task] if plan.cpus else 0.0,
            float(plan.memory_bytes[task]) if plan.memory_bytes else 0.0,
        )
        return tuple(
            (gate, max(1, math.ceil(need / whole * permits - 1e-9)))
            for (gate, whole, permits, _), need in zip(self._host, needs, strict=True)
            if gate >= 0 and need > 0
        )

    # ----------------------------------------------------------------------------------------------------- asks

    def ask(
        self,
        *,
        slot: bool = True,
        box: Demand = NOTHING,
        opens: str | None = None,
        models: Sequence[str | None] = (),
        lane: bool = False,
    ) -> Ask:
        """Make an ask: a global slot, what a sandbox takes, an opening at a provider, model endpoints.

        With `lane` the sandbox belongs to a lane, which holds it in place of the attempt.
        """
        named = [("model", name) for name in dict.fromkeys(models) if name is not None]
        model = demand_of((self._gate_of[key], 1) for key in named)
        kinds = [(Kind.GLOBAL, self.global_permit if slot else NOTHING), (Kind.MODEL, model)]
        if not lane:
            kinds.append((Kind.BOX, box))
        by_kind = tuple((kind, demand) for kind, demand in kinds if demand)
        used = named if opens is None else [("provider", opens), *named]
        demand = demand_of((*(self.global_permit if slot else NOTHING), *model, *box))
        paces = tuple(self.paces[key] for key in used if key in self.paces)
        made = Ask(by_kind, demand, paces, tuple(self.endpoints[key] for key in used))
        return self._asks.setdefault((made.key, demand), made)

    def asks_of(self, run: Run, task: int, *, lane: bool) -> Asks:
        """Return all that attempts of a task ask for."""
        plan = run.plan
        sandbox, fresh = plan.agent_sandbox[task], plan.grading is GradingMode.FRESH
        models = (plan.model, plan.judge) if plan.grading is GradingMode.REUSE else (plan.model,)
        box: Demand = NOTHING
        if sandbox:
            box = demand_of((self._provider(plan.provider), *self.host_permits(plan, task, plan.provider)))
        graded: Demand = NOTHING
        if fresh:
            graded = demand_of((self._provider(plan.graded_at), *self.host_permits(plan, task, plan.graded_at)))
        judged = fresh or (plan.grading is GradingMode.NONE and plan.judge is not None)
        opens = plan.graded_at if fresh else None
        resume = self.ask()
        if not lane:
            start = self.ask(box=box, opens=plan.provider if sandbox else None, models=models)
            grading = self.ask(box=graded, opens=opens, models=(plan.judge,)) if judged else None
            return Asks(start, start, resume, grading)
        whole = demand_of((*box, *graded))
        start = self.ask(models=models)
        grading = self.ask(opens=opens, models=(plan.judge,)) if judged else None
        retry = self.ask(opens=plan.provider, models=models)
        opening = self.ask(box=whole, opens=plan.provider, models=models, lane=True)
        self._check_lane(run, whole)
        return Asks(start, retry, resume, grading, opening=opening, box=whole)

    def opening_to_grade(self, run: Run, part: Part) -> Ask | None:
        """Return what a try asks for that only grades and opens a lane; None for a part without lanes."""
        plan = run.plan
        if part.opening is None:
            return None
        opens = plan.graded_at if plan.grading is GradingMode.FRESH else None
        return self.ask(box=part.box, opens=opens, models=(plan.judge,), lane=True)

    def _provider(self, name: str) -> tuple[int, int]:
        return self._gate_of["provider", name], 1

    def resume_opening(self, provider: str) -> Ask:
        """Return what the repeat of a refused opening asks for."""
        pace = self.paces.get(("provider", provider))
        by_kind = ((Kind.GLOBAL, self.global_permit),)
        made = Ask(by_kind, self.global_permit, () if pace is None else (pace,))
        return self._asks.setdefault((made.key, made.demand), made)

    def _check_lane(self, run: Run, whole: Demand) -> None:
        for gate, weight in whole:
            view = self.gates.snapshot()[gate]
            if view.limit is not None and weight > view.limit and view.name.startswith("provider "):
                raise UsageError(
                    f"experiment `{run.plan.name}` needs {weight} sandboxes of {view.name} for each of its lanes "
                    f"(one for the agent, one for grading), and the limit is {view.limit}",
                    hint="raise the limit of the provider, or do without sandbox reuse and task groups",
                )
