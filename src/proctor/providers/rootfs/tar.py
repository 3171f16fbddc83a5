"""Reads the members of a tar forward; no header is believed to be small, or to be sane.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any, Protocol

from proctor.providers.rootfs.region import PIECE_BYTES, Damaged

MAX_HEADER_BYTES = 1024 * 1024
"""How much may be read to learn of one member: names can be long, and a hostile one without end."""


_MAX_GLOBAL_HEADERS = 1000


class _Source(Protocol):
    def read(self, count: int, /) -> bytes: ...
    def skip(self, count: int, /) -> None: ...


class Tar:
    """A tar that is read forward: `for member in tar`, and `read` for the data of that member."""

    def __init__(self, source: _Source, *, may_end_early: bool = False) -> None:
        self._source = source
        self._may_end_early = may_end_early
        self._position = 0
        self._header_left = 0
        self._last = b""

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        """Yield the members. Raises `Damaged` for what is no tar, or ends in the middle."""
        tar: tarfile.TarFile | None = None
        while True:
            self._header_left = MAX_HEADER_BYTES
            try:
                if tar is None:
                    source: Any = self
                    tar = tarfile.open(fileobj=source, mode="r:", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
                member = tar.next()
            except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError, EOFError) as error:
                raise Damaged(f"it is no tar at byte {self._position:,}: {error}") from error
            if member is None:
                break
            _forget(tar)
            yield member
        if self._last.strip(b"\0") or (len(self._last) < tarfile.BLOCKSIZE and not self._may_end_early):
            raise Damaged(f"it is no tar at byte {self._position:,}, or ends there too early")

    def data(self, size_bytes: int) -> Iterator[bytes]:
        """Yield the next `size_bytes` of the data of a member; raises `Damaged` where there are fewer."""
        while size_bytes > 0:
            found = self._source.read(min(size_bytes, PIECE_BYTES))
            if not found:
                raise Damaged("it ends in the middle of a file")
            self._position += len(found)
            size_bytes -= len(found)
            yield found

    def to_data(self, member: tarfile.TarInfo) -> None:
        """Go to where the data of a member begin."""
        self.seek(member.offset_data)

    def tell(self) -> int:
        """Return where the next byte is from; for tarfile."""
        return self._position

    def seek(self, position: int) -> None:
        """Go forward; for tarfile."""
        if position < self._position:
            raise Damaged("a header has a size that leads back")
        self._source.skip(position - self._position)
        self._position = position

    def read(self, count: int) -> bytes:
        """Return `count` bytes of headers, fewer at the end; for tarfile."""
        if count < 0 or count > self._header_left:
            raise Damaged("a header has no end")
        self._header_left -= count
        found = b""
        while len(found) < count and (piece := self._source.read(count - len(found))):
            found += piece
        self._position += len(found)
        self._last = found
        return found


def _forget(tar: Any) -> None:
    """Let tarfile not remember the members that it returned; raises `Damaged` for more than it should have to."""
    tar.members.clear()
    headers: dict[str, str] = tar.pax_headers  # they hold for all that come
    if len(headers) > _MAX_GLOBAL_HEADERS or sum(map(len, headers.values())) > MAX_HEADER_BYTES:
        raise Damaged("its headers have no end")
