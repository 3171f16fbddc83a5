"""Teardowns that are owed: noted before a setup begins, crossed out when the teardown has run (spec 03 S6).

What a killed run leaves here, the next run of the same experiment runs first. With shared state it is the lease that
remembers, and only a recovery runs the teardown.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path

from proctor.store._coordination_schema import OWNER_COLUMNS, owner_of_row
from proctor.store.coordination import CoordinationDatabase
from proctor.store.lease_info import Teardown
from proctor.store.leases import WallClock, new_token
from proctor.store.owner import Living, Owner, life_of
from proctor.store.plain import escape_surrogates


@dataclass(frozen=True, slots=True)
class Owed:
    """A teardown that somebody who is gone has not run."""

    token: str
    teardown: Teardown
    owner: Owner


class OwedTeardowns:
    """What is owed in one project, as seen by the process `owner` (this one). All methods raise `StoreError`."""

    def __init__(self, path: Path, owner: Owner, clock: WallClock) -> None:
        self._owner = owner
        self._clock = clock
        self._database = CoordinationDatabase(path)

    def note(self, experiment: str, teardown: Teardown) -> str:
        """Note that this process owes a teardown; return the token to cross it out with."""
        token = new_token()
        row = (token, escape_surrogates(experiment), teardown.path, teardown.timeout_seconds, self._clock.wall())
        with self._database.writing(create=True) as connection:
            connection.execute(
                "INSERT INTO teardown (token, experiment, path, timeout_seconds, started_at, "  # noqa: S608 - our own names
                f"{', '.join(OWNER_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, *astuple(self._owner)),
            )
        return token

    def cross_out(self, token: str) -> None:
        """Note that a teardown has run; harmless where it is not noted."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM teardown WHERE token = ?", (token,))

    def take_missed(self, experiment: str) -> list[Owed]:
        """Take over the teardowns of an experiment whose owners are dead, oldest first: this process owes them now.

        Of two that ask at once, one gets each. An owner on another host, or one that cannot be seen, is not dead.
        """
        taken: list[Owed] = []
        with self._database.writing() as connection:
            query = "SELECT * FROM teardown WHERE experiment = ? ORDER BY started_at, token"
            for row in connection.execute(query, (escape_surrogates(experiment),)).fetchall():
                owner = owner_of_row(row)
                if life_of(owner, self._owner).living is Living.DEAD:
                    taken.append(Owed(row["token"], Teardown(row["path"], row["timeout_seconds"]), owner))
            changes = ", ".join(f"{name} = ?" for name in OWNER_COLUMNS)
            for owed in taken:
                statement = f"UPDATE teardown SET {changes} WHERE token = ?"  # noqa: S608 - our own names
                connection.execute(statement, (*astuple(self._owner), owed.token))
        return taken
