"""Runs the teardown of an experiment in a process of its own: whatever it does, it ends within its limit.

usage: python -P -m proctor.cli.teardown PACKAGE.MODULE:FUNCTION   (in the directory of the project)
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.model.bounds import with_gap
from proctor.store.lease_info import Teardown

RETURNED = 73
"""The exit status that says that the function returned: a program that only ends, with 0 as well, has not."""

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class TeardownEnd:
    """How a teardown ended: `problem` is None where it succeeded; `output` is what it printed, head and tail."""

    problem: str | None
    output: str
    seconds: float


async def run_teardown(teardown: Teardown, directory: Path, variables: Mapping[str, str]) -> TeardownEnd:
    """Run a teardown in `directory`, with `variables` added to the environment; a cancellation ends it.

    All its processes are gone when this returns or raises. Raises `Fault` where processes cannot be made or ended.
    """
    from proctor.runtime.process import Processes  # noqa: PLC0415 - the teardown itself needs none of it

    processes = Processes(f"hook-{os.getpid()}-{next(_NUMBERS)}")  # what runs side by side must not share a name
    try:
        result = await processes.run(
            [sys.executable, "-P", "-m", "proctor.cli.teardown", teardown.path],
            cwd=str(directory),
            env={**os.environ, **variables, "PYTHONUNBUFFERED": "1"},
            timeout_seconds=teardown.timeout_seconds,
            keep_bytes=64 * 1024,
        )
    finally:
        await processes.kill()
    if result.timed_out:
        problem = f"it did not end within {teardown.timeout_seconds:g} s, and was ended"
    elif result.signal is not None:
        problem = f"it was ended by signal {result.signal}"
    elif result.exit_code is None:
        problem = result.lost or "it was ended"
    else:
        problem = None if result.exit_code == RETURNED else f"it ended with status {result.exit_code}"
    printed = with_gap(result.stdout, result.stdout_dropped) + with_gap(result.stderr, result.stderr_dropped)
    return TeardownEnd(problem, printed.decode("utf-8", "replace"), result.seconds)


def call(path: str) -> None:
    """Import and call a function; one that is async is run to its end."""
    from importlib import import_module  # noqa: PLC0415 - see above

    module, _, attribute = path.partition(":")
    function: Any = import_module(module)
    for part in attribute.split("."):
        function = getattr(function, part)
    result = function()
    if hasattr(result, "__await__"):
        import asyncio  # noqa: PLC0415 - most are not async

        async def wait() -> None:
            await result

        asyncio.run(wait())


def main() -> int:
    """Call the function that the command line names, and return the exit status."""
    sys.path.insert(0, os.getcwd())
    try:
        call(sys.argv[1])
    except BaseException as error:  # an exit is no return
        import traceback  # noqa: PLC0415 - only when it fails

        traceback.print_exception(error)
        return 1
    with suppress(OSError):  # nobody may be reading any more
        sys.stdout.flush()
    return RETURNED


if __name__ == "__main__":
    sys.exit(main())
