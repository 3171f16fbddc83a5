"""Brings a work directory back to an earlier state: by a whole copy, so that nothing in it is missed."""

from __future__ import annotations

import os
import shutil

from proctor.providers._files import remove_tree


def copy_exactly(source: str, target: str) -> None:
    """Copy a directory with everything in it, links as links, modes and times included; `target` must not exist.

    Raises `OSError` for what cannot be copied, such as sockets and pipes.
    """
    shutil.copytree(source, target, symlinks=True)


def restore_exactly(source: str, target: str) -> None:
    """Make the contents of the directory `target` those of `source`; `target` itself stays the same directory."""
    os.chmod(target, 0o700)
    with os.scandir(target) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                os.unlink(entry.path)
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
