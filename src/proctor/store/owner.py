"""Who holds something: one process, told from every other one, and whether it is still alive.

A process is known by host, boot id, process id and start time, so that a process id that was given away again is not
taken for the process that had it before. Where the process ran in a container, its process ids mean nothing outside of
it: the namespace is kept, and the answer from another one is that nobody knows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from proctor.errors import StoreError
from proctor.store.lock import this_host

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_FIELD_OF_THREADS = 17  # counted from the state, which is the first one after the name
_FIELD_OF_START = 19


@dataclass(frozen=True, slots=True)
class Owner:
    """One process: `process_start_ticks` is when it started, in clock ticks since the start of the host."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start_ticks: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Living(StrEnum):
    """Whether a process is alive, as far as this process can know."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Life:
    """Whether an owner is alive, and how that is known."""

    living: Living
    why: str
    stopped: bool = False
    """Whether it was stopped by a signal, and goes on when it is told to."""

    def __str__(self) -> str:
        return f"{self.living} ({self.why})"


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What `/proc/<pid>/stat` says of a process: its state letter, its threads, its start in clock ticks."""

    state: str
    threads: int
    start_ticks: int

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs any more. The first thread may end before others: then the process goes on."""
        return self.state in "ZXx" and self.threads <= 1

    @property
    def stopped(self) -> bool:
        """Whether it was stopped by a signal or by a debugger, and may go on at any time."""
        return self.state in "Tt"


def parse_stat(line: bytes) -> ProcessStat:
    """Return what a line of `/proc/<pid>/stat` says; raises `ValueError` for any other text."""
    # The name in parentheses may hold blanks and parentheses itself, so count from the last one.
    before, closing, rest = line.rpartition(b")")
    fields = rest.split()
    if not before or not closing or len(fields) <= _FIELD_OF_START:
        raise ValueError("no line of /proc/<pid>/stat")
    return ProcessStat(fields[0].decode("ascii"), int(fields[_FIELD_OF_THREADS]), int(fields[_FIELD_OF_START]))


def this_owner() -> Owner:
    """Return the identity of this process; after a fork, ask again. Raises `StoreError` where /proc is missing."""
    return owner_of(os.getpid())


def owner_if_known() -> Owner | None:
    """Return the identity of this process, or None where /proc is missing: for those who can do without it."""
    try:
        return this_owner()
    except StoreError:
        return None


def owner_of(pid: int) -> Owner:
    """Return the identity of a process on this host. Raises `StoreError` when there is none or it cannot be seen."""
    try:
        stat = _stat_of(pid)
        boot_id = Path(_BOOT_ID).read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise StoreError(
            f"cannot tell process {pid} from others: {error.filename}: {why}",
            hint="leases need /proc, as every Linux system has it: mount it",
        ) from error
    return Owner(this_host(), boot_id, namespace, pid, stat.start_ticks)


def life_of(owner: Owner, here: Owner) -> Life:
    """Say whether `owner` is alive, as seen from the process `here`, which must be this one."""
    if owner.host != here.host:
        return Life(Living.UNKNOWN, f"it runs or ran on host {owner.host}, and this is {here.host}")
    if owner.boot_id != here.boot_id:
        return Life(Living.DEAD, f"host {owner.host} was started anew since, unless another machine has that name")
    if owner.pid_namespace != here.pid_namespace:
        return Life(Living.UNKNOWN, "it runs or ran in another container of this host")
    try:
        stat = _stat_of(owner.pid)
    except (FileNotFoundError, ProcessLookupError):
        return _life_of_unseen(owner.pid)
    except OSError as error:
        return Life(Living.UNKNOWN, f"process {owner.pid} cannot be looked at: {error.strerror}")
    return _life_of_seen(owner, stat)


def _life_of_seen(owner: Owner, stat: ProcessStat) -> Life:
    pid = owner.pid
    if stat.start_ticks != owner.process_start_ticks:
        return Life(Living.DEAD, f"process {pid} is another one by now")
    if stat.ended:
        return Life(Living.DEAD, f"process {pid} has ended, and its parent has not noticed (zombie)")
    if stat.stopped:
        return Life(Living.ALIVE, f"process {pid} is stopped; `kill -CONT {pid}` lets it go on", stopped=True)
    return Life(Living.ALIVE, f"process {pid} runs on this host")


def _life_of_unseen(pid: int) -> Life:
    """Return the life of a process that /proc does not show: it may be hidden from this user (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Life(Living.DEAD, f"there is no process {pid} any more")
    except PermissionError:
        return Life(Living.UNKNOWN, f"there is a process {pid}, which this user may not look at")
    return Life(Living.UNKNOWN, f"there is a process {pid}, which /proc does not show")


def _stat_of(pid: int) -> ProcessStat:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return parse_stat(file.read(4096))
