"""Task groups of a benchmark, and the hooks that the sandbox of a task has: the experiment's, then its group's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proctor.errors import PluginLoadError
from proctor.runtime.agent_box import SandboxHooks

if TYPE_CHECKING:
    from proctor.cli.resolve import Resolved
    from proctor.model.spec import Task
    from proctor.plugins.api import Benchmark
    from proctor.plugins.groups import Group


def groups_of(benchmark: Benchmark) -> dict[str, Group]:
    """Return the task groups of a benchmark by name; one without `groups` has none. Raises what its code raises."""
    from proctor.plugins.groups import Group  # noqa: PLC0415 - most benchmarks have none

    declares: Any = getattr(benchmark, "groups", None)
    if declares is None:
        return {}
    found: dict[str, Group] = {}
    for group in declares():
        if not isinstance(group, Group):
            raise PluginLoadError(
                f"benchmark `{benchmark.name}` declares {type(group).__name__} as a task group, which is none",
                hint="its `groups()` has to return `proctor.plugins.groups.Group` objects",
            )
        if group.name in found:
            raise PluginLoadError(
                f"benchmark `{benchmark.name}` declares the task group `{group.name}` twice",
                hint="its `groups()` has to name each group once",
            )
        found[group.name] = group
    return found


def sandbox_hooks(resolved: Resolved, task: Task) -> tuple[SandboxHooks, ...]:
    """Return what sets up the sandbox of a task, in this order, and undoes it."""
    group = resolved.groups.get(task.group) if task.group is not None else None
    found = (resolved.hooks.sandbox,)
    if group is not None:
        found += (SandboxHooks(f"group `{group.name}`", group.sandbox_setup, group.sandbox_teardown),)
    return tuple(filter(None, found))
