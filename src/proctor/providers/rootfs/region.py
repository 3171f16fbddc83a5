"""What the reading of archives is made of: parts of files, and how much may come out of them.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import hashlib
import os

from proctor.plugins.api import Say

PIECE_BYTES = 1024 * 1024
MAX_BYTES = 200 * 10**9
"""How much the files of one image may take, expanded."""
MAX_FILES = 10_000_000
MAX_RATIO = 250
"""How many times its size a compressed archive may expand to, once that is more than `SMALL_BYTES`."""
SMALL_BYTES = 10**9
_SAY_EVERY_BYTES, _SAY_EVERY_FILES = 250 * 10**6, 20_000


class Damaged(Exception):
    """An archive is not what it should be, or more than it may be; the text says what."""


class Budget:
    """How much the image called `name` may still expand to; says now and then how far it is.

    Whatever `say` raises ends the work.
    """

    def __init__(self, name: str, say: Say) -> None:
        self._name = name
        self._say = say
        self._said = (0, 0)
        self.bytes = 0
        self.files = 0

    def take_bytes(self, count: int) -> None:
        """Count expanded bytes; raises `Damaged` where they are too many."""
        self.bytes += count
        if self.bytes > MAX_BYTES:
            raise Damaged(f"it expands to more than {MAX_BYTES:,} bytes, which is the limit")
        self._tell()

    def take_file(self) -> None:
        """Count a file, whatever its kind; raises `Damaged` where they are too many."""
        self.files += 1
        if self.files > MAX_FILES:
            raise Damaged(f"it holds more than {MAX_FILES:,} files, which is the limit")
        self._tell()

    def _tell(self) -> None:
        files, size = self._said
        if self.files >= files + _SAY_EVERY_FILES or self.bytes >= size + _SAY_EVERY_BYTES:
            self._said = (self.files, self.bytes)
            self._say(f"unpacking {self._name}: {self.files:,} files, {self.bytes / 1e6:,.0f} MB so far")


class Region:
    """A part of an opened file, read from its beginning on."""

    def __init__(self, descriptor: int, offset: int, size_bytes: int) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self.size_bytes = size_bytes
        self.position = 0

    def again(self) -> Region:
        """Return the same part, at its beginning."""
        return Region(self._descriptor, self._offset, self.size_bytes)

    def at(self, offset: int, size_bytes: int) -> Region:
        """Return a part of this part; raises `Damaged` where it has no such part."""
        if offset < 0 or size_bytes < 0 or offset + size_bytes > self.size_bytes:
            raise Damaged("it ends too early")
        return Region(self._descriptor, self._offset + offset, size_bytes)

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes, none at the end."""
        data = os.pread(self._descriptor, min(count, self.size_bytes - self.position), self._offset + self.position)
        self.position += len(data)
        return data

    def skip(self, count: int) -> None:
        """Go on by `count` bytes; raises `Damaged` where there are fewer."""
        if count > self.size_bytes - self.position:
            raise Damaged("it ends too early")
        self.position += count

    def digest(self, algorithm: str = "sha256") -> str:
        """Return the digest of the whole part, in hexadecimal digits."""
        found, region = hashlib.new(algorithm), self.again()
        while data := region.read(PIECE_BYTES):
            found.update(data)
        return found.hexdigest()
