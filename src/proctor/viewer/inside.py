"""Opens files of a run without ever leaving its directory: step by step, following no link.

What a sandbox left behind has any name and may be any link. Everything here blocks, for a thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from proctor.viewer.page import NotFound

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
LONGEST_PATH = 4096


def open_inside(directory: Path, path: str) -> int:
    """Return a descriptor of a regular file below a directory, which the caller closes. Raises `NotFound`.

    `path` has `/` between its parts, none of which may be empty, `.`, `..` or a link.
    """
    parts = path.split("/")
    missing = NotFound(f"there is no file `{path:.200}`, or not any more")
    if "\0" in path or len(path) > LONGEST_PATH or any(part in ("", ".", "..") for part in parts):
        raise missing
    try:
        here = os.open(directory, _FLAGS | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            found = os.open(parts[-1], _FLAGS | os.O_NONBLOCK, dir_fd=here)
        finally:
            os.close(here)
    except (OSError, UnicodeEncodeError) as error:
        raise missing from error
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise missing
    return found
