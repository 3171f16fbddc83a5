"""Runs a command, and fails if it leaves a process behind, whatever session or group that put itself into.

usage: leave_nothing.py COMMAND ARGS...

What is left is named and ended. The exit status is that of the command, or 1 if it was 0 and something was left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""From the kernel's prctl.h: orphans below this process become its children, so that none can hide."""


def children() -> dict[int, str]:
    """Return the command lines of the live children of this process by process id."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold blanks and parentheses itself, so count from the last one.
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(parent) == os.getpid() and state != "Z":
            found[int(entry.name)] = command
    return found


def end_what_is_left() -> list[str]:
    """Kill all that is left below this process, also what appears when its parent is killed; return what it was."""
    ended: list[str] = []
    while left := children():
        for pid, command in left.items():
            ended.append(f"{pid} {command}")
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return ended


def main(command: list[str]) -> int:
    """Run `command` and return the exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot become the reaper of its orphans")
    status = subprocess.run(command, check=False).returncode
    ended = end_what_is_left()
    for line in ended:
        print(f"left behind, and now ended: {line}", file=sys.stderr)
    return status if status != 0 else int(bool(ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
