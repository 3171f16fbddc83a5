"""Places in the file system of an image where something is mounted or made, though the image or an agent say how it is.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from proctor.providers.rootfs.open import make_in_root, open_in_root, path_of


def secure_mount_points(upper: str, lower: Sequence[str], names: Sequence[str] = ("proc", "dev")) -> None:
    """Make each of `names` a directory at the top of an overlay, where it is there and is none.

    Whoever mounts something there does so from outside, where a link of the image leads to files of this machine.
    `upper` and `lower`, the topmost first, are the directories of the overlay; nothing may run in it meanwhile.
    """
    for name in names:
        for layer in (upper, *lower):
            try:
                found = os.lstat(f"{layer}/{name}")
            except FileNotFoundError:  # it may be in a lower one
                continue
            if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:  # a whiteout: below it nothing is seen
                break
            if not stat.S_ISDIR(found.st_mode):
                with suppress(FileNotFoundError):  # it is in a lower one
                    os.unlink(f"{upper}/{name}")
                os.mkdir(f"{upper}/{name}", 0o755)
            break


def make_places(root: int, places: Mapping[str, int]) -> None:
    """Make directories (absolute paths) with their modes inside the root that `root` leads to, where they are missing.

    Links resolve inside of it. To be called once the sandbox runs: whatever sets it up from outside would follow a
    link out of it. Raises `OSError` where one cannot be made: its place is a file, or leads nowhere.
    """
    for path, mode in places.items():
        try:
            os.close(open_in_root(root, path, os.O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            made = make_in_root(root, path)
            try:
                os.chmod(path_of(made), mode)
            finally:
                os.close(made)
