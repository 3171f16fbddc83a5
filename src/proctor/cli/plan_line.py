"""The PLAN line: how much there is to do, and each limit in force with where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proctor.cli.plan_gates import host_parts
from proctor.core.plan import ExperimentPlan
from proctor.report.wording import SEPARATOR, plural, printable

if TYPE_CHECKING:
    from proctor.cli.rooms import Options

TIMES = "\N{MULTIPLICATION SIGN}"


def plan_parts(schedules: Sequence[ExperimentPlan], options: Options) -> list[str]:
    """Return the parts of the PLAN line."""
    controls = options.controls
    parts = [*_sizes(schedules), f"concurrency {controls.task_concurrency} ({controls.concurrency_source})"]
    parts += [f"{name} {limit}" for name, limit in controls.provider_limits.items() if limit]
    parts += host_parts(schedules, controls)
    parts += [f"{printable(one.name)} ≤{one.max_concurrency}" for one in schedules if one.max_concurrency]
    return parts


def plan_line(schedules: Sequence[ExperimentPlan], options: Options, estimate: Sequence[str] = ()) -> str:
    """Return the PLAN line, with what is expected of the whole at its end."""
    return "PLAN  " + SEPARATOR.join([*plan_parts(schedules, options), *estimate])


def _sizes(schedules: Sequence[ExperimentPlan]) -> list[str]:
    """Return how many attempts, tasks and experiments there are; a product only where it is true."""
    parts = [plural(sum(one.slots for one in schedules), "attempt")]
    experiments, first = len(schedules), schedules[0]
    same = all(one.task_ids == first.task_ids and one.attempts == first.attempts for one in schedules)
    factors = [plural(len(first.task_ids), "task")]
    if experiments > 1:
        factors.append(f"{experiments:,} experiments")
        factors += [f"{first.attempts:,} attempts"] if first.attempts > 1 else []
    if same:
        return [*parts, f" {TIMES} ".join(factors)]
    # Tasks of two experiments with one id may be of different benchmarks; as nobody says so, they count as one.
    tasks = len({task for one in schedules for task in one.task_ids})
    return [*parts, plural(tasks, "task"), plural(experiments, "experiment")]
