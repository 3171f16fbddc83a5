"""One writer, group commits, and what is left when writing fails (spec 08 D1, D5; 10 I2)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_cases import AT, FaultyFiles, every_fault, noop_attempt, rich_run

from proctor.errors import JournalLocked, StoreError
from proctor.model.attempt import issue_of
from proctor.model.events import Event, GradingQueued, IssueRaised
from proctor.store.codec import NotEncodable, decode, encode
from proctor.store.files import Files
from proctor.store.journal import Journal
from proctor.store.lock import is_being_written, lock_path, read_writer
from proctor.store.reader import read_journal

A = "abcdefghijkl"


def _events(path: Path) -> list[Event]:
    return [event for event, _ in read_journal(path)]


def _queued(count: int, start: int = 0) -> list[Event]:
    return [GradingQueued(f"{number:012d}") for number in range(start, start + count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_D1_what_is_appended_is_read_back_in_order(path: Path) -> None:
    run = rich_run()
    with Journal.create(path, at=AT) as journal:
        for event, at in run:
            journal.append(event, at)
    stored = [decode(encode(event, at)) for event, at in run]
    assert list(read_journal(path)) == stored
    assert not lock_path(path).exists()


def test_D1_flush_makes_it_readable_and_sync_says_what_is_durable(path: Path) -> None:
    with Journal.create(path, at=AT) as journal:
        journal.append(GradingQueued(A), AT)
        assert _events(path) == []
        assert journal.sync() == 0, "sync covers what was flushed, no more"
        journal.flush()
        assert _events(path) == [GradingQueued(A)]
        assert (journal.written_events, journal.durable_events) == (1, 0)
        assert journal.sync() == 1
        assert journal.durable_events == 1
    assert journal.sync() == 1, "after the end everything is durable"


class _CountingFiles(Files):
    def __init__(self) -> None:
        self.writes = 0
        self.fsyncs = 0

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.writes += 1
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.fsyncs += 1
        super().fsync(descriptor)


def test_a_group_is_one_write_and_one_sync(path: Path) -> None:
    files = _CountingFiles()
    with Journal.create(path, at=AT, files=files) as journal:
        files.writes = files.fsyncs = 0
        for event in _queued(1000):
            journal.append(event, AT)
        journal.flush()
        journal.flush()
        journal.sync()
        journal.sync()
        assert (files.writes, files.fsyncs) == (1, 1)


class _StutteringFiles(Files):
    """Writes seven bytes at a time, and is interrupted by a signal before each."""

    interrupted = False

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.interrupted = not self.interrupted
        if self.interrupted:
            raise InterruptedError
        return super().write(descriptor, data[:7])

    def fsync(self, descriptor: int) -> None:
        self.interrupted = not self.interrupted
        if self.interrupted:
            raise InterruptedError
        super().fsync(descriptor)


def test_short_writes_and_interrupted_calls_are_gone_on_with(path: Path) -> None:
    with Journal.create(path, at=AT, files=_StutteringFiles()) as journal:
        for event, at in rich_run():
            journal.append(event, at)
        journal.flush()
        assert journal.sync() == len(rich_run())
    assert len(_events(path)) == len(rich_run())


class _StuckFiles(Files):
    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return 0 if bytes(data[:8]) == b'{"type":' else super().write(descriptor, data)


def test_a_write_that_takes_nothing_is_an_error_and_no_endless_loop(path: Path) -> None:
    with Journal.create(path, at=AT, files=_StuckFiles()) as journal:
        journal.append(GradingQueued(A), AT)
        with pytest.raises(StoreError, match="nothing was written"):
            journal.flush()


def test_an_event_that_cannot_be_encoded_leaves_the_journal_working(path: Path) -> None:
    with Journal.create(path, at=AT) as journal:
        with pytest.raises(NotEncodable, match="message"):
            journal.append(IssueRaised(A, issue_of("time.agent", b"bytes")), AT)  # pyright: ignore[reportArgumentType]
        journal.append(GradingQueued(A), AT)
    assert _events(path) == [GradingQueued(A)]


def test_sync_in_a_thread_while_the_loop_appends_and_flushes(path: Path) -> None:
    """Every count that sync reports is in the file at that moment, and nothing is lost or torn."""
    total, reported = 3000, []
    done = threading.Event()

    def commit(journal: Journal) -> None:
        while not done.is_set():
            count = journal.sync()
            reported.append((count, path.stat().st_size))

    with Journal.create(path, at=AT) as journal:
        threads = [threading.Thread(target=commit, args=(journal,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number, event in enumerate(_queued(total)):
            journal.append(event, AT)
            if number % 7 == 0:
                journal.flush()
        done.set()
        for thread in threads:
            thread.join()
    assert _events(path) == _queued(total)
    size = len(encode(GradingQueued("0" * 12), AT))
    assert reported
    assert all(count * size <= on_disk for count, on_disk in reported)


class _HookedFiles(Files):
    """Calls a function once, in the middle of the next write or sync."""

    def __init__(self) -> None:
        self.in_write: Callable[[], object] | None = None
        self.in_sync: Callable[[], object] | None = None

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        hook, self.in_write = self.in_write, None
        if hook:
            hook()
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        hook, self.in_sync = self.in_sync, None
        if hook:
            hook()
        super().fsync(descriptor)  # raises for a descriptor that was closed meanwhile


def test_D1_sync_does_not_report_what_was_flushed_while_it_waited(path: Path) -> None:
    files = _HookedFiles()
    with Journal.create(path, at=AT, files=files) as journal:
        journal.append(GradingQueued("1"), AT)
        journal.flush()
        journal.append(GradingQueued("2"), AT)
        files.in_sync = journal.flush
        assert journal.sync() == 1
        assert (journal.written_events, journal.durable_events) == (2, 1)
        assert journal.sync() == 2


def test_an_event_that_comes_in_the_middle_of_a_flush_is_in_the_next_one(path: Path) -> None:
    files = _HookedFiles()
    with Journal.create(path, at=AT, files=files) as journal:
        journal.append(GradingQueued("1"), AT)
        files.in_write = lambda: journal.append(GradingQueued("2"), AT)
        journal.flush()
        assert _events(path) == [GradingQueued("1")]
    assert _events(path) == [GradingQueued("1"), GradingQueued("2")]


def test_close_waits_for_a_sync_that_is_going_on(path: Path) -> None:
    files = _HookedFiles()
    journal = Journal.create(path, at=AT, files=files)
    journal.append(GradingQueued(A), AT)
    journal.flush()
    closing = threading.Thread(target=journal.close)

    def close_meanwhile() -> None:
        closing.start()
        closing.join(timeout=0.1)  # never enough, and that is the point
        assert closing.is_alive()

    files.in_sync = close_meanwhile
    assert journal.sync() == 1
    closing.join()
    assert _events(path) == [GradingQueued(A)]


def test_a_closed_journal_refuses_events_and_may_be_closed_again(path: Path) -> None:
    journal = Journal.create(path, at=AT)
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="is closed"):
        journal.append(GradingQueued(A), AT)


# ------------------------------------------------------------------------------------------------------- the lock

_SECOND_WRITER = """
import sys
from pathlib import Path
from proctor.errors import ProctorError
from proctor.store.journal import Journal
try:
    Journal.create(Path(sys.argv[1]), at=0.0)
