"""What the members of a tar say of themselves, and whether that may be."""

from __future__ import annotations

import os
import tarfile

from proctor.providers.rootfs.region import Damaged

MAX_DEPTH = 255


class LeftOutError(Exception):
    """A member may not be; the text says why."""


def parts_of(name: str) -> list[str]:
    """Return the names on the way to a member; raises `LeftOutError` for a way that is not allowed."""
    if name.startswith("/"):
        raise LeftOutError("its name is absolute")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise LeftOutError("its name leads out of its directory")
    if len(parts) > MAX_DEPTH:
        raise LeftOutError(f"it is more than {MAX_DEPTH} directories deep")
    return parts


def pieces_of(member: tarfile.TarInfo) -> list[tuple[int, int]]:
    """Return where the data of a file belong, and how much of them; what is between is a hole."""
    sparse: list[tuple[int, int]] | None = getattr(member, "sparse", None)
    if sparse is None:
        return [(0, member.size)]
    if any(offset < 0 or size < 0 or offset + size > member.size for offset, size in sparse):
        raise Damaged("a file has holes that cannot be")
    return sparse


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
