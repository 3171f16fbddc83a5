"""How long attempts took before, of what is left to execute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from proctor.cli.rooms import Options
from proctor.cli.run_writer import experiment_dir_of
from proctor.core.decided import what_is_left
from proctor.core.plan import RunPlan
from proctor.store.history import History, read_history

HISTORY_RUNS = 3
HISTORY_BYTES = 4 * 1024 * 1024
"""So much of earlier journals is read at the start, to know how long attempts take: under 0.1 s."""
HISTORY_BYTES_EACH = 64 * 1024
"""At least so much is read for each of many experiments."""

Histories = Mapping[str, History]
"""What earlier runs tell of experiments, by their names."""

T = TypeVar("T")


def histories_of(filled: Sequence[tuple[RunPlan, object]], options: Options) -> Histories:
    """Return what the newest runs tell of each experiment that has something left to execute.

    It comes after the decisions on slots, since to read what nobody needs takes long.
    """
    bytes_of_each = max(HISTORY_BYTES // max(1, len(filled)), HISTORY_BYTES_EACH)
    return {
        one.experiment.name: read_history(
            Path(options.controls.results_dir),
            experiment_dir_of(one.experiment),
            run_name=options.run_name,
            runs_at_most=HISTORY_RUNS,
            bytes_at_most=bytes_of_each,
        )
        for one, _ in filled
        if what_is_left(one.schedule) is not None
    }


def with_durations(filled: Sequence[tuple[RunPlan, T]], histories: Histories) -> list[tuple[RunPlan, T]]:
    """Return the plans with how long attempts of each task took before, for the order of starts."""
    return [(_with_durations(one, histories.get(one.experiment.name)), sources) for one, sources in filled]


def _with_durations(one: RunPlan, history: History | None) -> RunPlan:
    if history is None:
        return one
    expected = history.expected_seconds([task.id for task in one.tasks])
    return replace(one, schedule=replace(one.schedule, expected_seconds=expected))


__all__ = ["Histories", "histories_of", "with_durations"]
