"""Task groups, as benchmarks declare them: tasks that share one sandbox, one after another (spec 03 L3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from proctor.core.schedule import OnUnavailable
from proctor.plugins.sandboxes import AgentSandbox


@dataclass(frozen=True, slots=True)
class Group:
    """A task group. Its members are the tasks whose `group` is its name; what it does not say of them is the same.

    The hooks are called once with each physical sandbox of the group: before the first task, after the last.
    """

    name: str
    on_unavailable: OnUnavailable
    """What is done when its sandbox is of no use any more: the rest is given up, or goes on in another one."""
    sandbox_setup: Callable[[AgentSandbox], object] | None = None
    sandbox_teardown: Callable[[AgentSandbox], object] | None = None


class HasGroups(Protocol):
    """What a benchmark has beside the rest whose tasks are members of groups."""

    def groups(self) -> Iterable[Group]:
        """Return all groups; called after `tasks`."""
        ...


__all__ = ["Group", "HasGroups", "OnUnavailable"]
