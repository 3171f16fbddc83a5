"""The writer of a journal: appends to memory, writes in groups, syncs in groups.

The caller appends events as they happen, and at least every 50 ms calls `flush`, then `sync` in a thread; what `sync`
returns is on the disk, and only then may a display show the end of something (spec 08 D1).
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from proctor.errors import StoreError
from proctor.model.events import Event
from proctor.store.codec import encode, stamp
from proctor.store.files import SYSTEM_FILES, Files, fsync_all, fsync_directory, store_error, write_all
from proctor.store.lock import NO_LOCKS, Writer, claim, release, this_host


class Journal:
    """One open journal. `append` and `flush` belong to one thread; `sync` may run in another one meanwhile.

    When a write or a sync fails, the journal is broken: that call raises a `StoreError` that says how many events are
    kept, and so does every later one except `close`. The file then ends with its last whole event where the system
    still lets us cut it there; where it does not, readers set the torn end aside.
    """

    def __init__(self, path: Path, descriptor: int, files: Files) -> None:
        self.path = path
        self._files = files
        self._descriptor = descriptor
        self._pending: list[bytes] = []
        self._written_bytes = 0
        self._written_events = 0
        self._durable_events = 0
        self._torn = False
        self._broken: StoreError | None = None
        self._closed = False
        self._write_lock = threading.Lock()
        self._sync_lock = threading.Lock()  # taken before _write_lock where both are needed

    @classmethod
    def create(
        cls, path: Path, *, at: float, pid: int | None = None, host: str | None = None, files: Files = SYSTEM_FILES
    ) -> Journal:
        """Make a journal that does not exist yet and lock it; its name is durable when this returns.

        `at` (seconds after the epoch), `pid` and `host` (default: this process) are what a second writer is told.
        Raises `JournalLocked` when another process writes it, `StoreError` when it exists or cannot be made.
        """
        writer = Writer(os.getpid() if pid is None else pid, host or this_host(), stamp(at))
        claim(path, writer, files)
        try:
            descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        except FileExistsError as error:
            release(path, files)
            raise StoreError(f"journal `{path}` exists already", hint="choose another run id") from error
        except OSError as error:
            release(path, files)
            raise store_error("make the journal", path, error) from error
        try:
            _lock(descriptor, files)
            fsync_directory(files, path.parent)
        except OSError as error:
            with suppress(OSError):
                files.unlink(path)
            with suppress(OSError):
                files.close(descriptor)
            release(path, files)
            raise store_error("make the journal", path, error) from error
        return cls(path, descriptor, files)

    @property
    def written_events(self) -> int:
        """Events that are in the file: they survive the death of this process, and not yet of the machine."""
        return self._written_events

    @property
    def durable_events(self) -> int:
        """Events that a `sync` has reported on the disk."""
        return self._durable_events

    def append(self, event: Event, at: float) -> None:
        """Take an event that happened `at` seconds after the epoch into memory, for the next `flush`.

        Raises `NotEncodable` for an event that has no JSON form (the journal goes on without it), and the `StoreError`
        of a broken journal.
        """
        self._require_working()
        self._pending.append(encode(event, at))

    def flush(self) -> None:
        """Write all appended events, with one call to the system where it takes them all.

        Raises `StoreError` when the journal breaks or is broken.
        """
        with self._write_lock:
            self._require_working()
            count = len(self._pending)
            if not count:
                return
            data = b"".join(self._pending[:count])
            try:
                done, failed = write_all(self._files, self._descriptor, data)
            except BaseException:
                # An exception of a signal handler came out of the middle: how much was written is not known.
                self._break_write(data, 0, OSError(0, "interrupted while writing"))
                raise
            if failed is not None:
                raise self._break_write(data, done, failed) from failed
            del self._pending[:count]
            self._written_bytes += len(data)
            self._written_events += count

    def sync(self) -> int:
        """Wait until everything flushed before this call is on the disk; return how many events that is in all.

        Blocks on the disk: call it in a thread. It returns at once when another `sync` has covered it. Raises
        `StoreError` when the journal breaks or is broken.
        """
        with self._sync_lock:
            with self._write_lock:
                if self._closed and self._broken is None:
                    return self._durable_events
                self._require_working()
                target = self._written_events
            if target == self._durable_events:
                return target
            try:
                fsync_all(self._files, self._descriptor)
            except OSError as error:
                raise self._break_sync(error) from error
            self._durable_events = target
            return target

    def close(self) -> None:
        """Flush, sync, unlock and close. A second call does nothing, and a broken journal is closed without an error.

        Raises `StoreError` when the journal breaks here; it is unlocked and closed all the same.
        """
        if self._closed:
            return
        try:
            if self._broken is None:
                self.flush()
                self.sync()
        finally:
            with self._sync_lock, self._write_lock:
                if not self._closed:
                    self._closed = True
                    self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_working(self) -> None:
        if self._broken is not None:
            # A copy: one object that is raised again and again would collect the tracebacks of all of them.
            raise type(self._broken)(self._broken.message, hint=self._broken.hint) from self._broken.__cause__
        if self._closed:
            raise StoreError(f"journal `{self.path}` is closed")

    def _break_write(self, data: bytes, done: int, error: OSError) -> StoreError:
        whole = data.rfind(b"\n", 0, done) + 1
        kept = data.count(b"\n", 0, whole)
        lost = len(self._pending) - kept
        self._written_bytes += whole
        self._written_events += kept
        self._pending.clear()
        self._torn = True
        self._cut_torn_end()
        events = f"{self._written_events:,} events are kept and {lost:,} lost"
        return self._break(store_error("write the journal", self.path, error, events), error)

    def _break_sync(self, error: OSError) -> StoreError:
        with self._write_lock:
            events = f"{self._durable_events:,} events are safe on the disk, {self._written_events:,} were written"
            return self._break(store_error("sync the journal", self.path, error, events), error)

    def _break(self, broken: StoreError, cause: OSError) -> StoreError:
        broken.__cause__ = cause
        if self._broken is None:
            self._broken = broken
        return broken

    def _cut_torn_end(self) -> None:
        with suppress(OSError):  # tried again when the journal is closed; a reader sets a torn end aside
            self._files.truncate(self._descriptor, self._written_bytes)
            self._torn = False

    def _let_go(self) -> None:
        if self._torn:
            self._cut_torn_end()
        if self._broken is not None:
            with suppress(OSError):  # the failure was reported when the journal broke
                fsync_all(self._files, self._descriptor)
        # The lock file goes before the lock, so that nobody finds it beside a free journal.
        release(self.path, self._files)
        with suppress(OSError):  # everything was synced, or its failure was reported
            self._files.close(self._descriptor)


def _lock(descriptor: int, files: Files) -> None:
    try:
        files.lock(descriptor)
    except OSError as error:
        # Without locks (some network mounts) the lock file alone names the writer.
        if error.errno not in NO_LOCKS:
            raise
