"""What a referee knows: slots, attempts, lanes and permits, counted by names from events and commands alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import GradingMode
from proctor.model.codes import CODES, Owner
from proctor.model.ids import AttemptId
from proctor.testing.referee_cases import Case, LaneBook, Live, require


class Ledger:
    """Everything that was counted."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits) -> None:
        self.given = limits
        self.cases = [Case.of(index, plan) for index, plan in enumerate(plans)]
        self.by_name = {case.plan.name: case for case in self.cases}
        self.limits: dict[str, float] = {"global": limits.task_concurrency}
        for plan in plans:
            for name in (plan.provider, plan.graded_at):
                limit = limits.providers.get(name)
                self.limits[f"provider {name}"] = 1 if name in limits.exclusive else (limit or math.inf)
            self.limits[f"experiment {plan.name}"] = plan.max_concurrency or math.inf
        for name, model in limits.models.items():
            self.limits[f"model {name}"] = model.max_connections or math.inf
        self.limits["cpus"] = math.inf if limits.host_cpus is None else round(limits.host_cpus * 1000)
        memory = limits.host_memory_bytes
        self.limits["memory"] = math.inf if memory is None else memory // (1 << 20)
        self.held: Counter[str] = Counter()
        self.live: dict[AttemptId, Live] = {}
        self.lanes: dict[str, LaneBook] = {}
        self.paced: dict[str, float] = {}
        """When something last started under a pace."""
        self.rows: dict[str, tuple[str, int]] = {}
        """Permanent failures in a row at each endpoint: the code, and how many."""
        self.now = 0.0

    def limit(self, gate: str) -> float:
        """Return the limit of a gate."""
        return self.limits.get(gate, math.inf)

    def plan_of(self, live: Live) -> ExperimentPlan:
        """Return the plan of an attempt."""
        return self.cases[live.index].plan

    # --------------------------------------------------------------------------------------------- what is asked

    def box(self, plan: ExperimentPlan, task: int, provider: str) -> Counter[str]:
        """Return what a sandbox takes."""
        taken = Counter({f"provider {provider}": 1})
        if provider in self.given.host_providers:
            if plan.cpus:
                taken["cpus"] += math.ceil(plan.cpus[task] * 1000)
            if plan.memory_bytes:
                taken["memory"] += math.ceil(plan.memory_bytes[task] / (1 << 20))
        return +taken

    def opens(self, plan: ExperimentPlan, task: int, *, only: bool) -> str | None:
        """Return the provider at which a try first opens a sandbox, or None; `only` says that it only grades."""
        if only:
            return plan.graded_at if plan.grading is GradingMode.FRESH else None
        return plan.provider if plan.agent_sandbox[task] else None

    def models(self, plan: ExperimentPlan, *, only: bool) -> list[str]:
        """Return the model endpoints that a try uses from its start."""
        reuse = [plan.model, plan.judge] if plan.grading is GradingMode.REUSE else [plan.model]
        return [name for name in dict.fromkeys([plan.judge] if only else reuse) if name is not None]

    def executing(self, plan: ExperimentPlan, task: int, *, lane: bool) -> Counter[str]:
        """Return what a try takes, without the cap of its experiment."""
        taken = Counter({"global": 1})
        taken.update(f"model {name}" for name in self.models(plan, only=False))
        if plan.agent_sandbox[task] and not lane:
            taken += self.box(plan, task, plan.provider)
        return taken

    def grading(self, plan: ExperimentPlan, task: int, *, lane: bool) -> Counter[str]:
        """Return what grading takes where it asks for permits of its own."""
        taken = Counter({"global": 1})
        if plan.judge is not None:
            taken[f"model {plan.judge}"] += 1
        if plan.grading is GradingMode.FRESH and not lane:
            taken += self.box(plan, task, plan.graded_at)
        return taken

    def lane_box(self, plan: ExperimentPlan, task: int) -> Counter[str]:
        """Return what a lane takes."""
        taken = self.box(plan, task, plan.provider) + Counter({f"experiment {plan.name}": 1})
        return taken + self.box(plan, task, plan.graded_at) if plan.grading is GradingMode.FRESH else taken

    def pool_of(self, case: Case, task: int) -> str | None:
        """Return the name of the lanes in which a task runs, or None."""
        plan = case.plan
        if not plan.agent_sandbox[task]:
            return None
        group = next((group.name for group in plan.groups if task in group.members), None)
        if group is not None:
            return f"{plan.name} {group}"
        if not plan.sandbox_reuse:
            return None
        size = plan.cpus[task] if plan.cpus else 0, plan.memory_bytes[task] if plan.memory_bytes else 0
        return f"{plan.name} {plan.environment_of(task)} {size}"

    def paces(self, plan: ExperimentPlan, opens: str | None, model: str | None) -> dict[str, float]:
        """Return the paces that a start obeys: seconds between starts, by name."""
        found: dict[str, float] = {}
        if opens is not None and self.given.open_per_second.get(opens):
            found[f"open {opens}"] = 1 / self.given.open_per_second[opens]
        limits = self.given.models.get(model or "")
        if limits is not None and limits.requests_per_minute:
            found[f"model {model}"] = 60 / limits.requests_per_minute
        return found

    # ------------------------------------------------------------------------------------------------- counting

    def room(self, gates: Counter[str]) -> bool:
        """Say whether there is room for all."""
        return all(self.held[gate] + weight <= self.limit(gate) for gate, weight in gates.items())

    def in_pace(self, paces: dict[str, float]) -> bool:
        """Say whether all paces allow a start."""
        return all(self.now >= self.paced.get(name, -math.inf) + apart for name, apart in paces.items())

    def endpoint_free(self, names: set[str]) -> bool:
        """Say whether fewer attempts back off on each endpoint than there are slots (B2)."""
        return all(sum(x.endpoint == name for x in self.live.values()) < self.given.task_concurrency for name in names)

    def take(self, owner: Live | LaneBook, gates: Counter[str]) -> None:
        """Count permits as taken; raises `Violation` above a limit."""
        owner.gates += gates
        self.held += gates
        for gate in gates:
            require(self.held[gate] <= self.limit(gate), f"{gate} holds {self.held[gate]}, above {self.limit(gate)}")

    def give(self, owner: Live | LaneBook, kinds: Sequence[str]) -> None:
        """Count permits as given back: those whose name begins with one of `kinds`."""
        given = Counter({gate: n for gate, n in owner.gates.items() if gate.startswith(tuple(kinds))})
        owner.gates -= given
        self.held -= given

    def give_all(self, owner: Live | LaneBook) -> None:
        """Count all permits as given back."""
        self.held -= owner.gates
        owner.gates = Counter()

    def busy(self, case: Case, task: int) -> int:
        """Return how many attempts of a task are in flight."""
        return sum(live.index == case.index and live.task == task for live in self.live.values())

    def of_case(self, case: Case) -> Iterator[tuple[AttemptId, Live]]:
        """Yield the attempts of an experiment in flight."""
        return (entry for entry in self.live.items() if entry[1].index == case.index)

    def allows(self, case: Case, others: int) -> bool:
        """Say whether the budget allows another try beside so many (E4)."""
        budget = case.plan.budget_usd
        if budget is None:
            return True
        if case.reserve is None:
            return others == 0 and case.spent < budget
        return case.spent + case.reserve * (others + 1) <= budget + 1e-9


BOX = ("provider ", "cpus", "memory")


def is_of_provider(code: str) -> bool:
    """Say whether a code is one of a provider."""
    return CODES[code].owner is Owner.PROVIDER
