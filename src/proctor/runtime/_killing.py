"""Finds and kills processes: by descent, by control group, by what stands in their environment.

Used by `_supervisor.py`, which is a process of its own and imports nothing of this package, and by proctor itself when
a supervisor is lost. So it imports only what costs nothing, and no module of this package.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False  # `typing` alone would double the time that a supervisor takes to start
if TYPE_CHECKING:
    import signal as signals
    from collections.abc import Callable
    from typing import Any
else:
    import _signal as signals  # the plain module: without the enums, which cost 5 ms

SIGCONT, SIGKILL, SIGSTOP = int(signals.SIGCONT), int(signals.SIGKILL), int(signals.SIGSTOP)

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
RLIMIT_LOCKS = 10
"""A limit that the kernel keeps for each process and long since ignores: what is written there harms nothing."""

OOM_SCORE = "500"
"""When the host runs out of memory, a command is to end before proctor does."""

KILL_ROUNDS = 500
ROUND_MILLISECONDS = 10


def prctl(option: int, value: int) -> bool:
    """Set a property of this process; False where this interpreter or this system cannot."""
    try:
        import _ctypes  # noqa: PLC0415 - half the cost of ctypes; not every interpreter has it

        program: Any = None  # means this program itself
        function: int = _ctypes.dlsym(_ctypes.dlopen(program, 2), "prctl")
        return bool(_ctypes.call_function(function, (option, value, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):  # then by the public module
        pass
    try:
        import ctypes  # noqa: PLC0415 - see above

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def pipe_of_signals(*numbers: int) -> int:
    """Return the end of a pipe in which there is something to read after each of these signals."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)
    signals.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def note(*_: object) -> None: ...  # that there is a handler makes the signal known

    for number in numbers:
        signals.signal(number, note)
    return reading


def parents() -> dict[int, int]:
    """Return the parent of every process that is alive or not yet reaped."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                    fields = file.read(4096)
            except OSError:  # it has ended
                continue
            found[int(name)] = int(fields[fields.rindex(b")") + 1 :].split(None, 2)[1])
    return found


def descendants(root: int) -> set[int]:
    """Return the processes that descend from `root`, without itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def children(parent: int) -> set[int]:
    """Return the children of a process at little cost; none where the kernel has no such list."""
    return {int(pid) for pid in read_text(f"/proc/{parent}/task/{parent}/children").split()}


def marked(marker: bytes) -> set[int]:
    """Return the living processes in whose first environment `marker` (as `NAME=value`) stands, without this one."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb", buffering=0) as file:
                    environment = file.readall()
            except OSError:  # it has ended, or belongs to somebody else
                continue
            if marker in environment.split(b"\0"):
                found.add(int(name))
    return found


def send(pid: int, signal: int) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    try:  # noqa: SIM105 - contextlib is not imported here, for its cost
        os.kill(pid, signal)
    except (ProcessLookupError, PermissionError):  # it has ended, or become somebody else's
        pass


def write_text(path: str, text: str) -> bool:
    """Write to a file of the kernel; say whether it took it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_text(path: str) -> str:
    """Read a file of the kernel; empty if there is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode()
    except OSError:
        return ""


def kill_group(directory: str) -> bool:
    """Kill everything in a control group; say whether anything was there."""
    pids = read_text(directory + "/cgroup.procs").split()
    if not pids:
        return False
    if not write_text(directory + "/cgroup.kill", "1"):
        write_text(directory + "/pids.max", "0")  # so that nothing new starts while the list is walked
        for pid in pids:
            send(int(pid), SIGKILL)
    return True


def remove_group(directory: str) -> bool:
    """Remove a control group; say whether it is gone."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_groups(directory: str) -> bool:
    """Remove a control group with the groups right below it; say whether it is gone."""
    try:
        with os.scandir(directory) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        below = []
    for folder in below:
        remove_group(folder)
    return remove_group(directory)


def out_of_memory(groups: list[str]) -> bool:
    """Say whether the kernel ended something in these control groups for want of memory."""
    for directory in groups:
        for name in ("memory.events", "memory.oom_control"):
            for line in read_text(f"{directory}/{name}").splitlines():
                if line.startswith("oom_kill ") and int(line.split()[1]):
                    return True
    return False


def traced(trace: int | None) -> set[int]:
    """Return the processes that carry a trace, see `lineage.py`."""
    import resource  # noqa: PLC0415 - rarely needed

    found: set[int] = set()
    for name in os.listdir("/proc") if trace is not None else ():
        if name.isdigit():
            try:
                limit = resource.prlimit(int(name), RLIMIT_LOCKS)[1]
            except OSError:  # it has ended, or belongs to somebody else
                continue
            if limit == trace:
                found.add(int(name))
    return found


def strays(groups: list[str], marker: bytes, trace: int | None) -> set[int]:
    """Return the living processes of a command by its control group, or else by its marker and its trace."""
    if groups:  # nothing inside of namespaces can leave one
        return living({int(pid) for pid in read_text(f"{groups[0]}/cgroup.procs").split()})
    return living((marked(marker) | traced(trace)) - {os.getpid()})


def stop_and_kill(find: Callable[[], set[int]]) -> bool:
    """Kill what `find()` returns; say whether anything was found.

    All are stopped first, again and again until no new one appears, since one that runs could go on starting others.
    """
    stopped: set[int] = set()
    for _ in range(50):
        fresh = find() - stopped
        if not fresh:
            break
        for pid in fresh:
            send(pid, SIGSTOP)
        stopped |= fresh
    for pid in stopped:
        send(pid, SIGKILL)
    return bool(stopped)


def kill_remains(groups: list[str], find: Callable[[], set[int]]) -> set[int]:
    """Kill what a lost supervisor left: by control group, and what `find()` returns. Returns what could not be killed.

    `find` is to return living processes only.
    """
    for _ in range(KILL_ROUNDS):
        found = [kill_group(directory) for directory in groups]
        found.append(stop_and_kill(find))
        if not any(found):
            break
        select.poll().poll(ROUND_MILLISECONDS)
    for directory in groups:
        remove_group(directory)
    return find()


def living(pids: set[int]) -> set[int]:
    """Return those that are not zombies."""
    return {pid for pid in pids if read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] not in ([], ["Z"])}
