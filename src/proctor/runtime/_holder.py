"""The program that keeps the namespaces of a sandbox: it says that they are set up, and ends with its standard input.

A shell of the sandbox cannot do it: in an image that is a file that programs inside can replace, and it would run
before any limit holds. This program needs no file, no library and less than 300 bytes of memory.
"""

from __future__ import annotations

import os
import struct

WRITE_READ_EXIT = {
    # write(1, newline, 1); read(0, stack, 1); exit(0)
    "x86_64": (62, bytes.fromhex(
        "b801000000" "bf01000000" "488d351e000000" "ba01000000" "0f05"  # eax, edi, rsi = newline, edx, syscall
        "31c0" "31ff" "4889e6" "ba01000000" "0f05"  # eax, edi, rsi = stack, edx, syscall
        "b83c000000" "31ff" "0f05" "0a"
    )),
    "aarch64": (183, struct.pack(
        "<13I", 0xD2800020, 0x10000181, 0xD2800022, 0xD2800808, 0xD4000001,  # x0, x1 = newline, x2, x8, svc
        0xD2800000, 0x910003E1, 0xD2800022, 0xD28007E8, 0xD4000001,  # x0, x1 = stack, x2, x8, svc
        0xD2800000, 0xD2800BA8, 0xD4000001,
    ) + b"\n"),
}  # fmt: skip
"""By machine: its number in ELF files, and the code."""
BASE, PAGE_BYTES = 0x400000, 0x10000
HEADER_BYTES, SEGMENT_BYTES = 64, 56
READ_AND_EXECUTE = 5


def holder(machine: str | None = None) -> bytes:
    """Return the program as a file for a machine, by default this one; raises `OSError` where there is none."""
    name = machine or os.uname().machine
    if name not in WRITE_READ_EXIT:
        raise OSError(38, f"sandboxes cannot be kept on {name}")
    number, code = WRITE_READ_EXIT[name]
    start = HEADER_BYTES + SEGMENT_BYTES
    size = start + len(code)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01", 2, number, 1, BASE + start, HEADER_BYTES, 0, 0,
        HEADER_BYTES, SEGMENT_BYTES, 1, 0, 0, 0,
    )  # fmt: skip
    segment = struct.pack("<IIQQQQQQ", 1, READ_AND_EXECUTE, 0, BASE, BASE, size, size, PAGE_BYTES)
    return header + segment + code
