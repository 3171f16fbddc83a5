"""What is remembered of runs, of those that were asked for last."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sized
from hashlib import sha256
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from proctor.errors import StoreError
from proctor.store.layout import RunLayout

RUNS_KEPT = 8
FIRST_LINE_BYTES = 4096


class _Follows(Sized, Protocol):
    """What follows the journal of a run; its length is that of the run in slots."""

    @property
    def offset(self) -> int: ...


S = TypeVar("S", bound=_Follows)


class Kept(Generic[S]):
    """What is remembered of the runs that were asked for last."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, S] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}

    def get(self, layout: RunLayout, make: Callable[[], S]) -> S:
        """Return what is remembered of a run, or what `make` returns. Raises `StoreError`."""
        status = status_of(layout.journal)
        # Another run in its place is not it, also where its file was given the number of the one that was removed.
        run = f"{layout.directory} {status.st_ino} {_first_line(layout.journal).hex()}"
        with self._lock:
            making = self._making.setdefault(run, threading.Lock())
        with making:  # two that ask at once wait for one that reads
            with self._lock:
                found = self._items.pop(run, None)
            if found is None or found.offset > status.st_size:
                found = make()
            with self._lock:
                self._items[run] = found
                self._making.pop(run, None)
        self.forget()
        return found

    def forget(self, slots: int | None = None) -> None:
        """Keep `RUNS_KEPT` runs at most, and of more than one no more than so many slots."""
        with self._lock:
            while len(self._items) > RUNS_KEPT or (
                slots is not None and len(self._items) > 1 and sum(map(len, self._items.values())) > slots
            ):
                self._items.popitem(last=False)


def status_of(journal: Path) -> os.stat_result:
    """Return the status of a journal. Raises `StoreError`."""
    try:
        return journal.stat()
    except OSError as error:
        raise unreadable(journal, error) from error


def _first_line(journal: Path) -> bytes:
    """Return what stands for the first line of a journal, which has the moment at which the run was started."""
    try:
        with journal.open("rb") as file:
            line = file.readline(FIRST_LINE_BYTES)
    except OSError as error:
        raise unreadable(journal, error) from error
    return sha256(line).digest() if line.endswith(b"\n") else b""


def unreadable(journal: Path, error: OSError) -> StoreError:
    """Return that a journal cannot be read, for a reason."""
    return StoreError(f"journal `{journal}` cannot be read: {error.strerror}", hint="is it still there?")
