"""Reads archives forward, expanded as they come: counted, bounded and hashed, whatever is in them.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import shutil
import subprocess
import threading
import zlib
from collections.abc import Callable
from typing import IO, Protocol

from proctor.providers.rootfs.region import MAX_RATIO, PIECE_BYTES, SMALL_BYTES, Budget, Damaged, Region

_MEMORY_BYTES = 256 * 1024 * 1024
"""How much memory an archive may ask of who expands it."""


class _Decoder(Protocol):
    """What the decompressors of the standard library have in common."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


class _Gzip:
    """One member of a gzip file."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return up to `max_length` expanded bytes."""
        found = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(found) < max_length
        return found

    @property
    def eof(self) -> bool:
        """Whether the member is over."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """What came behind the member."""
        return self._inner.unused_data


_DECODERS: dict[bytes, Callable[[], _Decoder]] = {
    b"\x1f\x8b": _Gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES),
}
_ZSTD = (b"\x28\xb5\x2f\xfd", *(bytes((0x50 + number,)) + b"\x2a\x4d\x18" for number in range(16)))
"""How a frame begins, and those that are to be skipped."""


class _Expanding:
    """A stream of one or more compressed members; zeros between and behind them are padding."""

    def __init__(self, source: Region, make: Callable[[], _Decoder], magic: bytes) -> None:
        self._source = source
        self._make = make
        self._magic = magic
        self._decoder = make()

    def read(self, count: int) -> bytes:
        """Return up to `count` expanded bytes, none at the end."""
        while True:
            if self._decoder.eof and not self._next_member():
                return b""
            data = self._source.read(PIECE_BYTES) if self._decoder.needs_input else b""
            if not data and self._decoder.needs_input:
                raise Damaged("its compressed data end too early")
            if found := self._decoder.decompress(data, count):
                return found

    def _next_member(self) -> bool:
        rest = self._decoder.unused_data.lstrip(b"\0")
        while len(rest) < len(self._magic) and (more := self._source.read(PIECE_BYTES)):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            return False
        if not rest.startswith(self._magic):
            raise Damaged("something else comes behind its compressed data")
        self._decoder = self._make()
        self._source.position -= len(rest)  # it is read again
        return True


class _Zstd:
    """Data that the program zstd expands: only the newest Pythons can themselves."""

    def __init__(self, source: Region) -> None:
        if (program := shutil.which("zstd")) is None:
            raise Damaged("it is compressed with zstd, and there is no program zstd to expand it: install it")
        command = [program, "-dcq", f"--memory={_MEMORY_BYTES >> 20}MB"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._feeding = threading.Thread(target=self._feed, args=(source, _opened(self._process.stdin)), daemon=True)
        self._feeding.start()

    def _feed(self, source: Region, pipe: IO[bytes]) -> None:
        try:
            with pipe:
                while data := source.read(64 * 1024):
                    pipe.write(data)
        except OSError:  # the program ended: its status says why
            pass

    def read(self, count: int) -> bytes:
        """Return up to `count` expanded bytes, none at the end."""
        if found := _opened(self._process.stdout).read(count):
            return found
        said = _opened(self._process.stderr).read(2000).decode(errors="replace")
        if self._process.wait() != 0:
            raise Damaged(f"zstd cannot expand it: {' '.join(said.split())}")
        return b""

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        self._feeding.join()
        _opened(self._process.stdout).close()
        _opened(self._process.stderr).close()


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


class Expanded:
    """The bytes of a region, expanded if they are compressed; `digest` is of what was read so far."""

    def __init__(self, source: Region, budget: Budget) -> None:
        self._source = source.again()
        self._budget = budget
        self._count = 0
        self._sha256 = hashlib.sha256()
        begin = source.again().read(8)
        self._inner: Region | _Expanding | _Zstd = self._source
        if begin.startswith(_ZSTD):
            self._inner = _Zstd(self._source)
        for magic, make in _DECODERS.items():
            if begin.startswith(magic):
                self._inner = _Expanding(self._source, make, magic)

    @property
    def compressed(self) -> bool:
        """Whether it takes expanding."""
        return self._inner is not self._source

    @property
    def digest(self) -> str:
        """The sha256 of what was read so far, in hexadecimal digits."""
        return self._sha256.hexdigest()

    def read(self, count: int) -> bytes:
        """Return up to `count` bytes, none at the end. Raises `Damaged`, also where they are too many."""
        try:
            found = self._inner.read(count)
        except (zlib.error, lzma.LZMAError, EOFError, ValueError, OSError, MemoryError) as error:
            raise Damaged(f"it cannot be expanded: {error}") from error
        self._count += len(found)
        if self._count > max(SMALL_BYTES, MAX_RATIO * self._source.size_bytes):
            raise Damaged(f"it expands to more than {MAX_RATIO} times its size, which no image does")
        self._budget.take_bytes(len(found))
        self._sha256.update(found)
        return found

    def skip(self, count: int) -> None:
        """Go on by `count` bytes; raises `Damaged` where there are fewer."""
        while count > 0:
            if not (found := self.read(min(count, PIECE_BYTES))):
                raise Damaged("it ends too early")
            count -= len(found)

    def drain(self) -> None:
        """Read to the end."""
        while self.read(PIECE_BYTES):
            pass

    def close(self) -> None:
        """End what expands it."""
        if isinstance(self._inner, _Zstd):
            self._inner.close()
