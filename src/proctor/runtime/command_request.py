"""What a supervisor is asked to run, and the form in which it is told."""

from __future__ import annotations

import marshal
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proctor.plugins.api import ExecLimits
from proctor.runtime.cgroup import GroupPlan


@dataclass(frozen=True, slots=True)
class Inside:
    """How a command enters the namespaces of its sandbox."""

    filter: bytes
    """A program of the kernel's that says which system calls it may make."""
    network: bool
    """Whether it enters the network namespace too; else it has the network of the host."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    marker: str
    """`NAME=value` in `env` by which the processes of this command, and no others, can be found."""
    trace: int | None
    """By which they can be found where they dropped the marker."""
    limits: ExecLimits
    groups: GroupPlan
    inside: Inside | None = None
    """Where the command is to run in namespaces; then its supervisor waits to be told which."""

    def encode(self) -> bytes:
        """Return the form that `_supervisor.py` reads; raises `ValueError` for what no command can be given."""
        argv = [os.fsencode(part) for part in self.argv]
        env = {os.fsencode(name): os.fsencode(value) for name, value in self.env.items()}
        if not argv or not argv[0]:
            raise ValueError("a command needs at least one word")
        if any(not name or b"=" in name for name in env):
            raise ValueError("the name of a variable cannot be empty or hold `=`")
        if any(b"\0" in text for text in (*argv, *env, *env.values())):
            raise ValueError("a command and its environment cannot hold NUL characters")
        inside = self.inside
        return marshal.dumps(
            {
                "argv": argv,
                "cwd": os.fsencode(self.cwd),
                "env": env,
                "marker": self.marker.encode(),
                "trace": self.trace,
                "proctor": os.getpid(),
                "memory_bytes": self.limits.memory_bytes,
                "processes": self.limits.processes,
                "file_bytes": self.limits.file_bytes,
                "groups": self.groups,
                "inside": inside and {"filter": inside.filter, "network": inside.network},
            }
        )
