"""Sets the limits of a command: in control groups, and as what the kernel holds for each process.

Imports as little as `_supervisor.py` does.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    from typing import Any

    from proctor.runtime import _joining, _killing
else:
    import _joining
    import _killing


class Groups:
    """The control groups of one command, which is born in them or enters them itself.

    For the kernel to move another process it waits for all processors, 10 ms or more. It need not for a thread that
    moves itself (version 1), nor for a process that begins in a group (version 2).
    """

    def __init__(self, plan: list[tuple[str, list[tuple[str, str]]]]) -> None:
        self.joined: list[str] = []
        self.counts = False
        """Whether one of them limits the number of processes."""
        self.complete = True
        self.born = False
        self._doors: list[int] = []
        """Where a thread enters those of version 1."""
        self._place, self._unified = -1, ""
        """The one of version 2, if there is any."""
        self._refused, self._refuse = os.pipe()
        os.set_blocking(self._refused, False)
        for directory, settings in plan:
            try:
                os.mkdir(directory)
            except OSError:  # groups are a help where they can be had
                self.complete = False
                continue
            taken = [name for name, value in settings if _killing.write_text(f"{directory}/{name}", value)]
            self.counts = self.counts or "pids.max" in taken
            self.joined.append(directory)
            try:
                self._doors.append(os.open(f"{directory}/tasks", os.O_WRONLY | os.O_CLOEXEC))
            except FileNotFoundError:
                self._place, self._unified = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), directory

    def bear(self, *, beside: bool) -> int:
        """Fork a child, `beside` this process or below it: returns its process id, 0 in the child, -1 if it cannot."""
        if self._place >= 0:
            child = _joining.fork_into(self._place, beside=beside)
            if child >= 0:
                self.born = True
                return child
        return _joining.fork_beside() if beside else os.fork()

    def enter(self) -> None:
        """Put this process, the command, into those of version 1; ends it where that is refused."""
        try:
            for door in self._doors:
                os.write(door, b"0")
        except OSError:
            os.write(self._refuse, b"!")
            os._exit(126)
        self._close()

    def settle(self, pid: int) -> None:
        """Put the child into the one of version 2 where it was not born there."""
        misplaced = self._place >= 0 and not self.born
        if misplaced and not _killing.write_text(f"{self._unified}/cgroup.procs", str(pid)):
            self.joined.remove(self._unified)
            self.complete = False
            _killing.remove_group(self._unified)
        self._close()

    def refused(self) -> bool:
        """Say whether the command could not be put into one of them, and ended for that."""
        try:
            return os.read(self._refused, 1) != b""
        except BlockingIOError:
            return False

    def _close(self) -> None:
        for descriptor in (*self._doors, self._refuse, *((self._place,) if self._place >= 0 else ())):
            os.close(descriptor)


def set_limits(request: dict[str, Any]) -> None:
    """Set what the kernel holds for each process."""
    import resource  # noqa: PLC0415 - only the child needs it

    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, request["memory_bytes"])]
    limits.append((resource.RLIMIT_FSIZE, request["file_bytes"]))
    limits.append((_killing.RLIMIT_LOCKS, request["trace"]))  # handed down to all descendants, see `lineage.py`
    if os.getuid() != 0 and request["processes"] is not None:
        # It counts all processes of the user, this one included, and root is exempt: a second line only.
        limits.append((resource.RLIMIT_NPROC, count_of_user() - 1 + request["processes"]))
    for kind, value in limits:
        if value is not None:
            hard = resource.getrlimit(kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (bound, bound))


def count_of_user() -> int:
    """Return how many threads the user of this process runs."""
    count = 0
    for pid in _killing.parents():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:  # it has ended
            continue
    return count
