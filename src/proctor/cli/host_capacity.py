"""What this machine has for sandboxes: the CPUs and the memory that this process may use (spec 03 G10)."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


def host_cpus(cgroups: Path = _CGROUPS, proc: Path = _PROC) -> float:
    """Return how many CPUs there are: those that this process may run on, and no more than its control groups allow."""
    try:
        count = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not every system can tell
        count = float(os.cpu_count() or 1)
    quotas = [_quota(text) for text in _of_groups("cpu.max", cgroups, proc)]
    return min([count, *(quota for quota in quotas if quota is not None)])


def host_memory_bytes(cgroups: Path = _CGROUPS, proc: Path = _PROC) -> int | None:
    """Return how much memory there is, and no more than control groups allow; None where nobody can tell."""
    limits = [int(text) for text in _of_groups("memory.max", cgroups, proc) if text.isdigit()]
    whole = _whole_memory(proc)
    known = [*limits, *([] if whole is None else [whole])]
    return min(known) if known else None


def _quota(text: str) -> float | None:
    """Return the CPUs that `cpu.max` stands for, or None where it is no limit."""
    quota, _, period = text.partition(" ")
    if not quota.isdigit() or not period.isdigit() or int(period) == 0 or int(quota) == 0:
        return None
    return int(quota) / int(period)


def _of_groups(name: str, cgroups: Path, proc: Path) -> list[str]:
    """Return a file of the control group of this process and of each above it, as far as they can be read."""
    path = next((line[3:] for line in _text(proc / "self/cgroup").splitlines() if line.startswith("0::")), "/")
    group = cgroups / path.lstrip("/")
    above = [group, *group.parents]
    inside = above[: above.index(cgroups) + 1] if cgroups in above else [cgroups]
    return [text for one in inside if (text := _text(one / name).strip())]


def _whole_memory(proc: Path) -> int | None:
    for line in _text(proc / "meminfo").splitlines():
        words = line.split()
        if words[:1] == ["MemTotal:"] and len(words) > 1 and words[1].isdigit():
            return int(words[1]) * 1024
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _text(path: Path) -> str:
    """Return what a file of the kernel says; nothing where it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


__all__ = ["host_cpus", "host_memory_bytes"]
