"""Makes, fills and removes the control groups of sandboxes, wherever `cgroup.py` finds that they can be."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import suppress

from proctor.errors import Fault
from proctor.runtime import _killing
from proctor.runtime.cgroup import GroupPlan

OPTIONAL_SETTINGS = {"memory.swap.max", "memory.memsw.limit_in_bytes"}
"""What kernels without accounting of swap do not have."""


def make_groups(plan: GroupPlan) -> None:
    """Make groups with their limits, all or none; raises `OSError`."""
    made: list[str] = []
    try:
        for directory, settings in plan:
            os.mkdir(directory)
            made.append(directory)
            for name, value in settings:
                if not _killing.write_text(f"{directory}/{name}", value) and name not in OPTIONAL_SETTINGS:
                    raise OSError(errno.EIO, f"the kernel does not take `{value}` as {name} of", directory)
    except OSError:
        for directory in made:
            _killing.remove_group(directory)
        raise


def put_in_groups(plan: GroupPlan, processes: set[int]) -> None:
    """Put processes into groups, made where they are missing; raises `OSError`."""
    for directory, _ in plan:
        with suppress(FileExistsError):
            os.mkdir(directory)
        for pid in processes:
            if not _killing.write_text(f"{directory}/cgroup.procs", str(pid)):
                raise OSError(errno.EIO, f"process {pid} cannot be put into the control group", directory)


async def remove_all(directories: Sequence[str]) -> None:
    """Kill what is in groups of sandboxes and below, and remove them; raises `Fault` for one that stays."""
    for directory in directories:
        for _ in range(_killing.KILL_ROUNDS):
            if _killing.remove_groups(directory):
                break
            for folder in (directory, *(entry.path for entry in os.scandir(directory) if entry.is_dir())):
                _killing.kill_group(folder)
            await asyncio.sleep(_killing.ROUND_MILLISECONDS / 1000)
        else:
            raise Fault("dispose.failed", f"control group {directory} could not be removed: something runs in it")
