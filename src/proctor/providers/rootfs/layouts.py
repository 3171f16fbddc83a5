"""Files of an image that was saved: in a directory or in a tar, by their names.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Protocol

from proctor.providers._copying import open_regular
from proctor.providers.rootfs.region import Damaged, Region
from proctor.providers.rootfs.tar import Tar

_MAX_MEMBERS = 100_000
_MAX_LINKS = 8
_MAX_NAME = 500
_OF_A_LAYOUT = re.compile(r"index\.json|blobs/sha(256|512)/[0-9a-f]+")


class Layout(Protocol):
    """Files of an image, by their names."""

    def file(self, name: str) -> Region | None:
        """Return a file; None where there is none."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class FolderLayout:
    """An OCI layout that is a directory."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._open: list[int] = []

    def file(self, name: str) -> Region | None:
        """Return a file; None where there is none. Links are not followed: they could lead anywhere."""
        if not _OF_A_LAYOUT.fullmatch(name):
            return None
        try:
            opened = open_regular(os.path.join(self._folder, name), os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror}") from error
        self._open.append(opened)
        return Region(opened, 0, os.fstat(opened).st_size)

    def close(self) -> None:
        """Close what is open."""
        while self._open:
            os.close(self._open.pop())


class TarLayout:
    """An OCI layout, or what `docker save` writes, in a tar that is not compressed; the caller closes `whole`."""

    def __init__(self, whole: Region) -> None:
        self._files: dict[str, Region] = {}
        self._links: dict[str, str] = {}
        for count, member in enumerate(Tar(whole.again())):
            if count >= _MAX_MEMBERS:
                raise Damaged(f"it holds more than {_MAX_MEMBERS:,} files, and no image does")
            if len(member.name) > _MAX_NAME:
                continue
            name = posixpath.normpath(member.name)
            if member.isreg() and not member.issparse():
                self._files[name] = whole.at(member.offset_data, member.size)
            elif member.issym():
                self._links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            elif member.islnk():
                self._links[name] = posixpath.normpath(member.linkname)

    def file(self, name: str) -> Region | None:
        """Return a file; None where there is none."""
        for _ in range(_MAX_LINKS):
            if (found := self._files.get(name)) is not None or name not in self._links:
                return found.again() if found else None
            name = self._links[name]
        return None

    def close(self) -> None:
        """Do nothing: the file is not ours."""
