"""The record: the index over the journals of a results root, which can be deleted and made anew at any time.

The journals are the truth, and nothing waits for the record: a run goes on without it, and what is missing in it is
indexed at the next start. One `Record` belongs to one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import delete, func, select

from proctor.errors import UsageError
from proctor.store.record_candidate import Candidate
from proctor.store.record_candidates import find_candidates
from proctor.store.record_catch_up import CaughtUp, catch_up
from proctor.store.record_database import BUSY_SECONDS, GiveUp, RecordDatabase, never
from proctor.store.record_errors import RecordDamaged, RecordError, explained
from proctor.store.record_index import RunIndex
from proctor.store.record_lookup import (
    EVERYTHING,
    FoundAttempt,
    Previous,
    RootView,
    RunInfo,
    Scope,
    find_attempts,
    is_there,
)
from proctor.store.record_place import below, record_path, root_name
from proctor.store.record_previous import find_previous
from proctor.store.record_rows import delete_runs
from proctor.store.record_schema import RUN, TABLES

T = TypeVar("T")


class Record:
    """The record of one results root. What is wrong is a `RecordError` with what to do about it."""

    def __init__(self, database: RecordDatabase, root: Path, name: str, mend: Callable[[], RecordDatabase]) -> None:
        self.root = root
        self.database = database
        self.root_name = name
        """How the results root is named in the record."""
        self.notices = list(database.notices)
        """What a person should know about the record, once."""
        self.problems: dict[str, str] = {}
        """Why runs could not be read to their end when the record was last brought up to date, by directory."""
        self._mend = mend
        self._indexes: dict[str, RunIndex] = {}

    @classmethod
    def open(
        cls,
        results_root: Path,
        url: str | None = None,
        *,
        catch_up: bool = True,
        busy_seconds: float = BUSY_SECONDS,
        suspect: bool = False,
        vfs: str | None = None,
        file_system: str | None = None,
    ) -> Self:
        """Open the record of a results root, or make it, or migrate it; a damaged one is set aside and made anew.

        With `catch_up`, what it lacks is indexed. Raises `UsageError` for a bad `url`, `RecordNewer` for a record of a
        newer proctor, `RecordError` when it cannot be used where it is. The other arguments are those of
        `RecordDatabase.open`.
        """
        path = record_path(results_root, url).absolute()
        opened = partial(RecordDatabase.open, path, busy_seconds=busy_seconds, vfs=vfs, file_system=file_system)
        database = opened(suspect=suspect)
        with explained("open", str(path)):
            record = cls(database, results_root, root_name(results_root, path), partial(opened, suspect=True))
        if catch_up:
            try:
                record.catch_up()
            except BaseException:
                record.close()
                raise
        return record

    @classmethod
    def look(cls, results_root: Path, url: str | None = None) -> Self:
        """Return a private copy of the record that is up to date, and write nothing anywhere.

        Where there is no record that can be read, all journals are read; this says in `notices` why, if there is more
        to it. Raises `UsageError` for a bad `url`.
        """
        path = record_path(results_root, url).absolute()
        notices: list[str] = []
        try:
            database = RecordDatabase.copied(path) if path.exists() else RecordDatabase.private()
        except RecordError as error:
            notices.append(f"{error.message}; the journals are read instead")
            database = RecordDatabase.private()
        record = cls(database, results_root, root_name(results_root, path), RecordDatabase.private)
        record.notices += notices
        if results_root.is_dir():
            record.catch_up()
        return record

    def close(self) -> None:
        """Fold the write-ahead log into the file, and close it; a second call does nothing."""
        self.database.fold_log()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------------------- indexing

    def index_run(self, run_dir: Path, give_up: GiveUp = never) -> int:
        """Index what is new in the journal of a run, up to its last complete line; return how many events it was.

        Raises `RecordBusy` when others keep the record locked, `StoreError` when the journal cannot be read.
        """
        return self._mended(lambda: sum(self.index_of(self.directory_of(run_dir)).steps(give_up)))

    def directory_of(self, run_dir: Path) -> str:
        """Return the directory of a run as the record has it. Raises `UsageError` for one outside the root."""
        return below(self.root, run_dir)

    def index_of(self, directory: str) -> RunIndex:
        """Return what indexes a run, by its directory; it is kept, so that following the run costs what is new."""
        if directory not in self._indexes:
            self._indexes[directory] = RunIndex(self._view, directory)
        return self._indexes[directory]

    def catch_up(self, tell: Callable[[str], object] = str) -> CaughtUp:
        """Index what is missing of every run; a run that was seen as it is now costs a look at its directory.

        `tell` is told the directory of each run of which something is indexed.
        """

        def work() -> CaughtUp:
            result = CaughtUp()
            for directory in self.catch_up_steps(result):
                tell(directory)
            self.problems = result.problems
            return result

        return self._mended(work)

    def catch_up_steps(self, result: CaughtUp, give_up: GiveUp = never) -> Iterator[str]:
        """Catch up batch by batch, counting in `result`; yield the directory of the run after each batch."""
        return catch_up(self._view, self._indexes, result, give_up)

    def rebuild(self, tell: Callable[[str], object] = str) -> CaughtUp:
        """Make every row anew from the plans and journals."""

        def clear() -> None:
            with self.database.writing() as connection:
                others = select(func.count()).select_from(RUN).where(RUN.c.root != self.root_name)
                if connection.execute(others).scalar_one():
                    mine = select(RUN.c.run_key).where(RUN.c.root == self.root_name)
                    delete_runs(connection, connection.execute(mine).scalars().all())
                else:
                    for table in TABLES:
                        connection.execute(delete(table))

        self._indexes.clear()
        self._mended(clear)
        return self.catch_up(tell)

    def clean(self, *, dry_run: bool = False) -> list[str]:
        """Remove the rows of runs whose directories are gone; return these directories.

        Raises `UsageError` when the whole results root is gone: then it is not there at the moment, more likely.
        """
        if not self.root.is_dir():
            raise UsageError(f"there is no directory `{self.root}`", hint="name the results with `--results-dir`")
        gone = [info for info in self.runs() if not is_there(info)]
        if gone and not dry_run:
            with self.database.writing() as connection:
                delete_runs(connection, [info.run_key for info in gone])
        return [self.directory_of(info.directory) for info in gone]

    def _mended(self, work: Callable[[], T]) -> T:
        """Do some work; where the file turns out to be damaged, set it aside, begin anew and do it again."""
        try:
            return work()
        except RecordDamaged:
            self.mend()
            for _ in self.catch_up_steps(CaughtUp()):
                pass
            return work()

    def mend(self) -> None:
        """Search the file for damage; one that is damaged is set aside, and an empty one is open from then on.

        Raises `RecordDamaged` when other processes have it open: then it is left to the next start.
        """
        self.database.close()
        self.database = self._mend()
        self._indexes.clear()
        self.notices += self.database.notices

    # ------------------------------------------------------------------------------------------------------ looking

    @property
    def _view(self) -> RootView:
        return RootView(self.database, self.root, self.root_name)

    def candidates(
        self,
        identities: Collection[str],
        scope: Scope = EVERYTHING,
        *,
        enough: Callable[[Candidate], bool] | None = None,
    ) -> dict[str, list[Candidate]]:
        """Return the attempts for slots with these identities, newest first; an identity without any is left out.

        What another run accepted or carried for such an identity counts as well, whatever its own identity is. Older
        attempts than one that is `enough` may be left out: that saves time and memory where there are many.
        """
        return self._mended(lambda: find_candidates(self._view, identities, scope, enough))

    def previous(
        self, slots: Collection[tuple[str, int]], scope: Scope = EVERYTHING
    ) -> dict[tuple[str, int], Previous]:
        """Return what filled slots (task, ordinal) last; what is gone from the disk where there is nothing else."""
        return self._mended(lambda: find_previous(self._view, slots, scope))

    def runs(self, scope: Scope = EVERYTHING) -> list[RunInfo]:
        """Return the runs of this results root, newest first."""

        def work() -> list[RunInfo]:
            with self.database.reading() as connection:
                return self._view.runs(connection, scope)

        return self._mended(work)

    def attempts(self, prefix: str) -> list[FoundAttempt]:
        """Return the attempts whose ids begin with a prefix (without `@`), in every run that has them."""
        return self._mended(lambda: find_attempts(self._view, prefix))


__all__ = ["Candidate", "CaughtUp", "FoundAttempt", "Previous", "Record", "RunInfo", "Scope", "record_path"]
