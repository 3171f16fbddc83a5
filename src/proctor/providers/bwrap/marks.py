"""Brings all that a sandbox can write, or its work directory alone, back to an earlier state.

Everything here blocks, and nothing may run meanwhile.

Without an image its directories are copied, with one the layer of what was written is set aside: that costs nothing,
however much it is.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import PurePosixPath
from posixpath import normpath

from proctor.providers import _files, _reset
from proctor.providers.bwrap import tree as bwrap_tree
from proctor.providers.bwrap.tree import Settled

_WORK_ALONE = ("work",)


def mark(folder: str, settled: Settled, keep_outside: bool) -> None:
    """Note the state; raises `OSError` for what cannot be copied."""
    if settled.root is not None:
        bwrap_tree.freeze_layer(folder)
        return
    _files.remove_tree(f"{folder}/mark")
    os.mkdir(f"{folder}/mark")
    for name in _WORK_ALONE if keep_outside else bwrap_tree.WRITABLE:
        place = f"{folder}/{name}"
        os.close(os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))  # no link is in its place
        shutil.copytree(place, f"{folder}/mark/{name}", symlinks=True, ignore=_unlike_files)


def reset(folder: str, settled: Settled, keep_outside: bool) -> None:
    """Bring the state back, the work directory's alone with `keep_outside`; raises `OSError` where that cannot be."""
    if settled.root is not None:
        if keep_outside:
            _drop_work(folder, settled)
        else:
            bwrap_tree.drop_upper(folder)
        return
    for name in _WORK_ALONE if keep_outside else bwrap_tree.WRITABLE:
        _reset.restore_exactly(f"{folder}/mark/{name}", f"{folder}/{name}")


def _drop_work(folder: str, settled: Settled) -> None:
    """Forget what was written to the work directory above the image and the layers. Blocks; nothing may run.

    Raises `OSError` where what leads to it is no longer a plain directory of theirs: then it cannot be told apart.
    """
    *above, last = PurePosixPath(normpath(settled.workdir)).parts[1:]
    lower = [*bwrap_tree.layers_of(folder), str(settled.root)]
    for number in range(1, len(above) + 2):
        path = "/".join([*above, last][:number])
        if any(os.path.islink(f"{layer}/{path}") for layer in lower):
            raise OSError(f"`{settled.workdir}` leads through the link `/{path}`")
    opened = _files.open_directory(f"{folder}/upper")
    try:
        for part in above:
            try:
                inner = _files.open_directory(part, opened)
            except FileNotFoundError:
                return  # nothing below it was written
            os.close(opened)
            opened = inner
            if any(_overlay_mark(opened, name) for name in ("opaque", "redirect")):
                raise OSError(f"`{part}`, which leads to `{settled.workdir}`, was made anew")
        _files.remove_tree(f"/proc/self/fd/{opened}/{last}")
    finally:
        os.close(opened)


def _overlay_mark(opened: int, name: str) -> bytes:
    """Return what an overlay noted at a directory; empty where it noted nothing (the kernel's overlayfs.rst)."""
    for kind in ("trusted", "user"):
        try:
            return os.getxattr(opened, f"{kind}.overlay.{name}")
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP, errno.EPERM):
                raise
    return b""


def _unlike_files(place: str, names: list[str]) -> list[str]:
    """Return what is neither file nor directory nor link: sockets and pipes of processes that have ended."""
    kinds = {name: os.lstat(f"{place}/{name}").st_mode for name in names}
    return [
        name for name, kind in kinds.items() if not any(is_(kind) for is_ in (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK))
    ]
