"""Finds what would be done to this machine where a sandbox is only a directory of it."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from posixpath import join, normpath

from proctor.errors import Fault
from proctor.plugins.api import Sandbox

NOWHERE = "/.proctor-is-not-there"


async def places_of_this_machine(sandbox: Sandbox, places: Iterable[str]) -> list[str]:
    """Return the places outside of the work directory of a sandbox without a file tree of its own, as with `local`."""
    workdir = normpath(sandbox.workdir)
    outside = [place for place in places if not f"{normpath(join(workdir, place))}/".startswith(f"{workdir}/")]
    return outside if outside and not await _has_own_tree(sandbox) else []


async def require_own_tree(sandbox: Sandbox, places: Iterable[str], *, processes: bool = False) -> None:
    """Raise `Fault` (grader.crashed) where to empty `places`, or to end all `processes`, would reach this machine.

    A provider without a file tree of its own has no processes of its own either.
    """
    outside = await places_of_this_machine(sandbox, places)
    if outside or (processes and not await _has_own_tree(sandbox)):
        what = f"to empty `{outside[0]}`" if outside else "to end all processes"
        why = "the sandbox has no file tree and no processes of its own"
        raise Fault("grader.crashed", f"{what} would be done to this machine: {why}; use bwrap or docker")


async def _has_own_tree(sandbox: Sandbox) -> bool:
    """Say whether the provider reads more than the work directory; what is inside is not asked."""
    try:
        await sandbox.read(NOWHERE)
    except PermissionError as error:
        return error.errno != errno.EPERM
    except OSError:
        return True
    return True


__all__ = ["places_of_this_machine", "require_own_tree"]
