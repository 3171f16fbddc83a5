"""Indexes the journal of one run, from where the record stands up to its last complete line.

A batch is one transaction: it writes the rows that a stretch of the journal adds or changes, and how far that is. So
the record holds what some beginning of the journal says, always, and indexing goes on from there, whoever does it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sqlalchemy import Connection

from proctor.errors import JournalDamaged, StoreError
from proctor.store.codec import NewerFormat
from proctor.store.files import store_error
from proctor.store.layout import RunLayout
from proctor.store.record_database import GiveUp, never
from proctor.store.record_fold import RunFold
from proctor.store.record_lines import read_line
from proctor.store.record_lookup import RootView
from proctor.store.record_plan import PlanRows, PlanState, plan_rows, plan_state
from proctor.store.record_rows import Progress, RowWriter, progress_of, sealed_among, stored_run
from proctor.store.record_runs import Seen
from proctor.store.record_values import run_key_of

BATCH_BYTES = 4 * 1024 * 1024
"""So much of a journal is indexed in one transaction: some thousand attempts, in under a second."""

BEATEN_AT_MOST = 10
"""So often in a row somebody else may index the same run first."""

_TAIL_BYTES = 4096


class StaleIndex(StoreError):
    """Somebody else indexed the run meanwhile: begin from what the record says now."""


@dataclass(slots=True)
class _Session:
    """What is known of a run between batches; `stored` is what the record says, None where it has nothing."""

    stored: Progress | None
    fold: RunFold
    plan: PlanRows | None
    """What the plan adds; None where the record has it."""
    plan_file: PlanState
    plan_problem: str | None
    at: int = 0
    """So many bytes of the journal are in the fold."""
    lines: int = 0
    tail: bytes = b""
    problem: str | None = None


class RunIndex:
    """Indexes one run; what it learns is kept for the next call: following a live run costs only what is new."""

    def __init__(self, view: RootView, directory: str, *, batch_bytes: int = BATCH_BYTES) -> None:
        self.directory = directory
        self.run_key = run_key_of(view.name, directory)
        self._database = view.database
        self._layout = RunLayout(view.root / directory)
        self._where = (view.name, directory)
        self._batch_bytes = batch_bytes
        self._session: _Session | None = None

    @property
    def problem(self) -> str | None:
        """Why the run could not be indexed to its end, as far as it was indexed by this."""
        session = self._session
        return None if session is None else session.problem or session.plan_problem

    def steps(self, give_up: GiveUp = never, *, end_bytes: int | None = None) -> Iterator[int]:
        """Index batch by batch, up to the last complete line; yield the events of each.

        What is the matter with a journal or a plan is kept in the record (`journal.problem`) and is no error. Raises
        `RecordError` when the record cannot be written; what was to be written is tried again at the next call.
        """
        try:
            with self._layout.journal.open("rb") as file:
                more, beaten = True, 0
                while more:
                    try:
                        count, more = self._step(file, give_up, end_bytes)
                    except StaleIndex:
                        beaten += 1
                        if beaten > BEATEN_AT_MOST:
                            raise
                    else:
                        yield count
        except FileNotFoundError:
            return  # the run was removed, or its start was taken back
        except OSError as error:
            raise store_error("read the journal", self._layout.journal, error) from error

    def _step(self, file: BinaryIO, give_up: GiveUp, end_bytes: int | None) -> tuple[int, bool]:
        """Index one batch; return its events, and whether there may be more."""
        session, self._session = self._session, None  # whatever fails below, the fold is ahead of the record then
        status = os.fstat(file.fileno())
        seen = Seen(status.st_size, status.st_mtime_ns, status.st_ino)
        if session is None or seen.size_bytes < session.at or (session.stored and session.stored.inode != seen.inode):
            session = self._begin(file, seen)
        before = session.lines
        more = self._read(file, session, seen.size_bytes if end_bytes is None else end_bytes)
        progress = self._progress(session, seen)
        if progress != session.stored:
            self._write(session, progress, give_up)
        self._session = session
        return session.lines - before, more

    # ------------------------------------------------------------------------------------------------------ reading

    def _begin(self, file: BinaryIO, seen: Seen) -> _Session:
        with self._database.reading() as connection:
            stored = progress_of(connection, self.run_key)
            plan_file = plan_state(self._layout.plan, stored.plan if stored else PlanState())
            if stored is None or not _is_known(file, seen, stored) or stored.plan_sha256 != plan_file.sha256:
                return self._anew(stored, plan_rows(self._layout.plan, self.run_key), plan_file)
            if stored.plan_problem is not None:
                plan = plan_rows(self._layout.plan, self.run_key)
                if plan.problem != stored.plan_problem:  # this proctor may be a newer one
                    return self._anew(stored, plan, plan_file)
            try:
                fold = self._resumed(connection, file, stored)
            except (JournalDamaged, NewerFormat):  # it was changed before its last lines
                return self._anew(stored, plan_rows(self._layout.plan, self.run_key), plan_file)
            session = _Session(stored, fold, None, plan_file, stored.plan_problem, stored.bytes, stored.lines)
            file.seek(max(0, stored.bytes - _TAIL_BYTES))
            session.tail = file.read(min(stored.bytes, _TAIL_BYTES))
            return session

    def _anew(self, stored: Progress | None, plan: PlanRows, plan_file: PlanState) -> _Session:
        return _Session(stored, RunFold(self.run_key, run=plan.run), plan, plan_file, plan.problem)

    def _resumed(self, connection: Connection, file: BinaryIO, stored: Progress) -> RunFold:
        """Return the fold of what the record has; only attempts that were not sealed have to be read again."""
        run, issues = stored_run(connection, self.run_key)
        fold = RunFold(self.run_key, run=run, issues=issues)
        at = stored.resume_bytes
        file.seek(at)
        while at < stored.bytes:
            line = file.readline()
            fold.replay(*read_line(line), at)
            at += len(line)
        fold.end_replay(sealed_among(connection, self.run_key, fold.attempts))
        return fold

    def _read(self, file: BinaryIO, session: _Session, end: int) -> bool:
        """Take a batch of lines into the fold; return whether there may be more."""
        data, whole = self._whole_lines(file, session.at, end)
        start, base = 0, session.at
        add = session.fold.add
        session.problem = None
        try:
            while start < whole:
                stop = data.index(b"\n", start) + 1
                add(*read_line(data[start:stop]), base + start)
                start = stop
                session.lines += 1
        except (JournalDamaged, NewerFormat) as error:
            session.problem = f"line {session.lines + 1} (byte {base + start}): {error.message}"
        session.at += start
        session.tail = (session.tail + data[max(0, start - _TAIL_BYTES) : start])[-_TAIL_BYTES:]
        return start > 0 and session.problem is None and session.at < end

    def _whole_lines(self, file: BinaryIO, at: int, end: int) -> tuple[bytes, int]:
        """Read a batch that begins `at` bytes into the file; return it, and where the last whole line in it ends."""
        file.seek(at)
        data = file.read(max(0, min(self._batch_bytes, end - at)))
        while b"\n" not in data and 0 < len(data) < end - at:  # a line that is longer than a batch
            more = file.read(min(self._batch_bytes, end - at - len(data)))
            if not more:
                break
            data += more
        return data, data.rfind(b"\n") + 1

    def _progress(self, session: _Session, seen: Seen) -> Progress:
        plan, resume = session.plan_file.seen, session.fold.resume_bytes
        return Progress(
            run_key=self.run_key,
            bytes=session.at,
            lines=session.lines,
            resume_bytes=session.at if resume is None else resume,
            complete=session.fold.run.get("ended_at") is not None,
            tail_sha256=hashlib.sha256(session.tail).hexdigest(),
            size_bytes=seen.size_bytes,
            modified_ns=seen.modified_ns,
            inode=seen.inode,
            plan_size_bytes=plan and plan.size_bytes,
            plan_modified_ns=plan and plan.modified_ns,
            plan_inode=plan and plan.inode,
            plan_sha256=session.plan_file.sha256,
            plan_problem=session.plan_problem,
            problem=session.problem,
        )

    # ------------------------------------------------------------------------------------------------------ writing

    def _write(self, session: _Session, progress: Progress, give_up: GiveUp) -> None:
        fold = session.fold
        with self._database.writing(give_up) as connection:
            if progress_of(connection, self.run_key) != session.stored:
                raise StaleIndex(f"the index of `{self.directory}` is changed by other processes all the time")
            rows = RowWriter(self._database, self.run_key, self._where)
            if session.plan is not None:
                if session.stored is not None:
                    rows.delete_run()
                rows.insert(session.plan.rows)
            else:
                fold.forget(sealed_among(connection, self.run_key, fold.fresh()))
                resume = fold.resume_bytes  # known only now that the fold has forgotten what it should
                progress.resume_bytes = progress.bytes if resume is None else resume
            rows.write(fold, run_changed=fold.run_changed or session.plan is not None)
            rows.replace_progress(progress)
        session.stored, session.plan = progress, None


def _is_known(file: BinaryIO, seen: Seen, stored: Progress) -> bool:
    """Say whether the journal is the one that was indexed, and has grown at most."""
    if seen.size_bytes < stored.bytes:
        return False
    file.seek(max(0, stored.bytes - _TAIL_BYTES))
    return hashlib.sha256(file.read(min(stored.bytes, _TAIL_BYTES))).hexdigest() == stored.tail_sha256
