"""The file below the leases: made once, waited for, and when it cannot be used, said with what to do about it."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from leases_rig import HANG_SECONDS, SOURCE, StillClock, gone, leases_at

from proctor.errors import StoreError
from proctor.model.project import project_directory
from proctor.store._locking import is_network, log_works, type_of_device, why_no_locks
from proctor.store._sqlite_errors import explain
from proctor.store.coordination import CoordinationDatabase, coordination_path
from proctor.store.lease_info import Granted, Held, LeaseError
from proctor.store.leases import Leases
from proctor.store.owner import this_owner

KEY = "k"
TOKEN = "0" * 16

CALLS: dict[str, Callable[[Leases], object]] = {
    "acquire": lambda leases: leases.try_acquire(KEY, "e"),
    "release": lambda leases: leases.release(KEY, TOKEN),
    "heartbeat": lambda leases: leases.heartbeat([TOKEN]),
    "list": lambda leases: leases.list(),
    "inspect": lambda leases: leases.inspect(KEY),
    "mark": lambda leases: leases.mark_failed_teardown(KEY, TOKEN, "no route"),
    "begin": lambda leases: leases.begin_recovery(KEY, TOKEN),
    "finish": lambda leases: leases.finish_recovery(KEY, TOKEN),
    "abort": lambda leases: leases.abort_recovery(KEY, TOKEN),
}
WRITES = [name for name in CALLS if name not in ("list", "inspect")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / ".proctor").mkdir()
    return coordination_path(tmp_path)


def short(path: Path) -> Leases:
    """Return leases that do not wait for others."""
    return Leases(path, this_owner(), StillClock(), busy_seconds=0.01)


def refused(call: Callable[[Leases], object], leases: Leases) -> StoreError:
    with pytest.raises(StoreError) as raised:
        call(leases)
    assert str(leases.path.parent) in raised.value.message
    assert raised.value.hint
    return raised.value


# ------------------------------------------------------------------------------------------------ where, and making


def test_S1_the_project_is_the_nearest_with_a_configuration(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert project_directory(deep) == deep
    (tmp_path / "proctor.yaml").touch()
    assert project_directory(deep) == tmp_path
    (tmp_path / "a" / "proctor.yaml").mkdir()
    assert project_directory(deep) == tmp_path
    (deep / "proctor.yaml").touch()
    assert project_directory(deep) == deep
    assert coordination_path(deep) == deep / ".proctor" / "coordination.sqlite"


def test_a_missing_database_is_empty_and_stays_missing(tmp_path: Path) -> None:
    leases = short(coordination_path(tmp_path))
    assert leases.list() == []
    assert leases.inspect(KEY) is None
    assert leases.heartbeat([TOKEN]) == {TOKEN}
    for name in ("release", "mark", "begin", "finish", "abort"):
        with pytest.raises(LeaseError):
            CALLS[name](leases)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_database_that_was_not_made_to_its_end(path: Path) -> None:
    path.touch()
    assert short(path).list() == []
    assert isinstance(short(path).try_acquire(KEY, "e"), Granted)


def test_what_is_granted_is_on_the_disk_in_one_file(path: Path) -> None:
    leases = leases_at(path)
    leases.try_acquire(KEY, "e")
    assert [name.name for name in path.parent.iterdir()] == [path.name], "nothing is left open, no probe is left over"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT key, state FROM lease").fetchall() == [(KEY, "held")]
    assert leases.notices == ()


# ---------------------------------------------------------------------------------------------------------- damaged


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 1000)


def damaged(path: Path) -> None:
    """Fill all pages after the first with zeros."""
    leases_at(path).try_acquire(KEY, "e")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(size - 4096))


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE lease (key TEXT)")


def newer(path: Path) -> None:
    leases_at(path).try_acquire(KEY, "e")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def a_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (garbage, "it is no database, or damaged"),
        (damaged, "it is damaged"),
        (foreign, "is a database of something else"),
        (newer, "by a newer proctor"),
        (a_directory, "is a directory"),
    ],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_database_that_is_none_grants_nothing_and_is_left_alone(
    path: Path, make: Callable[[Path], None], why: str, call: str
) -> None:
    make(path)
    before = path.read_bytes() if path.is_file() else None
    assert why in refused(CALLS[call], short(path)).message
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / ".proctor").write_text("in the way")
    leases = short(coordination_path(tmp_path))
    for call in CALLS.values():
        assert "is a file" in (refused(call, leases).hint or "")


# --------------------------------------------------------------------------------------------------------- read-only


@contextmanager
def as_nobody() -> Iterator[None]:
    """Act as a user without rights: for root, nothing is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def read_only() -> Iterator[Path]:
    """The database of somebody else, with a lease, in a directory that everybody may look at."""
    with tempfile.TemporaryDirectory(prefix="proctor-leases-") as folder:
        path = coordination_path(Path(folder))
        assert isinstance(leases_at(path, gone()).try_acquire(KEY, "e", token=TOKEN), Granted)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        Path(folder).chmod(0o755)
        yield path
        path.parent.chmod(0o755)


def test_what_is_read_only_can_be_looked_at(read_only: Path) -> None:
    leases = short(read_only)
    with as_nobody():
        assert [info.key for info in leases.list()] == [KEY]
        assert leases.inspect(KEY) is not None


@pytest.mark.parametrize("call", WRITES)
def test_what_is_read_only_cannot_be_changed(read_only: Path, call: str) -> None:
    leases = short(read_only)
    with as_nobody():
        error = refused(CALLS[call], leases)
    assert "permission denied" in error.message
    assert "writable for this user" in (error.hint or "")


