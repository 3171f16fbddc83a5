"""Knows what came of a command, whatever became of its environment, its session, its control group and its parents.

Each command gets a number of its own, its trace, as the hard limit on file locks, which kernels keep and ignore. It is
handed down to all that the command starts. Nobody but root can raise it again, and whoever lowers it still shows that
it came of some command. So a process without a supervisor is known for what it is, and no other is taken for one.

Processes whose supervisor is lost become children of proctor itself, once `adopt_orphans` was called.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress

from proctor.errors import Fault
from proctor.runtime import _killing
from proctor.runtime._killing import RLIMIT_LOCKS

HIGHEST = 1 << 62
"""Where traces begin if proctor's own limit is infinite."""
NAME_BITS, COMMAND_BITS = 45, 14


def trace_of(name: str, command: int) -> int | None:
    """Return the trace of a command by its number and the name of its sandbox; None where there is no room for one."""
    trace = _highest() - _distance(name) - command % (1 << COMMAND_BITS)
    return trace if trace > 0 else None


def of_command(marker: bytes, trace: int | None) -> set[int]:
    """Return the living processes of one command, by its trace and by `marker` in their environment, and all orphans.

    Orphans of other commands are among them: their supervisors are lost too.
    """
    traced = {pid for pid, limit in _limits() if limit == trace}
    return _killing.living(_killing.marked(marker) | traced) | orphans()


def of_sandbox(marker: bytes, name: str) -> set[int]:
    """Return the living processes of all commands of a sandbox, by their traces and by `marker`."""
    highest = _highest() - _distance(name)
    traced = {pid for pid, limit in _limits() if highest - (1 << COMMAND_BITS) < limit <= highest}
    return _killing.living(_killing.marked(marker) | traced)


async def kill_remains(groups: list[str], find: Callable[[], set[int]]) -> None:
    """Kill what is in control groups and what `find()` returns; raises `Fault` when something cannot be killed."""
    left = await asyncio.to_thread(_killing.kill_remains, groups, find)
    if left:
        raise Fault("provider.lost", f"processes could not be killed: {', '.join(map(str, sorted(left)))}")


def adopt_orphans() -> None:
    """Make this process the parent of what loses its supervisor; without effect where the kernel cannot."""
    if _adopting[:1] != [os.getpid()]:  # a fork of this process would not be one
        _adopting[:] = [os.getpid()]
        _killing.prctl(_killing.PR_SET_CHILD_SUBREAPER, 1)


_adopting: list[int] = []


def orphans() -> set[int]:
    """Return what lost its supervisor and became a child of this process, with its descendants, and reap the dead.

    Children with no trace of a command are left alone: they belong to other parts of the program.
    """
    found: set[int] = set()
    own = _own_limit()
    for pid, parent in _killing.parents().items():
        if parent == os.getpid() and 0 <= _limit_of(pid, own) < own:
            if _killing.living({pid}):
                found |= {pid} | _killing.living(_killing.descendants(pid))
            else:
                with suppress(ChildProcessError):  # another thread did this just now
                    os.waitpid(pid, os.WNOHANG)
    return found


def _distance(name: str) -> int:
    """Return how far the traces of a sandbox lie below the highest."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return ((int.from_bytes(digest) >> (64 - NAME_BITS)) << COMMAND_BITS) + 1


def _highest() -> int:
    return min(_own_limit(), HIGHEST)


def _own_limit() -> int:
    """Return the limit of this process; it is finite in a proctor that runs inside a sandbox of another one."""
    return _finite(resource.getrlimit(RLIMIT_LOCKS)[1])


def _finite(limit: int) -> int:
    return 1 << 64 if limit == resource.RLIM_INFINITY else limit


def _limit_of(pid: int, otherwise: int) -> int:
    try:
        return _finite(resource.prlimit(pid, RLIMIT_LOCKS)[1])
    except OSError:  # it has ended, or belongs to somebody else
        return otherwise


def _limits() -> Iterator[tuple[int, int]]:
    """Yield each process but this one with its limit."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            yield int(name), _limit_of(int(name), -1)
