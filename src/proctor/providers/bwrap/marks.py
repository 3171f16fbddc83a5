"""Brings all that a sandbox can write back to an earlier state. Everything here blocks, and nothing may run meanwhile.

Without an image its directories are copied, with one the layer of what was written is set aside: that costs nothing,
however much it is.
"""

from __future__ import annotations

import os
import shutil
import stat

from proctor.providers import _files, _reset
from proctor.providers.bwrap import tree as bwrap_tree
from proctor.providers.bwrap.tree import Settled


def mark(folder: str, settled: Settled) -> None:
    """Note the state; raises `OSError` for what cannot be copied."""
    if settled.root is not None:
        bwrap_tree.freeze_layer(folder)
        return
    _files.remove_tree(f"{folder}/mark")
    os.mkdir(f"{folder}/mark")
    for name in bwrap_tree.WRITABLE:
        place = f"{folder}/{name}"
        os.close(os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))  # no link is in its place
        shutil.copytree(place, f"{folder}/mark/{name}", symlinks=True, ignore=_unlike_files)


def reset(folder: str, settled: Settled) -> None:
    """Bring the state back; raises `OSError` where that cannot be done."""
    if settled.root is not None:
        bwrap_tree.drop_upper(folder)
        return
    for name in bwrap_tree.WRITABLE:
        _reset.restore_exactly(f"{folder}/mark/{name}", f"{folder}/{name}")


def _unlike_files(place: str, names: list[str]) -> list[str]:
    """Return what is neither file nor directory nor link: sockets and pipes of processes that have ended."""
    kinds = {name: os.lstat(f"{place}/{name}").st_mode for name in names}
    return [
        name for name, kind in kinds.items() if not any(is_(kind) for is_ in (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK))
    ]
