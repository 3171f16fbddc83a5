"""Removes sandboxes by their ids, whichever process opened them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from proctor.cli.output import say
from proctor.cli.owners import SandboxState
from proctor.cli.sandbox_list import FoundSandbox
from proctor.cli.sandbox_providers import Asked, problem_of, within
from proctor.errors import UsageError
from proctor.report.wording import printable

REMOVE_SECONDS = 60.0
"""How long the removal of one sandbox may take."""

AT_ONCE = 8
"""So many are removed at a time: the machine may be busy with a run."""

_FREE = (SandboxState.KEPT, SandboxState.ORPHANED)
"""Of such a sandbox it is certain that nobody works in it."""


def require_unused(chosen: Sequence[FoundSandbox]) -> None:
    """Refuse sandboxes that somebody works in, or may. Raises `UsageError`, which names the first."""
    used = [one for one in chosen if one.state not in _FREE]
    if not used:
        return
    first = used[0]
    more = f" (and {len(used) - 1} more)" if len(used) > 1 else ""
    what = "in use" if first.state is SandboxState.RUNNING else "perhaps in use"
    raise UsageError(
        f"sandbox `{first.id}` is {what}: {printable(first.life.why)}{more}; nothing was removed",
        hint="`--force` removes it all the same; an attempt that runs in it is lost",
    )


async def remove_all(asked: Asked, chosen: Sequence[FoundSandbox]) -> int:
    """Remove sandboxes, and say of each whether it is gone; return how many are not."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def remove(one: FoundSandbox) -> bool:
        async with slots:
            problem = await problem_of(within(REMOVE_SECONDS, asked.made[one.provider].remove(one.id)))
        if problem is None:
            say(f"removed {printable(one.id)}")
        else:
            say(f"error: sandbox `{printable(one.id)}` could not be removed: {printable(problem)}", err=True)
        return problem is None

    gone = await asyncio.gather(*map(remove, chosen))
    return gone.count(False)


__all__ = ["AT_ONCE", "REMOVE_SECONDS", "remove_all", "require_unused"]
