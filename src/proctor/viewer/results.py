"""The results root that a viewer shows: which runs there are, and what is in each. Nothing here leads out of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from proctor.errors import StoreError
from proctor.report.compare import Side
from proctor.report.summary import summary_data
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile
from proctor.store.reader import JournalReader, read_journal
from proctor.viewer.attempt_read import AttemptLines
from proctor.viewer.inside import is_run
from proctor.viewer.kept import Kept, status_of, unreadable
from proctor.viewer.page import NotFound
from proctor.viewer.run_list import RunEntry, RunList, read_object
from proctor.viewer.run_read import RunFold, RunRead, plan_of
from proctor.viewer.run_skim import compared
from proctor.viewer.slot_index import SlotIndex

JOURNAL = "journal.jsonl"
SLOTS_KEPT = 150_000
"""So many slots are remembered of the runs that were asked for last, besides those of the last one."""
FOLDED_BYTES = 24 * 1024 * 1024
"""A longer journal is folded only where that cannot be avoided: for a comparison. It takes a second per 20 MB."""
COMPARED_BYTES = 1024 * 1024 * 1024
"""A longer one is never folded for a page."""
DEPTHS = 12
"""A run lies at most so many directories below the root: the levels of its run name, experiment, run."""

T = TypeVar("T")


class Results:
    """Runs by their directories below a root, `/` between the parts. May be used from several threads."""

    def __init__(self, root: Path, only: tuple[Path, ...] = ()) -> None:
        self.root = root.resolve()
        self._only = tuple(path.resolve() for path in only)
        self._list = RunList()
        self._folds: Kept[_Fold] = Kept()
        self._sides: Kept[_Compared] = Kept()
        self._slots: Kept[RunSlots] = Kept()
        self._attempts: Kept[AttemptLines] = Kept()

    def runs(self) -> Iterator[str]:
        """Yield the directories of all runs, in order. No link is followed, and no run is looked into."""
        for place in self._only or (self.root,):
            for directory in _runs_below(place, DEPTHS):
                yield Path(directory).relative_to(self.root).as_posix()

    def entries(self) -> list[RunEntry]:
        """Return the runs as they stand in the list."""
        return [self._list.entry(run, RunLayout(self.root / run)) for run in self.runs()]

    def entry(self, run: str) -> RunEntry:
        """Return a run as it stands in the list. Raises `NotFound`."""
        return self._list.entry(run, self.layout(run))

    def layout(self, run: str) -> RunLayout:
        """Return the layout of a run. Raises `NotFound` where there is none of that name below the root."""
        parts = run.split("/")
        if "\0" in run or any(part in ("", ".", "..") for part in parts) or len(run) > 4096:
            raise NotFound("there is no run `{run}`, or not any more", run=run[:200])
        try:
            directory = (self.root / run).resolve()
            found = is_run(RunLayout(directory))
        except (OSError, RuntimeError, ValueError):
            found, directory = False, self.root
        inside = directory == self.root / run and directory.is_relative_to(self.root)
        shown = not self._only or any(directory.is_relative_to(place) for place in self._only)
        if not (found and inside and shown):
            raise NotFound("there is no run `{run}`, or not any more", run=run[:200])
        return RunLayout(directory)

    def read(self, run: str, use: Callable[[RunRead], T]) -> T:
        """Return what `use` makes of all that is known of a run by now, by its whole journal.

        What it makes is its own: a live run is read on by the next that asks. Raises `NotFound`, `StoreError`.
        """
        layout = self._layout_to_read(run)
        try:
            made = self._folds.get(layout, lambda: _Fold(layout)).now(use)
        except ArithmeticError as error:
            raise StoreError(
                f"the journal of `{run}` has numbers that nobody measured: {error}", hint="it was damaged, or made up"
            ) from error
        self._folds.forget(SLOTS_KEPT)
        return made

    def compared(self, run: str) -> tuple[Side, Sequence[str]]:
        """Return a run as a side of a comparison, and what is wrong with it. Raises `NotFound`, `StoreError`."""
        layout = self._layout_to_read(run)
        found = self._sides.get(layout, lambda: _Compared(layout)).now()
        self._sides.forget(SLOTS_KEPT)
        return found

    def _layout_to_read(self, run: str) -> RunLayout:
        layout = self.layout(run)
        if status_of(layout.journal).st_size > COMPARED_BYTES:
            raise StoreError(f"the journal of `{run}` is too large for a page", hint="`proctor show` reads it")
        return layout

    def slots(self, run: str) -> RunSlots:
        """Return the slots of a run, brought up to now. Raises `NotFound`, `StoreError`."""
        layout = self.layout(run)
        found = self._slots.get(layout, lambda: RunSlots(layout))
        found.follow()
        self._slots.forget(SLOTS_KEPT)
        return found

    def attempt_lines(self, run: str) -> AttemptLines:
        """Return where the lines of every attempt of a run are, brought up to now. Raises `NotFound`, `StoreError`."""
        layout = self.layout(run)
        found = self._attempts.get(layout, lambda: AttemptLines(layout.journal))
        try:
            found.follow()
        except OSError as error:
            raise unreadable(layout.journal, error) from error
        self._attempts.forget(SLOTS_KEPT)
        return found

    def summary(self, run: str) -> Mapping[str, Any]:
        """Return the content of summary.json, made now where the run has none; empty where that would take long."""
        layout = self.layout(run)
        if summary := read_object(layout.summary_json):
            return summary
        if status_of(layout.journal).st_size > FOLDED_BYTES:
            return {}
        return self.read(run, lambda read: summary_data(read.view, run=layout.run_id, directory=str(layout.directory)))


def _runs_below(directory: Path | str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            found = {entry.name: entry for entry in entries}
        if JOURNAL in found and is_run(RunLayout(Path(directory))):
            yield str(directory)
            return
        below = [name for name, one in found.items() if name[0] != "." and one.is_dir(follow_symlinks=False)]
    except OSError:
        return  # it was removed while we looked, or is not for our eyes: there is nothing to show of it
    for name in sorted(below) if depth else ():
        if is_text(name):
            yield from _runs_below(f"{directory}/{name}", depth - 1)


def is_text(name: str) -> bool:
    """Say whether a name can stand in an address and on a page: one that is no UTF-8 cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class RunSlots:
    """The plan of a run and what became of each slot."""

    def __init__(self, layout: RunLayout) -> None:
        self.plan: PlanFile | None = plan_of(layout)[0]
        self.index = SlotIndex(layout.journal)
        self._lock = threading.Lock()
        self.places: dict[str, list[int]] = {}
        """The ordinals of each task, in plan order."""
        for slot in self.plan.slots if self.plan else ():
            self.places.setdefault(slot.task, []).append(slot.ordinal)

    @property
    def offset(self) -> int:
        """How far the journal was read, in bytes."""
        return self.index.offset

    def __len__(self) -> int:
        return max(len(self.index), len(self.plan.slots) if self.plan else 0)

    def follow(self) -> None:
        """Read on in the journal. Raises `StoreError`."""
        with self._lock:
            try:
                self.index.follow()
            except OSError as error:
                raise unreadable(self.index.journal, error) from error
            if self.plan is None:
                places: dict[str, list[int]] = {}
                for slot in self.index:
                    places.setdefault(slot.task, []).append(slot.ordinal)
                self.places = places  # never changed in place: somebody may be reading it


class _Compared:
    """A run as a side of a comparison, made again when its journal has grown."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._made: tuple[Side, Sequence[str]] | None = None
        self._lock = threading.Lock()
        self.offset = 0

    def __len__(self) -> int:
        return 0 if self._made is None else len(self._made[0].tasks) * self._made[0].attempts

    def now(self) -> tuple[Side, Sequence[str]]:
        with self._lock:
            size = status_of(self._layout.journal).st_size
            if self._made is None or size != self.offset:
                self._made, self.offset = compared(self._layout.directory), size
            return self._made


class _Fold:
    """A run whose journal is read on from where it was left."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._plan, self._problem = plan_of(layout)
        self._fold = RunFold(self._plan)
        self._reader: JournalReader = read_journal(layout.journal)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return max(0, min(self._fold.view.total, SLOTS_KEPT))  # it is what a journal says: any number

    @property
    def offset(self) -> int:
        return self._reader.offset

    def now(self, use: Callable[[RunRead], T]) -> T:
        with self._lock:
            trouble = self._fold.follow(self._reader)
            return use(RunRead(self._layout, self._plan, self._problem, self._fold, self._reader.torn, trouble))
