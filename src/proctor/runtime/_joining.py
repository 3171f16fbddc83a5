"""How the child of a supervisor enters the namespaces of a sandbox. Imports as little as `_supervisor.py` does.

A process in between enters them and forks the command with the supervisor as its parent, so that the supervisor stays
outside and still answers for the command. Until the command has become its program, neither can be looked at or traced
from inside: they hold memory and descriptors of the host.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    import signal as signals
    from typing import Any

    from proctor.runtime import _bounding, _killing
else:
    import _signal as signals  # the plain module: without the enums, which cost 5 ms

    import _killing

NS_GET_USERNS = 0xB701
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 24, 22, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
CLONE_PARENT, CLONE_INTO_CGROUP = 0x8000, 1 << 33
CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435

ORDER = ("pid", "net", "ipc", "uts", "cgroup", "mnt")
"""In which they are entered: the file system last, since what leads to the others is found by ours."""

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""Devices of this machine that every sandbox has: root inside could change their modes."""
MOUNT_SETATTR, READ_ONLY = 442, 1
HERE = -100

NOT_JOINED = 75
"""How a supervisor ends where the namespaces were gone before the command could enter them."""
NOT_BOUNDED = 76
"""How a supervisor ends whose command could not be put under the limits of its sandbox."""


_functions: dict[str, int] = {}
"""Where those are that were called; a fork finds them there too."""


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library: numbers are C ints, bytes are pointers."""
    import _ctypes  # noqa: PLC0415 - half the cost of ctypes, and all that is needed; not every command needs it

    if name not in _functions:
        program: Any = None  # means this program itself
        _functions[name] = _ctypes.dlsym(_ctypes.dlopen(program, 2), name)
    return int(_ctypes.call_function(_functions[name], arguments))


def wait_for_namespaces(inside: dict[str, Any] | None, socket: int, groups: _bounding.Groups) -> list[int]:
    """Wait until we are told which namespaces to enter, and open them; ends this process where they are gone.

    They start at the same time as this process. None are returned where there is nothing to enter.
    """
    if inside is None:
        return []
    for name in ("_ctypes", "_struct", "resource"):  # what the child needs would not be found in its own file system
        __import__(name)
    line = _read_line(socket)
    if not line:
        for directory in groups.joined:
            _killing.remove_group(directory)
        os._exit(0)
    try:
        return _open_namespaces(line, inside["network"])
    except OSError:
        os._exit(NOT_JOINED)


def _read_line(socket: int) -> bytes:
    """Read which namespaces to enter; empty where another order, or the end, comes first."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(socket, 1)
        if not piece or (not line and piece in b"TK"):
            return b""
        line += piece
    return line


def _open_namespaces(line: bytes, network: bool) -> list[int]:
    """Open the namespaces that `line` names, in the order in which to enter them.

    The line holds the process that is in them, and the number of each. What has other numbers is another process under
    the same id: raises `OSError`.
    """
    words = line.split()
    folder = f"/proc/{int(words[0])}/ns"
    numbers = {kind: int(number) for kind, _, number in (word.partition(b"=") for word in words[1:])}
    opened: dict[str, int] = {}
    for kind in ORDER:
        if kind.encode() in numbers and (network or kind != "net"):
            opened[kind] = os.open(f"{folder}/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(opened[kind]).st_ino != numbers[kind.encode()]:
                raise ProcessLookupError(3, "the namespaces are gone")
    user = os.open(f"{folder}/user", os.O_RDONLY | os.O_CLOEXEC)
    owner = call("ioctl", opened["pid"], NS_GET_USERNS, 0)
    if owner < 0:
        raise OSError(1, "the owner of the namespaces cannot be found")
    last = [] if os.fstat(owner).st_ino == os.fstat(user).st_ino else [user]
    return [owner, *opened.values(), *last]


def fork_inside(namespaces: list[int], groups: _bounding.Groups) -> int:
    """Fork a child in the namespaces: returns its process id, and 0 in the child; ends this process if it cannot."""
    reading, writing = os.pipe()
    joiner = os.fork()
    if joiner == 0 and _enter(namespaces, groups, writing):
        return 0
    os.close(writing)
    told = os.read(reading, 32).split()
    os.close(reading)
    os.waitpid(joiner, 0)
    for place in namespaces:
        os.close(place)
    if not told or int(told[0]) < 0:
        os._exit(NOT_JOINED)
    groups.born = int(told[1]) == 1
    return int(told[0])


def fork_beside() -> int:
    """Fork a child of our parent, not of this process: returns its process id, 0 in the child, -1 if it cannot."""
    flags = CLONE_PARENT | int(signals.SIGCHLD)
    return call("syscall", CLONE_NUMBERS[os.uname().machine], flags, 0, 0, 0, 0)


def fork_into(group: int, *, beside: bool) -> int:
    """Fork a child in a control group of version 2, a descriptor; of our parent where `beside`. Like `fork_beside`."""
    flags = CLONE_INTO_CGROUP | (CLONE_PARENT if beside else 0)
    signal = 0 if beside else int(signals.SIGCHLD)
    numbers = (flags, 0, 0, 0, signal, 0, 0, 0, 0, 0, group)
    arguments = b"".join(number.to_bytes(8, "little") for number in numbers)
    try:
        return call("syscall", CLONE3, arguments, len(arguments))
    except (ImportError, AttributeError):  # this interpreter cannot call functions
        return -1


def _enter(namespaces: list[int], groups: _bounding.Groups, told: int) -> bool:
    """Enter the namespaces and fork there: returns True in the child, and never in the process in between."""
    try:
        _killing.write_text("/proc/self/oom_score_adj", _killing.OOM_SCORE)
        _killing.prctl(PR_SET_DUMPABLE, 0)
        if all(call("setns", place, 0) == 0 for place in namespaces):
            _killing.prctl(PR_SET_DUMPABLE, 0)  # some machines are set up to undo it (`fs.suid_dumpable`)
            if os.getuid() == 0:
                protect_devices()
            child = groups.bear(beside=True)
            if child == 0:
                return True
            os.write(told, b"%d %d" % (child, groups.born))
        os._exit(0)
    except BaseException:
        os._exit(1)  # that nothing was told says it all


def protect_devices() -> None:
    """Make the places of devices read-only, as bubblewrap cannot; they are written to all the same."""
    attributes = READ_ONLY.to_bytes(8, "little") + bytes(24)
    for name in DEVICES:
        call("syscall", MOUNT_SETATTR, HERE, b"/dev/%b" % name.encode(), 0, attributes, len(attributes))


def drop_privileges(program: bytes) -> None:
    """Give up all capabilities for good, and what the filter `program` of system calls forbids; raises `OSError`."""
    import _ctypes  # noqa: PLC0415 - only the child of a sandbox needs it
    import _struct  # noqa: PLC0415 - likewise

    for capability in range(64):
        call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that the kernel does not know are none
    if call("capset", _struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)) != 0:
        raise OSError(1, "capabilities cannot be dropped")
    if not _killing.prctl(PR_SET_NO_NEW_PRIVS, 1):
        raise OSError(1, "new privileges cannot be refused")
    simple: Any = getattr(_ctypes, "_SimpleCData")  # noqa: B009 - ctypes itself is slow to import
    kind: Any = type("Byte", (simple,), {"_type_": "c"})
    code = (kind * len(program)).from_buffer_copy(program)
    described = _struct.pack("HxxxxxxQ", len(program) // 8, _ctypes.addressof(code))
    if call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described, 0, 0) != 0:
        raise OSError(1, "system calls cannot be filtered")