except ProctorError as error:
    print(type(error).__name__, error.message)
else:
    print("taken")
"""

_FIRST_WRITER = """
import sys
from pathlib import Path
from proctor.model.events import GradingQueued
from proctor.store.journal import Journal
journal = Journal.create(Path(sys.argv[1]), at=0.0)
for number in range(10**9):
    journal.append(GradingQueued(f"{number:012d}"), 0.0)
    if number % 50 == 49:
        journal.flush()
        print(journal.sync(), flush=True)
"""


def _second_writer(path: Path) -> str:
    command = [sys.executable, "-c", _SECOND_WRITER, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def _first_writer(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _FIRST_WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_D1_a_second_process_is_refused_by_pid_and_host(path: Path) -> None:
    with Journal.create(path, at=AT) as journal:
        said = _second_writer(path)
        assert said.startswith("JournalLocked")
        assert f"process {os.getpid()} on {os.uname().nodename} since 2026-11-30T16:30:35.123456Z" in said
        journal.append(GradingQueued(A), AT)
    assert _events(path) == [GradingQueued(A)], "the first writer was not disturbed"
    assert "exists already" in _second_writer(path), "a run that has ended never changes"


def test_D1_a_second_writer_in_the_same_process_is_refused_too(path: Path) -> None:
    with Journal.create(path, at=AT), pytest.raises(JournalLocked, match=str(os.getpid())):
        Journal.create(path, at=AT)


def test_I2_a_journal_of_a_killed_process_has_all_that_it_reported_and_is_not_written_again(path: Path) -> None:
    with _first_writer(path) as process:
        assert process.stdout is not None
        reported = [int(process.stdout.readline()) for _ in range(20)]
        assert is_being_written(path) is True
        process.send_signal(signal.SIGKILL)
        reported += [int(line) for line in process.stdout if line.endswith("\n")]
        process.wait()
    assert is_being_written(path) is False
    writer = read_writer(path)
    assert writer is not None
    assert writer.pid == process.pid
    events = _events(path)
    assert len(events) >= reported[-1] >= 1000
    assert events == _queued(len(events))
    with pytest.raises(StoreError, match=f"begun by process {process.pid} .* left behind"):
        Journal.create(path, at=AT)


def test_a_lock_of_another_host_is_respected(path: Path) -> None:
    lock_path(path).write_text(json.dumps({"pid": 1, "host": "elsewhere", "started": "then"}))
    with pytest.raises(JournalLocked, match="process 1 on elsewhere since then"):
        Journal.create(path, at=AT)
    path.touch()
    assert is_being_written(path) is None, "cannot be known from here"


def test_a_lock_that_is_held_counts_whatever_the_name_of_the_host(path: Path) -> None:
    """Containers on one machine have names of their own."""
    with Journal.create(path, at=AT, pid=1, host="container"):
        assert is_being_written(path) is True


@pytest.mark.parametrize("content", ["", "{", '{"pid":"x"}', "\0\0"])
def test_a_lock_file_that_cannot_be_read_is_respected(path: Path, content: str) -> None:
    lock_path(path).write_text(content)
    with pytest.raises(JournalLocked, match="an unknown process"):
        Journal.create(path, at=AT)


class _LocklessFiles(Files):
    def lock(self, descriptor: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_without_locks_of_the_file_system_the_lock_file_alone_keeps_others_out(path: Path) -> None:
    with Journal.create(path, at=AT, files=_LocklessFiles()):
        assert _second_writer(path).startswith("JournalLocked")


# --------------------------------------------------------------------------------------------- writes that fail


def test_D5_a_full_disk_says_what_is_kept_and_leaves_whole_lines(path: Path) -> None:
    class FullFiles(Files):
        room = 10_000

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            taken = super().write(descriptor, data[: self.room]) if self.room else 0
            self.room -= taken
            if not taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return taken

    journal = Journal.create(path, at=AT, files=FullFiles())
    size = len(encode(GradingQueued("0" * 12), AT))
    kept = (10_000 - lock_path(path).stat().st_size) // size
    for event in _queued(200):
        journal.append(event, AT)
    with pytest.raises(
        StoreError, match=f"no space left on device; {kept} events are kept and {200 - kept} lost"
    ) as one:
        journal.flush()
    assert "free some space" in str(one.value.hint)
    for call in (lambda: journal.append(GradingQueued(A), AT), journal.flush, journal.sync):
        with pytest.raises(StoreError, match=f"{kept} events are kept") as again:
            call()
        assert (again.value.message, again.value.hint) == (one.value.message, one.value.hint)
    assert path.stat().st_size == kept * size, "cut back to the last whole line"
    journal.close()
    reader = read_journal(path)
    assert [event for event, _ in reader] == _queued(kept)
    assert reader.torn is None


def test_D5_a_failing_sync_breaks_the_journal_and_says_what_is_safe(path: Path) -> None:
    files = FaultyFiles(fault=errno.EIO)
    journal = Journal.create(path, at=AT, files=files)
    for event in _queued(3):
        journal.append(event, AT)
    journal.flush()
    assert journal.sync() == 3
    journal.append(GradingQueued(A), AT)
    journal.flush()
    files.fail_at = files.calls + 1
    with pytest.raises(StoreError, match="3 events are safe on the disk, 4 were written"):
        journal.sync()
    with pytest.raises(StoreError, match="3 events are safe"):
        journal.append(GradingQueued(A), AT)
    assert journal.durable_events == 3
    journal.close()


def test_a_signal_handler_that_raises_in_the_middle_of_a_write_leaves_whole_lines(path: Path) -> None:
    class InterruptedFiles(Files):
        armed = False

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            if not self.armed:
                return super().write(descriptor, data)
            super().write(descriptor, data[:50])
            raise KeyboardInterrupt

    files = InterruptedFiles()
    journal = Journal.create(path, at=AT, files=files)
    journal.append(GradingQueued("1"), AT)
    journal.flush()
    files.armed = True
    journal.append(GradingQueued("2"), AT)
    with pytest.raises(KeyboardInterrupt):
        journal.flush()
    with pytest.raises(StoreError, match="interrupted"):
        journal.append(GradingQueued("3"), AT)
    journal.close()
    assert _events(path) == [GradingQueued("1")]


def test_D5_whichever_call_fails_what_was_durable_is_readable_and_nothing_is_half_read(tmp_path: Path) -> None:
    """Every single call of the scenario fails in turn, once or from then on, by four errors and short writes."""
    events = [*noop_attempt("a" * 12, "日本"), *noop_attempt("b" * 12, "t")]
    stored = [decode(encode(event, AT)) for event in events]
    numbers = iter(range(10**6))

    def scenario(files: FaultyFiles) -> None:
        path = tmp_path / f"{next(numbers)}.jsonl"
        durable = 0
        error: StoreError | None = None
        try:
            journal = Journal.create(path, at=AT, files=files)
        except StoreError:
            if not files.failed:
                raise
            return
        try:
            for index, event in enumerate(events):
                journal.append(event, AT)
                if index % 5 == 4:
                    journal.flush()
                    durable = journal.sync()
            journal.close()
            durable = len(events)
        except StoreError as failed:
            error = failed
            durable = max(durable, journal.durable_events)
        journal.close()
        crashed = path.read_bytes()
        for cut in {len(crashed), max(len(crashed) - 3, 0)}:
            path.write_bytes(crashed[:cut])
            reader = read_journal(path)
            read = list(reader)
            assert read == stored[: len(read)], "only whole events, in order"
            if cut == len(crashed):
                assert len(read) >= durable
                assert error is not None or len(read) == len(events)
        assert error is None or files.failed, "no error without a cause"

    runs = every_fault(scenario)
    assert runs > 100


def test_a_disk_that_loses_what_was_not_synced_keeps_what_sync_reported(tmp_path: Path) -> None:
    """The file cut at every byte from the size at the last sync on: a power cut."""
    path = tmp_path / "journal.jsonl"
    journal = Journal.create(path, at=AT)
    for event in _queued(3):
        journal.append(event, AT)
    journal.flush()
    durable, size = journal.sync(), path.stat().st_size
    for event in _queued(2, start=3):
        journal.append(event, AT)
    journal.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole) + 1):
        path.write_bytes(whole[:cut])
        events = _events(path)
        assert len(events) >= durable
        assert events == _queued(len(events))
