"""Room for the files of many runs: each keeps some of them open while it goes on."""

from __future__ import annotations

import resource

from proctor.errors import UsageError

FILES_OF_A_RUN = 3
"""Its journal, its log, and one that is just being written."""
FILES_BESIDE = 512
"""For everything else, pipes to sandboxes among it."""


def make_room_for(runs: int) -> None:
    """Let this process have as many open files as so many runs need, where it may have fewer so far.

    Raises `UsageError` where it cannot.
    """
    needed = runs * FILES_OF_A_RUN + FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft or runs == 1:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{runs:,} experiments at once need about {needed:,} open files, and this process may have {hard:,}",
            hint="raise that with `ulimit -n`, or launch fewer at once",
        ) from error
