"""Tasks and checkers of the package `reasoning-gym`, in processes of their own: never does proctor import it."""

from __future__ import annotations

import asyncio
import atexit
import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from proctor.errors import Fault, MissingPackage, UsageError

PACKAGE = "reasoning-gym"
INSTALL = f"pip install {PACKAGE}"
"""No extra of proctor: some of what it needs has no wheels, and is built where it is installed."""
TASKS_AT_MOST = 1_000
"""Tasks of one dataset, for one seed."""
WORKERS_AT_MOST = 4

_WORKER = ("-P", "-m", "proctor.data._reasoning_gym_worker")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "MPLCONFIGDIR")
"""Variables that a worker gets: keys of accounts are not among them."""
_SET = {
    "PYTHONHASHSEED": "0",  # some generators go through sets of texts: their tasks would be others each time
    "MPLBACKEND": "agg",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


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


async def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a worker answers.

    Raises `UsageError` where the package cannot be imported, `Fault` (grader.crashed) where the worker dies.
    """
    return await asyncio.get_running_loop().run_in_executor(_threads(), _ask, request)


_here = threading.local()
_lock = threading.Lock()
_workers: list[subprocess.Popen[bytes]] = []


@cache
def _threads() -> ThreadPoolExecutor:
    """Return threads of which each has a worker."""
    count = min(WORKERS_AT_MOST, len(os.sched_getaffinity(0)))
    return ThreadPoolExecutor(count, thread_name_prefix=PACKAGE)


def _ask(request: Mapping[str, Any]) -> dict[str, Any]:
    worker: subprocess.Popen[bytes] | None = getattr(_here, "worker", None)
    if worker is None or worker.poll() is not None:
        worker = _here.worker = _start()
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(request).encode() + b"\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except BrokenPipeError:
        line = b""
    if not line:
        raise Fault("grader.crashed", f"a process of {PACKAGE} {version()} ended with status {worker.wait()}")
    told = json.loads(line)
    if told["state"] == "broken":
        raise UsageError(
            f"package {PACKAGE} {version()} cannot be used: {told['why']}", hint=f"run `{INSTALL} --force-reinstall`"
        )
    return told


def _start() -> subprocess.Popen[bytes]:
    version()
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _SET
    with _lock:
        # A session of its own: what is typed at the terminal is not meant for it.
        worker = subprocess.Popen(
            [sys.executable, *_WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
        _workers.append(worker)
    return worker


@atexit.register
def close() -> None:
    """End all workers; the next request starts one again."""
    with _lock:
        for worker in _workers:
            worker.kill()
            worker.communicate()
        _workers.clear()
