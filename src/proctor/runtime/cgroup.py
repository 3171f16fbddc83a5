"""Finds the control groups in which commands can be put: to limit them, and to find and kill all of them.

Both versions are used where this process may make groups below its own: version 2 (killing at one stroke, and limits
where controllers are handed down), and the `pids` and `memory` hierarchies of version 1. None is needed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache

from proctor.runtime import _killing

PREFIX = "proctor-"

CPU_PERIOD_MICROSECONDS = 100_000

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
    cpu: str | None = None
    enclosing: bool = False
    """Whether these are the groups of one sandbox: then a command is put below every one of them."""

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
        if self.pids and (processes is not None or not self.unified or self.enclosing):
            settings = [] if processes is None else [("pids.max", str(processes))]
            plan.append((f"{self.pids}/{PREFIX}{name}", settings))
        if self.memory and (memory_bytes is not None or self.enclosing):
            settings = [] if memory_bytes is None else [("memory.limit_in_bytes", str(memory_bytes))]
            plan.append((f"{self.memory}/{PREFIX}{name}", settings))
        if self.cpu and self.enclosing:
            plan.append((f"{self.cpu}/{PREFIX}{name}", []))
        return plan

    def limits(self, controller: str) -> bool:
        """Say whether `controller` (cpu, memory, pids) can be limited in groups made here."""
        version_1 = {"cpu": self.cpu, "memory": self.memory, "pids": self.pids}[controller]
        return version_1 is not None or (self.unified is not None and controller in self.controllers)

    def enclose(
        self, name: str, *, cpus: float | None, memory_bytes: int | None, processes: int | None
    ) -> tuple[GroupPlan, CgroupRoots]:
        """Return the groups that bound all commands of a sandbox together, and the roots for groups of its commands.

        Made are only those that a limit needs, and the one by which processes are found.
        """
        limits = {"cpu": cpus, "memory": memory_bytes, "pids": processes}
        by_unified = {one for one in limits if self.unified and one in self.controllers}
        plan: GroupPlan = []
        if self.unified:
            settings = [one for wanted in sorted(by_unified) for one in _unified_settings(wanted, limits[wanted])]
            handed_down = [("cgroup.subtree_control", " ".join(f"+{one}" for one in sorted(by_unified)))]
            plan.append((f"{self.unified}/{PREFIX}{name}", settings + (handed_down if by_unified else [])))
        roots = {"pids": self.pids, "memory": self.memory, "cpu": self.cpu}
        inner: dict[str, str] = {}
        for controller, root in roots.items():
            limit = limits[controller]
            if root and limit is not None and controller not in by_unified:
                inner[controller] = f"{root}/{PREFIX}{name}"
                plan.append((inner[controller], _old_settings(controller, limit)))
        unified = f"{self.unified}/{PREFIX}{name}" if self.unified else None
        return plan, CgroupRoots(unified, self.controllers, **inner, enclosing=True)

    def groups_of(self, sandbox: str) -> list[str]:
        """Return the groups of a sandbox that are there, whichever process made them."""
        found: list[str] = []
        for root in (self.unified, self.pids, self.memory, self.cpu):
            for name in os.listdir(root) if root else ():
                if name.startswith(PREFIX) and name.removeprefix(PREFIX).partition("-")[2] == sandbox:
                    found.append(f"{root}/{name}")
        return found

    def remove_stale(self) -> None:
        """Remove the empty groups that a dead process left; what still runs in one is not ours to judge."""
        for root in (self.unified, self.pids, self.memory, self.cpu):
            for name in os.listdir(root) if root else ():
                owner = name.removeprefix(PREFIX).partition("-")[0]
                if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                    _killing.remove_groups(f"{root}/{name}")


def _unified_settings(controller: str, limit: float | None) -> list[tuple[str, str]]:
    """Return what limits a group of version 2."""
    if limit is None:
        return []
    if controller == "cpu":
        return [("cpu.max", f"{round(limit * CPU_PERIOD_MICROSECONDS)} {CPU_PERIOD_MICROSECONDS}")]
    if controller == "memory":
        return [("memory.max", str(limit)), ("memory.swap.max", "0")]
    return [("pids.max", str(limit))]


def _old_settings(controller: str, limit: float) -> list[tuple[str, str]]:
    """Return what limits a group of version 1."""
    if controller == "cpu":
        quota = str(round(limit * CPU_PERIOD_MICROSECONDS))
        return [("cpu.cfs_period_us", str(CPU_PERIOD_MICROSECONDS)), ("cpu.cfs_quota_us", quota)]
    if controller == "memory":
        return [("memory.limit_in_bytes", str(limit)), ("memory.memsw.limit_in_bytes", str(limit))]
    return [("pids.max", str(limit))]


NO_CGROUPS = CgroupRoots()


@cache
def find_roots() -> CgroupRoots:
    """Return where this process can make groups."""
    return roots_from(_killing.read_text("/proc/self/cgroup"), _killing.read_text("/proc/self/mountinfo"))


@cache
def find_sandbox_roots() -> CgroupRoots:
    """Return where this process can make groups for sandboxes, with limits where there is any way to have them."""
    return sandbox_roots_from(_killing.read_text("/proc/self/cgroup"), _killing.read_text("/proc/self/mountinfo"))


def sandbox_roots_from(memberships: str, mounts: str) -> CgroupRoots:
    """Return the roots for groups of sandboxes, see `roots_from`.

    In version 2 a group with processes in it hands down no controllers: then the nearest above that does, and is ours.
    """
    roots = roots_from(memberships, mounts)
    own = _membership_paths(memberships).get("")
    if own is None or roots.controllers:
        return roots
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        mount = before.split()
        if after.startswith("cgroup2 ") and len(mount) > 4 and (place := _place(mount, own)) is not None:
            point = _unescape(mount[4]).rstrip("/")
            names = place[len(point) :].split("/")
            for above in range(len(names) - 1, 0, -1):
                directory = point + "/".join(names[:above])
                controllers = frozenset(_killing.read_text(f"{directory}/cgroup.subtree_control").split())
                if controllers and _is_ours(directory):
                    return replace(roots, unified=directory, controllers=controllers)
    return roots


def roots_from(memberships: str, mounts: str) -> CgroupRoots:
    """Return the roots that `/proc/self/cgroup` and `/proc/self/mountinfo` speak of, as far as they can be written."""
    paths = _membership_paths(memberships)
    unified: str | None = None
    old: dict[str, str | None] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        mount, kind = before.split(), after.split()
        if len(mount) < 5 or len(kind) < 3 or not kind[0].startswith("cgroup"):
            continue
        options = kind[2].split(",")
        if kind[0] == "cgroup2":
            unified = unified or _below(mount, paths.get(""))
        for controller in {"pids", "memory", "cpu"} & {*options}:
            old[controller] = old.get(controller) or _below(mount, paths.get(controller))
    handed_down = _killing.read_text(f"{unified}/cgroup.subtree_control").split() if unified else ()
    return CgroupRoots(unified, frozenset(handed_down), old.get("pids"), old.get("memory"), old.get("cpu"))


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
    directory = None if path is None else _place(mount, path)
    return directory if directory is not None and _is_ours(directory) else None


def _place(mount: list[str], path: str) -> str | None:
    """Return the directory of `path` below a mount; None where another part of the hierarchy is mounted there."""
    root, point = _unescape(mount[3]), _unescape(mount[4])
    if root != "/":
        if path != root and not path.startswith(root + "/"):
            return None
        path = path[len(root) :]
    return point.rstrip("/") + path.rstrip("/")


def _is_ours(directory: str) -> bool:
    return os.access(directory, os.W_OK) and os.access(f"{directory}/cgroup.procs", os.W_OK)


def _unescape(field: str) -> str:
    return field.replace("\\040", " ").replace("\\134", "\\")
