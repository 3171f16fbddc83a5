"""A disk on which one call fails, or every call from then on, in the whole process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from proctor.store.files import Files

CALLS = ("open", "write", "fsync", "replace", "mkdir")


class FailingDisk:
    """Counts the calls that write something, and lets the `number`-th fail with an errno; `failed` are their names.

    With `stuck` all fail from then on, and nothing can be removed either: what is there then is what a kill leaves.
    """

    def __init__(self, number: int, fault: int, *, forever: bool = False, stuck: bool = False) -> None:
        self.calls = 0
        self._names = (*CALLS, "unlink", "rmdir") if stuck else CALLS
        forever = forever or stuck
        self.failed: list[str] = []
        self._number, self._fault, self._forever = number, fault, forever
        self._lock = threading.Lock()

    @contextmanager
    def in_place(self) -> Iterator[FailingDisk]:
        """Put it in the place of the real one."""
        with pytest.MonkeyPatch.context() as patch:
            for name in self._names:
                patch.setattr(Files, name, self._of(name, getattr(Files, name)))
            yield self

    def _of(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def calls(*arguments: object) -> object:
            with self._lock:
                self.calls += 1
                fails = self.calls == self._number or (self._forever and self.calls > self._number)
                if fails:
                    self.failed.append(name)
            if fails:
                raise OSError(self._fault, os.strerror(self._fault))
            return call(*arguments)

        return calls
