"""Finds the control groups in which commands can be put: to limit them, and to find and kill all of them.

Both versions are used where this process may make groups below its own: version 2 (killing at one stroke, and limits
where controllers are handed down), and the `pids` and `memory` hierarchies of version 1. None is needed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from proctor.runtime import _killing

PREFIX = "proctor-"

GroupPlan = list[tuple[str, list[tuple[str, str]]]]
"""Directories to make, each with the files to write in it and what to write."""


@dataclass(frozen=True, slots=True)
class CgroupRoots:
    """Directories in which groups can be made; None where there is none or it is not ours to write."""

    unified: str | None = None
    controllers: frozenset[str] = frozenset()
    """What groups below `unified` can limit."""
    pids: str | None = None
    memory: str | None = None

    def plan(self, name: str, *, memory_bytes: int | None, processes: int | None) -> GroupPlan:
        """Return the groups for one command; the first is there to find it, the others as its limits ask for them."""
        plan: GroupPlan = []
        if self.unified:
            settings: list[tuple[str, str]] = []
            if processes is not None and "pids" in self.controllers:
                settings.append(("pids.max", str(processes)))
            if memory_bytes is not None and "memory" in self.controllers:
                settings.append(("memory.max", str(memory_bytes)))
            plan.append((f"{self.unified}/{PREFIX}{name}", settings))
        if self.pids and (processes is not None or not self.unified):
            settings = [] if processes is None else [("pids.max", str(processes))]
            plan.append((f"{self.pids}/{PREFIX}{name}", settings))
        if self.memory and memory_bytes is not None:
            plan.append((f"{self.memory}/{PREFIX}{name}", [("memory.limit_in_bytes", str(memory_bytes))]))
        return plan

    def remove_stale(self) -> None:
        """Remove the empty groups that a dead process left; what still runs in one is not ours to judge."""
        for root in (self.unified, self.pids, self.memory):
            for name in os.listdir(root) if root else ():
                owner = name.removeprefix(PREFIX).partition("-")[0]
                if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                    _killing.remove_group(f"{root}/{name}")


NO_CGROUPS = CgroupRoots()


@cache
def find_roots() -> CgroupRoots:
    """Return where this process can make groups."""
    return roots_from(_killing.read_text("/proc/self/cgroup"), _killing.read_text("/proc/self/mountinfo"))


def roots_from(memberships: str, mounts: str) -> CgroupRoots:
    """Return the roots that `/proc/self/cgroup` and `/proc/self/mountinfo` speak of, as far as they can be written."""
    paths = _membership_paths(memberships)
    unified = pids = memory = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        mount, kind = before.split(), after.split()
        if len(mount) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        options = kind[2].split(",")
        if kind[0] == "cgroup2":
            unified = unified or _below(mount, paths.get(""))
        elif "pids" in options:
            pids = pids or _below(mount, paths.get("pids"))
        elif "memory" in options:
            memory = memory or _below(mount, paths.get("memory"))
    handed_down = _killing.read_text(f"{unified}/cgroup.subtree_control").split() if unified else ()
    return CgroupRoots(unified, frozenset(handed_down), pids, memory)


def _membership_paths(memberships: str) -> dict[str, str]:
    """Return controller -> path of this process in its hierarchy; the controller of version 2 is empty."""
    paths: dict[str, str] = {}
    for line in memberships.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _below(mount: list[str], path: str | None) -> str | None:
    """Return the directory of `path` below a mount, if groups can be made in it."""
    if path is None:
        return None
    root, point = _unescape(mount[3]), _unescape(mount[4])
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return None  # another part of the hierarchy is mounted here
        path = path[len(root) :]
    directory = point.rstrip("/") + path.rstrip("/")
    writable = os.access(directory, os.W_OK) and os.access(f"{directory}/cgroup.procs", os.W_OK)
    return directory if writable else None


def _unescape(field: str) -> str:
    return field.replace("\\040", " ").replace("\\134", "\\")
