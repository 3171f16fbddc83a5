"""Which invocations of a project are at work, in its coordination database: for whoever wants to show or clean up.

A row whose process has died on this host is removed when the next one registers. Nothing is held by a row: it is only
a note, unlike a lease.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path

from proctor.store._coordination_schema import OWNER_COLUMNS, owner_of_row
from proctor.store.coordination import BUSY_SECONDS, CoordinationDatabase
from proctor.store.leases import WallClock
from proctor.store.owner import Life, Living, Owner, life_of
from proctor.store.plain import escape_surrogates

_WHERE = " AND ".join(f"{name} = ?" for name in OWNER_COLUMNS)


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One invocation: its process, its id, its results directory, its moments in seconds after the epoch."""

    owner: Owner
    invocation: str
    directory: str
    started_at: float
    heartbeat_at: float
    life: Life


class ProcessRegistry:
    """The invocations of one project, as seen by the process `owner` (this one). All methods raise `StoreError`."""

    def __init__(self, path: Path, owner: Owner, clock: WallClock, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._owner = owner
        self._clock = clock
        self._database = CoordinationDatabase(path, busy_seconds=busy_seconds)

    def register(self, invocation: str, directory: Path) -> None:
        """Note that this process is at work on an invocation; forget those that died on this host."""
        now = self._clock.wall()
        row = (*astuple(self._owner), invocation, escape_surrogates(str(directory)), now, now)
        dead = [info.owner for info in self.list() if info.life.living is Living.DEAD]
        with self._database.writing(create=True) as connection:
            connection.executemany(f"DELETE FROM process WHERE {_WHERE}", [astuple(owner) for owner in dead])  # noqa: S608 - our names
            connection.execute(
                f"INSERT OR REPLACE INTO process ({', '.join(OWNER_COLUMNS)}, "  # noqa: S608 - our own names
                "invocation, directory, started_at, heartbeat_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def heartbeat(self) -> None:
        """Note that this process is still at work; harmless when it is not registered."""
        with self._database.writing() as connection:
            connection.execute(
                f"UPDATE process SET heartbeat_at = ? WHERE {_WHERE}",  # noqa: S608 - our own names
                (self._clock.wall(), *astuple(self._owner)),
            )

    def unregister(self) -> None:
        """Forget this process; harmless when it is not registered."""
        with self._database.writing() as connection:
            connection.execute(f"DELETE FROM process WHERE {_WHERE}", astuple(self._owner))  # noqa: S608 - our names

    def list(self) -> list[ProcessInfo]:
        """Return all invocations that are noted, oldest first, with whether their processes are alive."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM process ORDER BY started_at, host, pid").fetchall()
        owners = [owner_of_row(row) for row in rows]
        return [
            ProcessInfo(
                owner=owner,
                invocation=row["invocation"],
                directory=row["directory"],
                started_at=row["started_at"],
                heartbeat_at=row["heartbeat_at"],
                life=life_of(owner, self._owner),
            )
            for row, owner in zip(rows, owners, strict=True)
        ]
