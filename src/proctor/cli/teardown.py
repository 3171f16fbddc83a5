"""Runs a hook of an experiment in a process of its own: whatever it does, it ends within its limit.

usage: python -P -m proctor.cli.teardown FUNCTION   (in the directory of the project)

FUNCTION is `package.module:function`, or `path/to/file.py:function` from that directory.
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

from proctor.model.bounds import shortened, with_gap
from proctor.store.lease_info import Teardown

RETURNED = 73
"""The exit status that says that the function returned: a program that only ends, with 0 as well, has not."""

SHOWN_CHARACTERS = 4_000

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class TeardownEnd:
    """How a teardown ended: `problem` is None where it succeeded; `output` is what it printed, head and tail."""

    problem: str | None
    output: str
    seconds: float

    @property
    def shown(self) -> str:
        """As much of the output as is shown; the log has more."""
        return shortened(self.output, SHOWN_CHARACTERS)


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
    result = function_at(path, Path.cwd())()
    if hasattr(result, "__await__"):
        import asyncio  # noqa: PLC0415 - most are not async

        async def wait() -> None:
            await result

        asyncio.run(wait())


def function_at(path: str, project: Path) -> Any:
    """Return what a path names, imported; raises whatever the import does, `UsageError` where a file is wrong."""
    module, _, attribute = path.rpartition(":")
    if module.endswith(".py"):
        from proctor.authoring.project_files import import_file  # noqa: PLC0415 - see above

        found: Any = import_file(project / module, project).module
    else:
        from importlib import import_module  # noqa: PLC0415 - see above

        found = import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            from proctor.errors import UsageError  # noqa: PLC0415 - as above

            raise UsageError(f"there is no `{attribute}` in `{module}`", hint="name a function that is there")
        found = getattr(found, part)
    return found


def _print_exception(error: BaseException) -> None:
    """Print an exception from the function on, and what it says in one line at the end: that line is what is shown."""
    import traceback  # noqa: PLC0415 - only when it fails

    from proctor.errors import describe  # noqa: PLC0415 - likewise

    inside = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename == __file__:
        inside = inside.tb_next
    printed = "".join(traceback.format_exception(type(error), error, inside)).rstrip()
    last = describe(error)
    sys.stderr.write(f"{printed}\n" if printed.endswith(last) else f"{printed}\n{last}\n")


def main() -> int:
    """Call the function that the command line names, and return the exit status."""
    sys.path.insert(0, os.getcwd())
    try:
        call(sys.argv[1])
    except BaseException as error:  # an exit is no return
        _print_exception(error)
        return 1
    with suppress(OSError):  # nobody may be reading any more
        sys.stdout.flush()
    return RETURNED


if __name__ == "__main__":
    sys.exit(main())
