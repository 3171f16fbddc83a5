"""Runs a command, and fails if it leaves a process behind, whatever session or group that put itself into.

usage: leave_nothing.py [--grace SECONDS] COMMAND ARGS...

What is left after a grace (10 seconds) is named and ended. The exit status is that of the command, or 1 if it was 0 and
something was left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""From the kernel's prctl.h: orphans below this process become its children, so that none can hide."""

GRACE_SECONDS = 10.0
"""What is about to end by itself is not left behind."""


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


def end_what_is_left(grace_seconds: float) -> list[str]:
    """Wait until nothing is left below this process, kill what stays longer than the grace; return what that was.

    Only the kernel knows that nothing is left: a list made from /proc misses what is started while it is made.
    """
    ended: list[str] = []
    kill_from = time.monotonic() + grace_seconds
    while True:
        try:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if reaped:
            continue
        if time.monotonic() >= kill_from:
            for pid, command in children().items():
                ended.append(f"{pid} {command}")
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        else:
            time.sleep(0.02)


def main(arguments: list[str]) -> int:
    """Run the command and return the exit status."""
    grace_seconds = GRACE_SECONDS
    if arguments[:1] == ["--grace"]:
        grace_seconds, arguments = float(arguments[1]), arguments[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot become the reaper of its orphans")
    status = subprocess.run(arguments, check=False).returncode
    ended = end_what_is_left(grace_seconds)
    for line in ended:
        print(f"left behind, and now ended: {line}", file=sys.stderr)
    return status if status != 0 else int(bool(ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
