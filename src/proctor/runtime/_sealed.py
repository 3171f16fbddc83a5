"""Programs of this machine that are run where a sandbox sees them, by a copy in memory that nobody can write to.

By `/proc/PID/exe` a program inside reaches the file itself, on the mount of this machine and not on its own read-only
one: where it belongs to the same user, its mode could be changed, and its content once it does not run.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack

from proctor.runtime._descriptors import file_with

_copies: dict[str, tuple[int, dict[str, str]]] = {}


def sealed(program: str) -> tuple[str, Mapping[str, str]]:
    """Return what to execute in the place of `program`, and the variables by which that finds its libraries.

    That is the program itself where it belongs to another user, who then is not whoever is inside. Raises `OSError`.
    """
    if program not in _copies:
        if os.stat(program).st_uid != os.geteuid():
            return program, {}
        _copies[program] = _copy_of(program)
    copy, variables = _copies[program]
    os.fchmod(copy, 0o500)  # somebody inside may have changed it
    return f"/proc/{os.getpid()}/fd/{copy}", variables


def _copy_of(program: str) -> tuple[int, dict[str, str]]:
    with open(program, "rb") as file, ExitStack() as undo:
        content = file.read()
        copy = file_with(content, undo, os.MFD_ALLOW_SEALING)
        fcntl.fcntl(
            copy, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        )
        undo.pop_all()
    return copy, {"LD_LIBRARY_PATH": ":".join(_libraries(program, content))} if b"$ORIGIN" in content else {}


def _libraries(program: str, content: bytes) -> list[str]:
    """Return the directories that a program names by its own place, which the copy has not."""
    place = os.path.dirname(os.path.realpath(program))
    named = [word for word in content.split(b"\0") if b"$ORIGIN" in word]
    found = [
        os.path.normpath(part.replace("$ORIGIN", place)) for word in named for part in os.fsdecode(word).split(":")
    ]
    return [*found, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
