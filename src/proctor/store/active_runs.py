"""Which runs go on, or did not come to their end, and how they stand: found without reading a journal.

A run that is written has a lock file beside its journal, so only the directories of runs are listed and not what is in
them. Everything is looked at in threads of their own and within a limit: a file system that does not answer holds
nobody, and what was not seen in time is said to be so.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.errors import StoreError
from proctor.store.layout import RunLayout
from proctor.store.lock import Writer, is_being_written, read_writer
from proctor.store.owner import Life, Living, Owner, life_of
from proctor.store.progress_file import Progress, read_progress

WITHIN_SECONDS = 1.5
"""So long a survey takes at most."""

THREADS = 8
DEEPEST = 12
"""So many levels of directories are looked into: a run name may have several."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one run. With `problem`, that is why its progress is not known."""

    directory: Path
    progress: Progress | None = None
    writer: Writer | None = None
    """The process that its lock names; None where there is no lock: the run has ended."""
    life: Life | None = None
    """Of the process that writes it, where there is one."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What was seen below some directories; not `whole` where the time was over before all of them were listed."""

    runs: Sequence[Seen]
    whole: bool


def look(directory: Path, here: Owner | None) -> Seen:
    """Look at one run, as the process `here`; never raises `StoreError`."""
    seen = _look(directory, here)
    if seen.writer is not None and seen.life is not None and seen.life.living is Living.DEAD:
        seen = _look(directory, here)  # it may have come to its end between one file and the next
    return seen


def _look(directory: Path, here: Owner | None) -> Seen:
    layout = RunLayout(directory)
    writer = progress = life = problem = None
    try:
        writer = read_writer(layout.journal)
        progress = read_progress(layout.progress)
    except StoreError as error:
        problem = error.message
    if writer is None:
        return Seen(directory, progress, problem=problem)
    try:
        life = _life(layout.journal, writer, progress, here)
    except StoreError as error:
        problem = problem or error.message
    return Seen(directory, progress, writer, life, problem)


def _life(journal: Path, writer: Writer, progress: Progress | None, here: Owner | None) -> Life:
    if progress is not None and progress.owner is not None and here is not None:
        return life_of(progress.owner, here)
    written = is_being_written(journal)
    if written is None:
        return Life(Living.UNKNOWN, f"{writer} cannot be seen from here")
    return Life(Living.ALIVE, f"{writer} has it open") if written else Life(Living.DEAD, f"{writer} is gone")


def runs_below(root: Path, *, locked: bool = True) -> Iterator[Path]:
    """Yield the directories of runs below a directory, with `locked` those that have a lock; what is unreadable not."""
    waiting: deque[tuple[str, int]] = deque([(os.fspath(root), 0)])
    while waiting:
        folder, depth = waiting.popleft()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:  # gone, or not ours to read: no run of ours is in it
            continue
        names = {entry.name for entry in entries}
        layout = RunLayout(Path(folder))
        if layout.journal.name in names or layout.plan.name in names:
            if not locked or layout.lock.name in names:
                yield Path(folder)
            continue
        if depth < DEEPEST:
            waiting += [
                (entry.path, depth + 1) for entry in entries if not entry.name.startswith(".") and _is_directory(entry)
            ]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def survey(
    roots: Iterable[Path],
    here: Owner | None,
    *,
    within_seconds: float = WITHIN_SECONDS,
    list_runs: Callable[[Path], Iterable[Path]] = runs_below,
    look: Callable[[Path, Owner | None], Seen] = look,
) -> Survey:
    """Look at all runs below `roots` that have a lock; what does not answer within the limit is said to be so."""
    work = _Work(list(roots), here, list_runs, look)
    work.done.wait(within_seconds)
    with work.changed:
        found, seen, listed = list(work.found), dict(work.seen), work.listed
    late = f"its directory did not answer within {within_seconds:g} s"
    runs = [seen.get(each) or Seen(each, problem=late) for each in sorted(found)]
    return Survey(runs, listed)


class _Work:
    """Threads that list and look; they are left where they are when nobody waits for them any more."""

    def __init__(
        self,
        roots: Sequence[Path],
        here: Owner | None,
        list_runs: Callable[[Path], Iterable[Path]],
        look: Callable[[Path, Owner | None], Seen],
    ) -> None:
        self.changed = threading.Condition()
        self.done = threading.Event()
        self.found: dict[Path, None] = {}
        self.seen: dict[Path, Seen] = {}
        self.listed = False
        self._roots, self._here, self._list, self._look = roots, here, list_runs, look
        self._next: deque[Path] = deque()
        for target in (self._walk, *[self._see] * THREADS):
            threading.Thread(target=target, name="proctor-survey", daemon=True).start()

    def _walk(self) -> None:
        try:
            for root in self._roots:
                for directory in self._list(root):
                    with self.changed:
                        if directory not in self.found:
                            self.found[directory] = None
                            self._next.append(directory)
                            self.changed.notify()
        finally:
            with self.changed:
                self.listed = True
                self._look_for_end()
                self.changed.notify_all()

    def _see(self) -> None:
        while True:
            with self.changed:
                while not self._next:
                    if self.listed:
                        return
                    self.changed.wait()
                directory = self._next.popleft()
            try:
                seen = self._look(directory, self._here)
            except Exception as error:  # whatever is wrong with one run, the others are shown
                seen = Seen(directory, problem=f"{type(error).__name__}: {error}")
            with self.changed:
                self.seen[directory] = seen
                self._look_for_end()

    def _look_for_end(self) -> None:
        if self.listed and len(self.seen) == len(self.found):
            self.done.set()
