"""Unpacks tars and layers of images into a directory; nothing that they hold leads out of it.

What may not be is left out and noted: absolute names, `..`, devices, names that are too long, links to what is not
there. Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress

from proctor.plugins.api import Say
from proctor.providers.rootfs.members import LeftOutError, parts_of, pieces_of, write_all
from proctor.providers.rootfs.open import make_in_root, open_in_root
from proctor.providers.rootfs.region import Budget
from proctor.providers.rootfs.tar import Tar
from proctor.providers.rootfs.whiteouts import WHITEOUT, Lower, remove

_NOTES = 10
"""How many of what is left out are named."""
_CANNOT_BE = (
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EPERM, errno.ENOENT, errno.EEXIST,
    errno.EMLINK, errno.EFBIG, errno.EXDEV, errno.EINVAL,
)  # fmt: skip
"""What is the doing of one member, which is left out; any other error is of the machine."""


def is_root() -> bool:
    """Say whether files can be given to others."""
    return os.geteuid() == 0


class Unpacker:
    """Puts layer over layer into the directory `root`. Root keeps owners; for anybody else all of it is their own."""

    def __init__(self, root: int, budget: Budget, say: Say) -> None:
        self._root = root
        self._budget = budget
        self._say = say
        self._keep_owners = is_root()
        self._left_out = 0
        self._lower = Lower(root)
        self._layers = 0

    def layer(self, tar: Tar, *, of_image: bool) -> None:
        """Unpack a tar; in a layer of an image, the names of whiteouts say what of the layers below is gone."""
        self._lower.brought.clear()
        for member in tar:
            self._budget.take_file()
            try:
                self._member(tar, member, of_image=of_image)
            except LeftOutError as error:
                self._note(member.name, str(error))
            except ValueError as error:
                self._note(member.name, f"its name cannot be one: {error}")
            except OSError as error:
                if error.errno not in _CANNOT_BE:
                    raise
                self._note(member.name, (error.strerror or "it cannot be made").lower())
        self._layers += 1

    def finish(self) -> None:
        """Say how much was left out in all."""
        if self._left_out > _NOTES:
            self._say(f"left out of the image: {self._left_out:,} files in all")

    def _note(self, name: str, why: str) -> None:
        self._left_out += 1
        if self._left_out <= _NOTES:
            self._say(f"left out of the image: {name[:200]!r}: {why}")

    def _member(self, tar: Tar, member: tarfile.TarInfo, *, of_image: bool) -> None:
        parts = parts_of(member.name)
        if not parts:
            if member.isdir():
                self._attributes(self._root, member)
            return
        name = parts[-1]
        if of_image and name.startswith(WHITEOUT):
            if self._layers:
                self._lower.white_out(parts[:-1], name)
            return
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk() or member.isfifo()):
            raise LeftOutError("it is a device" if member.isdev() else f"it is of the unknown kind {member.type!r}")
        parent = self._parent(parts[:-1], of_image=of_image)
        try:
            self._make(tar, member, parent, name)
        finally:
            os.close(parent)
        if self._layers:
            self._lower.brought.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))

    def _parent(self, parts: list[str], *, of_image: bool) -> int:
        """Return the place of a directory, made where it is missing, also where a lower layer has something else."""
        for count in range(len(parts) + 1):
            try:
                return make_in_root(self._root, "/".join(parts), 0o755)
            except NotADirectoryError:
                if not of_image or count == len(parts):
                    raise
            self._lower.clear_the_way(parts)
        raise AssertionError("unreachable")

    def _make(self, tar: Tar, member: tarfile.TarInfo, parent: int, name: str) -> None:
        if member.isdir():
            self._make_folder(member, parent, name)
        elif member.islnk():
            self._make_hard_link(member, parent, name)
        elif member.issym():
            remove(parent, name)
            os.symlink(member.linkname, name, dir_fd=parent)  # where it leads is decided when it is followed
            self._own(lambda: os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False))
        elif member.isfifo():
            remove(parent, name)
            os.mkfifo(name, member.mode & 0o777, dir_fd=parent)
        else:
            self._make_file(tar, member, parent, name)

    def _make_file(self, tar: Tar, member: tarfile.TarInfo, parent: int, name: str) -> None:
        remove(parent, name)
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
        try:
            tar.to_data(member)
            for offset, size_bytes in pieces_of(member):
                os.lseek(made, offset, os.SEEK_SET)
                for data in tar.data(size_bytes):
                    write_all(made, data)
            os.ftruncate(made, member.size)
            self._attributes(made, member)
            with suppress(OverflowError, ValueError, OSError):  # a time that is none: it keeps the one it has
                os.utime(made, (member.mtime, member.mtime))
        except OSError:  # no part of it is left
            os.unlink(name, dir_fd=parent)
            raise
        finally:
            os.close(made)

    def _make_folder(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
            made = os.open(name, flags, dir_fd=parent)
        except FileExistsError:
            try:
                made = os.open(name, flags, dir_fd=parent)
            except OSError:  # it is something else, which the directory replaces
                remove(parent, name)
                os.mkdir(name, 0o700, dir_fd=parent)
                made = os.open(name, flags, dir_fd=parent)
        try:
            self._attributes(made, member)
        finally:
            os.close(made)

    def _make_hard_link(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        *folders, target = parts_of(member.linkname) or [""]
        if not target:
            raise LeftOutError("it is a hard link to a directory")
        folder = open_in_root(self._root, "/".join(folders) or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            found = os.lstat(target, dir_fd=folder)
            try:
                if os.path.samestat(found, os.lstat(name, dir_fd=parent)):
                    return  # it is that file already
            except FileNotFoundError:  # its place is free
                pass
            remove(parent, name)
            os.link(target, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError as error:
            raise LeftOutError(f"it is a hard link to {member.linkname[:200]!r}, which is not there") from error
        finally:
            os.close(folder)

    def _attributes(self, made: int, member: tarfile.TarInfo) -> None:
        """Set owner and mode. Whoever is not root must be able to look into, and to remove, every directory."""
        self._own(lambda: os.chown(made, member.uid, member.gid))
        mode = member.mode & 0o7777
        if not self._keep_owners:
            mode = mode & 0o1777 | (0o700 if member.isdir() else 0)
        os.chmod(made, mode)

    def _own(self, change: Callable[[], None]) -> None:
        """Change an owner, as root; a root that may not, inside a container maybe, keeps no owners at all."""
        if not self._keep_owners:
            return
        try:
            change()
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL, errno.EOVERFLOW):
                raise
            self._keep_owners = False
            self._say(f"all files of the image will belong to this user: {error.strerror}")
