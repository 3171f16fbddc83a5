"""Who has the file of the record open: so that it is never renamed under somebody's feet.

Everybody who has it open holds a shared lock on a file beside it, and who sets a damaged record aside an exclusive one.
The kernel drops both when a process dies. The lock file stays where it is.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from proctor.store.lock import NO_LOCKS


class UserLock:
    """The shared lock, held from entering to leaving."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            # Whoever has it alone only renames some files meanwhile.
            self._lock(fcntl.LOCK_SH)
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def alone(self, work: Callable[[], None]) -> bool:
        """Do `work` while nobody else has the file open; return False, without doing it, when somebody has."""
        try:
            self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock(fcntl.LOCK_SH)  # the attempt has let go of it
            return False
        try:
            work()
        finally:
            self._lock(fcntl.LOCK_SH)
        return True

    def _lock(self, how: int) -> None:
        try:
            fcntl.flock(self._descriptor, how)
        except OSError as error:
            if error.errno not in NO_LOCKS:  # other locks work, or the record would not have been opened
                raise
