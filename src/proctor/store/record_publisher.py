"""Keeps the record up to date while runs are active, in a thread of its own.

A run says that its journal has grown and goes on at once. Nothing that happens here ever fails or delays a run: what
cannot be indexed now is indexed at the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import ProctorError

if TYPE_CHECKING:
    from proctor.store.record import Record

PAUSE_SECONDS = 0.2
"""Between two rounds of indexing: what is sealed can be queried this much later, at most, plus one transaction."""

RETRY_SECONDS = 5.0
"""How long indexing rests after others kept the record locked, which was waited for already."""

BACKLOG_PAUSE_SECONDS = 0.02
"""Between two batches of what earlier runs left unindexed, so that the runs of this process have the processor."""

CLOSE_SECONDS = 10.0
"""How long the end of an invocation waits for the record."""

log = logging.getLogger(__name__)


class RecordPublisher:
    """Indexes runs as they grow. `start`, `publish` and `close` return at once, but for the limit of `close`.

    `tell` is called in the thread of the publisher, with what a person should know about the record; `open_record`
    opens it there, and need not catch up.
    """

    def __init__(
        self,
        results_root: Path,
        url: str | None = None,
        *,
        tell: Callable[[str], None] = log.warning,
        open_record: Callable[[Path, str | None], Record] | None = None,
    ) -> None:
        self._root = results_root
        self._url = url
        self._tell = tell
        self._open = open_record or _open
        self._lock = threading.Lock()
        self._grown: dict[Path, None] = {}
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._busy_told = False
        self._thread = threading.Thread(target=self._work, name="proctor-record", daemon=True)

    def start(self) -> None:
        """Begin: open the record and index what earlier runs left, unless runs of this process come first."""
        self._thread.start()

    def publish(self, run_dir: Path) -> None:
        """Say that the journal of a run has grown."""
        with self._lock:
            self._grown[run_dir] = None
        self._wake.set()

    def close(self, limit_seconds: float = CLOSE_SECONDS) -> bool:
        """Index what was said last, fold the log into the file and end; wait for it as long as that, at most.

        Returns False when it did not come to its end: then it is left behind, and the next start does the rest.
        """
        self._closing.set()
        self._wake.set()
        if self._thread.ident is None:
            return True
        self._thread.join(limit_seconds)
        if self._thread.is_alive():
            log.warning("the record was not brought up to date within %g s; the next start does it", limit_seconds)
            return False
        return True

    # ------------------------------------------------------------------------------------------- in its own thread

    def _work(self) -> None:
        try:
            with self._opened() as record:
                said = 0
                for _ in self._rounds(record):
                    for notice in record.notices[said:]:
                        self._tell(notice)
                    said = len(record.notices)
        except ProctorError as error:
            self._tell(f"{error.message}; runs go on without it" + (f" (hint: {error.hint})" if error.hint else ""))
        except Exception:
            log.exception("a bug of proctor: the record is not kept up to date any more")

    def _opened(self) -> Record:
        from proctor.store.record_errors import RecordBusy  # noqa: PLC0415 - slow to import, and not in every start

        while True:
            try:
                return self._open(self._root, self._url)
            except RecordBusy as error:
                if self._closing.is_set():
                    raise
                self._say_busy(error)
                self._closing.wait(RETRY_SECONDS)

    def _rounds(self, record: Record) -> Iterator[None]:
        """Index in rounds until there is nothing left and it is closed; yield after each."""
        from proctor.store.record_catch_up import CaughtUp  # noqa: PLC0415 - slow to import, and not in every start
        from proctor.store.record_errors import RecordBusy, RecordDamaged  # noqa: PLC0415 - likewise

        closing = self._closing.is_set
        begun_on = record.database
        backlog: Iterator[str] | None = record.catch_up_steps(CaughtUp(), closing)
        yield
        while True:
            last = closing()
            self._wake.clear()
            try:
                idle = self._index_grown(record)
                if begun_on is not record.database:  # it was damaged, and is made anew
                    begun_on, backlog = record.database, record.catch_up_steps(CaughtUp(), closing)
                if backlog is not None and not last and next(backlog, None) is None:
                    backlog = None
            except RecordBusy as error:
                if last:
                    raise
                self._say_busy(error)
                idle, backlog = False, None if backlog is None else record.catch_up_steps(CaughtUp(), closing)
                self._closing.wait(RETRY_SECONDS)
            except RecordDamaged:
                record.mend()
                idle = False
            yield
            if last and idle:
                return
            if backlog is not None and idle:
                self._wake.wait(BACKLOG_PAUSE_SECONDS)
            elif idle:
                self._wake.wait()
            else:
                self._closing.wait(PAUSE_SECONDS)

    def _index_grown(self, record: Record) -> bool:
        """Index the runs that have grown; return whether there were none. What fails is kept for the next round."""
        from proctor.store.record_errors import RecordError  # noqa: PLC0415 - loaded by now

        with self._lock:
            grown, self._grown = self._grown, {}
        if not grown:
            return True
        try:
            for run_dir in list(grown):
                try:
                    record.index_run(run_dir)
                except RecordError:
                    raise
                except ProctorError as error:
                    log.warning("%s", error.message)  # of this run alone
                del grown[run_dir]
            return False
        finally:
            with self._lock:
                self._grown = grown | self._grown

    def _say_busy(self, error: ProctorError) -> None:
        if not self._busy_told:
            self._busy_told = True
            self._tell(f"{error.message}; what is missing in it is indexed later")


def _open(results_root: Path, url: str | None) -> Record:
    # In this thread and not before: it takes longer to import than many a run needs to start.
    from proctor.store.record import Record  # noqa: PLC0415 - see above

    return Record.open(results_root, url, catch_up=False)
