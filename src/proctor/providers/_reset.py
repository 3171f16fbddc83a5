"""Brings a work directory back to an earlier state: by a whole copy, so that nothing in it is missed."""

from __future__ import annotations

import os
import shutil

from proctor.providers._files import empty_directory, open_directory


def copy_exactly(source: str, target: str) -> None:
    """Copy a directory with everything in it, links as links, modes and times included; `target` must not exist.

    Raises `OSError` for what cannot be copied, such as sockets and pipes, and where `source` is a link.
    """
    os.close(os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
    shutil.copytree(source, target, symlinks=True)


def restore_exactly(source: str, target: str) -> None:
    """Make the contents of the directory `target` those of `source`; `target` itself stays the same directory.

    Raises `OSError` where `target` is none any more: what a link in its place leads to is nobody's to change.
    """
    opened = open_directory(target)
    try:
        empty_directory(opened)
    finally:
        os.close(opened)
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
