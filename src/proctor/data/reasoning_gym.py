"""Tasks and checkers of the package `reasoning-gym`, in processes of their own: never does proctor import it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from proctor.data.workers import Workers
from proctor.errors import MissingPackage, UsageError

PACKAGE = "reasoning-gym"
INSTALL = f"pip install {PACKAGE}"
"""No extra of proctor: some of what it needs has no wheels, and is built where it is installed."""
TASKS_AT_MOST = 1_000
"""Tasks of one dataset, for one seed."""
WORKERS_AT_MOST = 4


@dataclass(frozen=True, slots=True)
class Made:
    """A task as its generator made it; `answer` is None where nobody knows one."""

    index: int
    question: str
    answer: str | None
    digest: str


@cache
def version() -> str:
    """Return the version of the package; raises `MissingPackage`."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackage("benchmark reasoning_gym", PACKAGE, install=INSTALL) from error


async def describe() -> tuple[dict[str, str], dict[str, str]]:
    """Return the group of each dataset by its name, and the instructions of the authors by theirs."""
    told = await ask({"do": "describe"})
    return told["groups"], told["prompts"]


async def make(name: str, seed: int, config: Mapping[str, Any], indices: Sequence[int]) -> list[Made]:
    """Return tasks of a dataset. Raises `UsageError` where it cannot be made so."""
    told = await ask({"do": "make", "name": name, "seed": seed, "config": dict(config), "indices": list(indices)})
    if told["state"] != "made":
        raise UsageError(
            f"dataset `{name}` of {PACKAGE} cannot be made: {told['why']}",
            hint=f"look at `benchmark.params.config.{name}`, or leave the dataset out",
        )
    return [Made(index, **task) for index, task in zip(indices, told["tasks"], strict=True)]


_workers = Workers(
    PACKAGE,
    "proctor.data._reasoning_gym_worker",
    version=version,
    install=INSTALL,
    at_most=WORKERS_AT_MOST,
    env={
        "PYTHONHASHSEED": "0",  # some generators go through sets of texts: their tasks would be others each time
        "MPLBACKEND": "agg",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    },
)
ask = _workers.ask
close = _workers.close
