"""Whose a sandbox is, by its labels: whether the process that opened it lives, and what that makes of the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from proctor.cli.sandbox_labels import owner_in
from proctor.store.owner import Life, Living, Owner, life_of

KEPT = "kept"
"""The label that `Provider.list` gives a sandbox that was kept, with the value "true"."""


MOST_PROCESSES = 2**31
"""No process id is as large; a label may say anything."""


class SandboxState(StrEnum):
    """What is known of a sandbox that is there (spec 06 V1, V2)."""

    KEPT = "kept"
    """It was kept on purpose, and stays until somebody stops it."""
    RUNNING = "running"
    """The process that opened it lives."""
    ORPHANED = "orphaned"
    """The process that opened it is dead: nobody will dispose of it."""
    UNVERIFIED = "unverified"
    """Nobody can tell from here: another host or container, or labels that do not say."""


Look = Callable[[Owner, Owner], Life]
"""Says whether the first process lives, as seen from the second, which is this one."""


def owner_life(labels: Mapping[str, str], here: Owner | None, look: Look = life_of) -> Life:
    """Say whether the process that opened a sandbox lives; `here` is this process, None where it cannot be told."""
    owner = owner_in(labels)
    if owner is None:
        return Life(Living.UNKNOWN, "its labels do not say which process opened it")
    if not 0 < owner.pid < MOST_PROCESSES:
        return Life(Living.UNKNOWN, f"its labels name process {owner.pid}, which there cannot be")
    if here is None:
        return Life(Living.UNKNOWN, "there is no /proc here, which would tell")
    return look(owner, here)


_STATE_OF = {
    Living.ALIVE: SandboxState.RUNNING,
    Living.DEAD: SandboxState.ORPHANED,
    Living.UNKNOWN: SandboxState.UNVERIFIED,
}


def sandbox_state(labels: Mapping[str, str], life: Life) -> SandboxState:
    """Return the state of a sandbox whose owner's life is known as far as it can be."""
    return SandboxState.KEPT if labels.get(KEPT) == "true" else _STATE_OF[life.living]


__all__ = ["KEPT", "Look", "SandboxState", "owner_life", "sandbox_state"]
