"""The filter of system calls: what it forbids and what it lets through, run step by step as the kernel would."""

from __future__ import annotations

import os
import struct

import pytest

from proctor.providers.bwrap.seccomp import ALLOW, KILL, MACHINES, REFUSE, program

EPERM, ENOSYS = REFUSE | 1, REFUSE | 38

X86 = {
    "read": 0, "openat": 257, "execve": 59, "fork": 57, "vfork": 58, "ptrace": 101, "kill": 62, "mmap": 9, "futex": 202,
    "process_vm_readv": 310, "seccomp": 317, "mount": 165, "umount2": 166, "pivot_root": 155, "setns": 308,
    "keyctl": 250, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "fsopen": 430, "open_by_handle_at": 304,
    "init_module": 175, "kexec_load": 246, "reboot": 169, "clone": 56, "clone3": 435, "unshare": 272, "ioctl": 16,
    "personality": 135, "socket": 41, "fcntl": 72,
}  # fmt: skip
ARM = {
    "read": 63, "openat": 56, "execve": 221, "ptrace": 117, "kill": 129, "mmap": 222, "mount": 40, "umount2": 39,
    "pivot_root": 41, "setns": 268, "keyctl": 219, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
    "fsopen": 430, "open_by_handle_at": 265, "init_module": 105, "kexec_load": 104, "reboot": 142, "clone": 220,
    "clone3": 435, "unshare": 97, "ioctl": 29, "personality": 92, "socket": 198,
    "fcntl": 25,
}  # fmt: skip
NUMBERS = {"x86_64": X86, "aarch64": ARM}


def answer(machine: str, call: str | int, *arguments: int, code: int | None = None) -> int:
    """Return what the filter says of a call."""
    number = NUMBERS[machine][call] if isinstance(call, str) else call
    data = struct.pack("=IIQ6Q", number, code or MACHINES[machine].code, 0, *(*arguments, *[0] * (6 - len(arguments))))
    steps = list(struct.iter_unpack("=HBBI", program(machine) or b""))
    place = held = 0
    while True:
        kind, if_true, if_false, value = steps[place]
        place += 1
        if kind == 0x20:
            [held] = struct.unpack_from("=I", data, value)
        elif kind == 0x06:
            return value
        else:
            holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[kind]
            place += if_true if holds else if_false


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize("call", ["read", "openat", "execve", "ptrace", "kill", "mmap"])
def test_what_programs_need_is_allowed(machine: str, call: str) -> None:
    assert answer(machine, call) == ALLOW


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize(
    "call",
    [
        "mount", "umount2", "pivot_root", "setns", "keyctl", "bpf", "userfaultfd", "io_uring_setup", "fsopen",
        "open_by_handle_at", "init_module", "kexec_load", "reboot",
    ],
)  # fmt: skip
def test_what_none_needs_is_refused(machine: str, call: str) -> None:
    assert answer(machine, call) == EPERM


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_is_made(machine: str, flag: int) -> None:
    assert answer(machine, "clone", flag | 17) == EPERM
    assert answer(machine, "unshare", flag) == EPERM
    assert answer(machine, "clone3") == ENOSYS  # programs then use `clone`


@pytest.mark.parametrize("machine", NUMBERS)
def test_threads_and_processes_are_made(machine: str) -> None:
    assert answer(machine, "clone", 0x3D0F00) == ALLOW
    assert answer(machine, "clone", 17) == ALLOW
    assert answer(machine, "unshare", 0x400) == ALLOW  # open files


@pytest.mark.parametrize("machine", NUMBERS)
def test_nobody_types_into_a_terminal(machine: str) -> None:
    assert answer(machine, "ioctl", 1, 0x5412) == EPERM
    assert answer(machine, "ioctl", 1, 0x541C) == EPERM
    assert answer(machine, "ioctl", 1, 0x1_0000_5412) == EPERM  # the kernel looks at the lower half only, too
    assert answer(machine, "ioctl", 1, 0x5401) == ALLOW


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize(
    ("family", "expected"), [(1, ALLOW), (2, ALLOW), (10, ALLOW), (16, ALLOW), (17, EPERM), (38, EPERM), (40, EPERM)]
)
def test_families_of_sockets(machine: str, family: int, expected: int) -> None:
    assert answer(machine, "socket", family) == expected


@pytest.mark.parametrize("machine", NUMBERS)
@pytest.mark.parametrize(("value", "expected"), [(0xFFFFFFFF, ALLOW), (0, ALLOW), (0x40000, ALLOW), (6, EPERM)])
def test_personalities(machine: str, value: int, expected: int) -> None:
    assert answer(machine, "personality", value) == expected


def test_another_machines_calls_end_the_program() -> None:
    assert answer("x86_64", "read", code=0x40000003) == KILL
    assert answer("x86_64", 0x40000000) == EPERM


def test_a_machine_that_is_not_known_has_none() -> None:
    assert program("riscv64") is None
    assert program(os.uname().machine) == program()


@pytest.mark.parametrize("machine", NUMBERS)
def test_no_file_can_be_leased(machine: str) -> None:
    assert [answer(machine, "fcntl", 3, command) for command in (1024, 1026)] == [EPERM, EPERM]
    assert [answer(machine, "fcntl", 3, command) for command in (0, 1, 2, 1025, 1030, 1033)] == [ALLOW] * 6
