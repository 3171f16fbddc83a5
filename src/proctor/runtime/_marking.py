"""How a fork is known in /proc for what it is: its arguments and its environment are those of what it is a fork of.

The spawner is started with room for both, and supervisors write there. Imports as little as `_supervisor.py` does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    from typing import Any

PLACEHOLDER, ROLE = "spawner   ", b"supervisor"
"""The last argument of the spawner, and what a supervisor writes over it: of the same length."""
NAME = b"PROCTOR_SANDBOX"
"""The variable by which supervisors are found."""
ROOM = "PROCTOR_SPAWNER=" + "." * 112
"""The first variable in the environment of the spawner; a supervisor writes over it."""


def mark(block: Any, sandbox: bytes) -> None:
    """Show this process as the supervisor of a command in `sandbox`."""
    block.raw = ROLE + b"\0" + (NAME + b"=" + sandbox).ljust(len(ROOM), b"\0") + b"\0"


def own_block() -> Any:
    """Return the memory that holds the last argument and the first variable of this process; None if it is not found.

    What is written there is what others see in /proc. A fork shows what this process was started with otherwise.
    """
    expected = f"{PLACEHOLDER}\0{ROOM}\0".encode()
    try:
        shown, fields = b"", _read("stat").rpartition(b")")[2].split()
        shown = _read("cmdline") + _read("environ")
        import _ctypes  # noqa: PLC0415 - not every interpreter has it

        _, end_of_arguments, start_of_environment, end_of_environment = map(int, fields[45:49])
        start = end_of_arguments - len(PLACEHOLDER) - 1
        if end_of_arguments != start_of_environment or start + len(expected) > end_of_environment:
            return None
        simple: Any = getattr(_ctypes, "_SimpleCData")  # noqa: B009 - ctypes itself is slow to import
        kind: Any = type("Byte", (simple,), {"_type_": "c"})
        block = (kind * len(expected)).from_address(start)
    except (ImportError, AttributeError, ValueError, OSError):
        return None
    return block if expected in shown and block.raw == expected else None


def _read(name: str) -> bytes:
    with open(f"/proc/self/{name}", "rb", buffering=0) as file:
        return file.readall()
