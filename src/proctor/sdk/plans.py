"""What a call would do, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proctor.cli.dry_run import DryRun
from proctor.cli.plan_forecast import first_slots_of, slots_of
from proctor.report.plan_page import GateInForce, PlannedExperiment, Prediction, Quantiles, SlotLine
from proctor.report.plan_text import SLOTS_SHOWN, plan_lines


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run or a launch would do; nothing was started or written. As text it is what `proctor plan` says."""

    experiments: tuple[PlannedExperiment, ...]
    """Each experiment: its tasks, attempts and slots, what it is made of, and how many slots each decision is about."""
    total: int
    """Slots of all experiments."""
    decisions: Mapping[str, int]
    """How many slots each decision is about, such as `execute: new` or `reuse`."""
    limits: tuple[GateInForce, ...]
    """Every limit that holds, with what it counts and where it comes from."""
    predictions: tuple[Prediction, ...]
    """Expected wall time and cost, one for each setting of the global limit; None in them is what is not known."""
    notes: tuple[str, ...]
    """What one should know before it starts."""
    _found: DryRun = field(repr=False)

    @property
    def slots(self) -> Iterator[SlotLine]:
        """Every slot with what would be done with it and why; made when asked for, each time anew."""
        return slots_of(self._found.plans)

    def __str__(self) -> str:
        """Return it as `proctor plan` prints it."""
        shown = list(first_slots_of(self._found.plans, SLOTS_SHOWN))
        return "\n".join(plan_lines(self._found.page, shown, hidden=self.total - len(shown)))


def plan_of(found: DryRun) -> Plan:
    """Return a dry run as it is handed out."""
    page = found.page
    return Plan(
        experiments=tuple(page.experiments),
        total=page.slots,
        decisions=dict(page.decisions),
        limits=tuple(page.gates),
        predictions=tuple(page.predictions),
        notes=tuple(page.notes),
        _found=found,
    )


__all__ = ["GateInForce", "Plan", "PlannedExperiment", "Prediction", "Quantiles", "SlotLine", "plan_of"]