def test_a_file_that_is_read_only_in_a_directory_that_is_not(read_only: Path) -> None:
    read_only.parent.chmod(0o777)
    leases = short(read_only)
    with as_nobody():
        assert isinstance(leases.try_acquire(KEY, "e"), Held)
        error = refused(lambda leases: leases.try_acquire("another", "e"), leases)
    assert "it is read-only" in error.message


def test_what_cannot_be_looked_at_is_said(read_only: Path) -> None:
    read_only.chmod(0)
    leases = short(read_only)
    with as_nobody():
        for call in CALLS.values():
            refused(call, leases)


# ------------------------------------------------------------------------------------------------------------- busy

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN " + sys.argv[2])
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
"""


@contextmanager
def locked(path: Path, how: str) -> Iterator[Callable[[], None]]:
    """Lock the database in another process; call what this yields to let it go."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"

        def let_go() -> None:
            holder.communicate("\n", timeout=HANG_SECONDS)

        try:
            yield let_go
        finally:
            holder.kill()


@pytest.mark.integration
@pytest.mark.parametrize("log", [True, False])
def test_a_writer_is_waited_for(path: Path, log: bool) -> None:
    leases_at(path).try_acquire("other", "e")
    if not log:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = delete")
    with locked(path, "IMMEDIATE") as let_go, ThreadPoolExecutor() as pool:
        error = refused(CALLS["acquire"], short(path))
        assert "another process kept it locked for more than 0.01 s" in error.message
        assert [info.key for info in short(path).list()] == ["other"], "looking waits for nobody"
        waiting = pool.submit(leases_at(path).try_acquire, KEY, "e")
        let_go()
        assert isinstance(waiting.result(HANG_SECONDS), Granted)


@pytest.mark.integration
def test_a_writer_that_is_killed_leaves_no_lock(path: Path) -> None:
    leases_at(path).try_acquire("other", "e")
    with locked(path, "EXCLUSIVE"):
        pass  # it is killed here
    assert isinstance(short(path).try_acquire(KEY, "e"), Granted)


# ------------------------------------------------------------------------------------- what the file system can not


def test_locks_work_here(tmp_path: Path) -> None:
    assert why_no_locks(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
@pytest.mark.parametrize("call", ["acquire", "begin"])
def test_without_locks_nothing_is_granted(path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str) -> None:
    leases_at(path, gone()).try_acquire("other", "e")

    def no_locks(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", no_locks)
    error = refused(CALLS[call], short(path))
    assert error.message.startswith("locks do not work in")
    assert os.strerror(number).lower() in error.message
    assert "local file system" in (error.hint or "")
    assert [info.key for info in short(path).list()] == ["other"]


def test_locks_that_lock_nobody_out_are_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: b"")
    assert "two processes can hold the same lock" in refused(CALLS["acquire"], short(path)).message
    assert not path.exists()


@pytest.mark.parametrize("name", ["SQLITE_IOERR_LOCK", "SQLITE_IOERR_SHMLOCK", "SQLITE_PROTOCOL"])
def test_locks_that_fail_later_are_said_to_fail(path: Path, name: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    assert "locks do not work" in explain(error, "write", path, 5).message


def test_a_mount_without_shared_memory_is_used_without_a_log(path: Path) -> None:
    """SQLite's own locks by files have none."""
    database = CoordinationDatabase(path, vfs="unix-dotfile")
    for _ in range(2):
        with database.writing(create=True) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    [notice] = database.notices
    assert "without a write-ahead log" in notice


LITTLE = """
import resource, sys
from pathlib import Path
from proctor.store.leases import Leases
from proctor.store.owner import this_owner
from proctor.runtime.clock import SystemClock
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
leases = Leases(Path(sys.argv[1]), this_owner(), SystemClock())
print(leases.try_acquire("k", "e"), *leases.notices)
print(leases.try_acquire("k", "e"))
"""


def test_a_log_that_fails_when_it_is_used_is_found_out_before(path: Path) -> None:
    """Files may not grow to the size of the memory that processes share."""
    ended = subprocess.run(
        [sys.executable, "-c", LITTLE, str(path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    first, second = ended.stdout.splitlines()
    assert first.startswith("Granted(")
    assert "without a write-ahead log" in first
    assert second.startswith("Held(")
    assert not log_works(path.parent / "nowhere")
    assert log_works(path.parent)
    assert isinstance(leases_at(path).try_acquire(KEY, "e"), Held), "elsewhere the same file is used with one"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("file_system", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_on_a_network_it_is_used_without_a_log_and_said(path: Path, file_system: str) -> None:
    leases_at(path).try_acquire("before", "e")  # made on a local file system, with a log, and moved
    database = CoordinationDatabase(path, file_system=file_system)
    with database.writing(create=True) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert connection.execute("SELECT key FROM lease").fetchone()[0] == "before"
    [notice] = database.notices
    assert file_system in notice


def test_the_file_system_is_found_by_its_device() -> None:
    mountinfo = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "31 22 0:45 / /mnt/a\\040b rw - nfs4 server:/x rw,vers=4.2\n"
        "no line\n"
    )
    assert type_of_device(mountinfo, os.makedev(254, 0)) == "ext4"
    assert type_of_device(mountinfo, os.makedev(0, 45)) == "nfs4"
    assert type_of_device(mountinfo, os.makedev(0, 46)) is None
    assert not any(map(is_network, ["ext4", "tmpfs", "overlay", "fuseblk", None]))
