"""One experiment as it was declared, through whichever door: its fields in layers, and what only Python can declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.config.layers import Layered
from proctor.model.spec import Task


def _no_hooks() -> dict[str, Callable[..., Any]]:
    return {}


@dataclass(frozen=True, slots=True)
class Declared:
    """An experiment with all layers beneath it, before its plugins are made.

    `fields` are those of `ExperimentConfig`, `execution` those of `ExecutionConfig`, as they are in force for it.
    """

    name: str
    """Unique in the invocation; it names the experiment in every display and file."""
    fields: Layered
    execution: Layered
    directory: str | None = None
    """The name of the directory of its runs; default: made of model, benchmark and harness."""
    choose: Callable[[Sequence[Task]], Sequence[Task]] | None = None
    """Which of all tasks of the benchmark, in their order, beside `--tasks` and `--limit`; default: all."""
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=_no_hooks)
    """Functions of an experiment in Python, by their paths: those that stand in its fields setup, teardown,
    sandbox_setup and sandbox_teardown, unless a stronger layer says otherwise."""
    reuse: bool | str | None = None
    """What a launch request says of earlier runs itself; None is what the command says."""
    checkpoint_resume: bool | None = None
    """Likewise whether saved work of its attempts that was not graded is only graded."""
    project: Path = Path()
    """The directory that its functions are found from."""
    secrets: frozenset[str] = frozenset()
    """Values of variables, in its files; they are not to be written anywhere."""
