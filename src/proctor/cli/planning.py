"""From resolved experiments to plans: tasks are read and chosen, and it is looked up how long they took before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.run_writer import experiment_dir_of
from proctor.core.plan import PlannedInput, PluginFacts, RunPlan, plan, select
from proctor.errors import NothingToRun, PluginLoadError, UsageError, describe
from proctor.model.spec import Experiment, Task
from proctor.store.history import read_history

HISTORY_RUNS = 3
HISTORY_BYTES = 4 * 1024 * 1024
"""So much of earlier journals is read at the start of a run, to know which attempts are long: under 0.1 s."""


async def plan_all(resolved: Sequence[Resolved], options: Options) -> list[RunPlan]:
    """Read the tasks, choose among them and plan every experiment. Raises `UsageError` or `NothingToRun`."""
    inputs: list[PlannedInput] = []
    for one in resolved:
        tasks = select(
            await _tasks_of(one),
            benchmark=one.experiment.benchmark.id,
            ids=options.task_ids or None,
            limit=options.limit,
        )
        one.make_graders(tasks)
        facts = PluginFacts(
            benchmark_version=one.benchmark.version,
            harness_version=one.harness.version,
            harness_name=one.harness.name,
            grader_versions={task.grader.id: one.grader(task).version for task in tasks},
            benchmark_isolated=one.benchmark.isolated_attempts,
            harness_isolated=one.harness.isolated_attempts,
            harness_needs_sandbox=one.harness.needs_sandbox,
        )
        inputs.append(PlannedInput(one.experiment, tasks, facts, _expected(one.experiment, tasks, options)))
    return plan(inputs)


def _expected(experiment: Experiment, tasks: Sequence[Task], options: Options) -> Sequence[float | None]:
    """Return how long attempts of each task took in the newest runs of this experiment, for the order of starts."""
    history = read_history(
        Path(options.controls.results_dir),
        experiment_dir_of(experiment),
        run_name=options.run_name,
        runs_at_most=HISTORY_RUNS,
        bytes_at_most=HISTORY_BYTES,
    )
    return history.expected_seconds([task.id for task in tasks])


async def _tasks_of(one: Resolved) -> list[Task]:
    """Return the tasks of a benchmark; whatever it raises is said as its trouble. Raises `UsageError`."""
    try:
        return list(await one.benchmark.tasks())
    except (UsageError, NothingToRun):
        raise
    except Exception as error:
        name = one.experiment.benchmark.id
        raise PluginLoadError(
            f"benchmark `{name}` cannot tell its tasks: {describe(error)}",
            hint="the benchmark, or its data, is at fault",
        ) from error
