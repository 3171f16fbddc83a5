"""The filter of system calls of a sandbox: a program that the kernel runs before each of them.

What is forbidden fails with EPERM, as it does without the right to do it. It is what no program of an agent needs and
what faults of kernels were found in: making namespaces and mounts, loading code into the kernel, its keys, and so on.
Debuggers go on working: whom they can trace is confined by the namespace.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

KILL, ALLOW, REFUSE = 0x80000000, 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38

LOAD, RETURN, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT = 0x20, 0x06, 0x15, 0x35, 0x45
NUMBER_AT, MACHINE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Where the kernel puts what is looked at. Of an argument only the lower half matters, which comes first here."""

X32 = 0x40000000
"""System calls of a variant of x86-64 that nobody uses have this bit."""
NEW_NAMESPACES = 0x7E020000
"""The flags of `clone` and `unshare` that make namespaces."""
NEW_TIME_NAMESPACE = 0x80
"""Of `unshare` alone: in `clone` it is part of a signal's number."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
"""Put characters into the terminal, as if somebody had typed them."""
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, its 32-bit name, an old version's name, fixed addresses (debuggers), and the question which one it is."""
SOCKETS = (17, 38, 40)
"""Raw packets, the kernel's cryptography, the host of a virtual machine."""


LEASES = (1024, 1026)
"""Commands of `fcntl` (F_SETLEASE, F_NOTIFY): whoever opens a file under a lease, as we do, waits for a minute."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs between kinds of processors."""

    code: int
    """What the kernel calls it."""
    refused: tuple[int, ...]
    clone: int
    unshare: int
    ioctl: int
    fcntl: int
    personality: int
    socket: int
    has_x32: bool = False


CLONE3 = 435
REFUSED_EVERYWHERE = (
    425, 426, 427,  # io_uring
    428, 429, 430, 431, 432, 433, 442, 467,  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    443,  # quotactl_fd
)  # fmt: skip

MACHINES = {
    "x86_64": Machine(
        code=0xC000003E,
        refused=(
            165, 166, 155, 308,  # mount, umount2, pivot_root, setns
            248, 249, 250,  # add_key, request_key, keyctl
            321, 298, 323,  # bpf, perf_event_open, userfaultfd
            246, 320, 174, 175, 176, 177, 178, 313,  # kexec_load, kexec_file_load, modules
            303, 304, 179, 180,  # name_to_handle_at, open_by_handle_at, quotactl, nfsservctl
            169, 167, 168, 163, 103, 172, 173,  # reboot, swapon, swapoff, acct, syslog, iopl, ioperm
            164, 227, 153, 212, 300, 156,  # settimeofday, clock_settime, vhangup, lookup_dcookie, fanotify, _sysctl
        ),
        clone=56, unshare=272, ioctl=16, fcntl=72, personality=135, socket=41, has_x32=True,
    ),
    "aarch64": Machine(
        code=0xC00000B7,
        refused=(
            40, 39, 41, 268,
            217, 218, 219,
            280, 241, 282,
            104, 294, 105, 106, 273,
            264, 265, 60, 42,
            142, 224, 225, 89, 116,
            170, 112, 58, 18, 262,
        ),
        clone=220, unshare=97, ioctl=29, fcntl=25, personality=92, socket=198,
    ),
}  # fmt: skip


@cache
def program(machine: str | None = None) -> bytes | None:
    """Return the filter for a machine, by default this one; None for one that it is not known for."""
    found = MACHINES.get(machine or os.uname().machine)
    return None if found is None else b"".join(_steps(found))


def _steps(machine: Machine) -> list[bytes]:
    steps = [
        _step(LOAD, MACHINE_AT),
        _step(JUMP_EQUAL, machine.code, 1, 0),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER_AT),
    ]
    if machine.has_x32:
        steps += [_step(JUMP_AT_LEAST, X32, 0, 1), _refuse()]
    steps += [_step(JUMP_EQUAL, CLONE3, 0, 1), _refuse(ENOSYS)]  # its flags are in memory, where no filter can look
    for number in (*machine.refused, *REFUSED_EVERYWHERE):
        steps += [_step(JUMP_EQUAL, number, 0, 1), _refuse()]
    steps += _call(machine.clone, 0, [_step(JUMP_ANY_BIT, NEW_NAMESPACES, 0, 1), _refuse()])
    steps += _call(machine.unshare, 0, [_step(JUMP_ANY_BIT, NEW_NAMESPACES | NEW_TIME_NAMESPACE, 0, 1), _refuse()])
    steps += _call(machine.ioctl, 1, _refuse_values((TIOCSTI, TIOCLINUX)))
    steps += _call(machine.fcntl, 1, _refuse_values(LEASES))
    steps += _call(machine.socket, 0, _refuse_values(SOCKETS))
    allowed = [step for one in PERSONALITIES for step in (_step(JUMP_EQUAL, one, 0, 1), _step(RETURN, ALLOW))]
    steps += _call(machine.personality, 0, [*allowed, _refuse()])
    return [*steps, _step(RETURN, ALLOW)]


def _call(number: int, argument: int, then: Sequence[bytes]) -> list[bytes]:
    """Return the steps for one system call of which an argument matters; other calls go past them."""
    body = [_step(LOAD, FIRST_ARGUMENT_AT + 8 * argument), *then, _step(RETURN, ALLOW)]
    return [_step(JUMP_EQUAL, number, 0, len(body)), *body]


def _refuse_values(values: Sequence[int]) -> list[bytes]:
    return [step for value in values for step in (_step(JUMP_EQUAL, value, 0, 1), _refuse())]


def _refuse(error: int = EPERM) -> bytes:
    return _step(RETURN, REFUSE | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
