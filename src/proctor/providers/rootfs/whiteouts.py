"""What a layer of an image removes of the layers below it; what it brings itself stays, whichever comes first."""

from __future__ import annotations

import os

from proctor.providers._files import empty_directory, open_directory
from proctor.providers.rootfs.members import LeftOutError
from proctor.providers.rootfs.open import open_in_root, path_of

WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class Lower:
    """The layers below, in the directory `root`. Whoever unpacks the next one notes in `brought` what that brings."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.brought = set[str]()

    def clear_the_way(self, parts: list[str]) -> None:
        """Remove what a lower layer has in the place of the first of these directories that is none."""
        place = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._root)
        try:
            for count, name in enumerate(parts, 1):
                path = "/".join(parts[:count])
                try:
                    below = open_in_root(self._root, path, os.O_PATH | os.O_DIRECTORY)
                except (NotADirectoryError, FileNotFoundError):
                    if path not in self.brought:
                        remove(place, name)
                    return
                os.close(place)
                place = below
        finally:
            os.close(place)

    def white_out(self, parents: list[str], name: str) -> None:
        """Remove what a layer says is gone; what the layer itself brings stays, whichever comes first."""
        hidden = name.removeprefix(WHITEOUT)
        if name != _OPAQUE and (hidden in ("", ".", "..") or hidden.startswith(WHITEOUT)):
            raise LeftOutError("it hides nothing that could be")
        try:
            folder = open_in_root(self._root, "/".join(parents) or ".", os.O_PATH | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):  # nothing is there
            return
        path = "/".join(parents)
        try:
            if name == _OPAQUE:
                self._clear_lower(folder, path)
            elif (below := f"{path}/{hidden}".lstrip("/")) not in self.brought:
                remove(folder, hidden)
            else:
                self._clear_below(folder, hidden, below)
        finally:
            os.close(folder)

    def _clear_below(self, folder: int, name: str, path: str) -> None:
        try:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except NotADirectoryError:  # a file that this layer brings
            return
        try:
            self._clear_lower(inner, path)
        finally:
            os.close(inner)

    def _clear_lower(self, folder: int, path: str) -> None:
        """Remove what is in a directory but for what this layer brought. Names are at most `MAX_DEPTH` deep."""
        for name in os.listdir(path_of(folder)):
            below = f"{path}/{name}".lstrip("/")
            if below in self.brought:
                self._clear_below(folder, name, below)
            else:
                remove(folder, name)


def remove(folder: int, name: str) -> None:
    """Remove whatever is at a place; nothing there is no error."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        opened = open_directory(name, folder)
        try:
            empty_directory(opened)
        finally:
            os.close(opened)
        os.rmdir(name, dir_fd=folder)
