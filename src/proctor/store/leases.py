"""Leases on shared outside state (spec 03 S1-S3), in the coordination database of the project.

At most one process holds a key. Nobody takes a lease over because time has passed or its owner is gone: what the owner
did outside may be half done. A lease ends in one of two ways:

    held ── release ──> free
        by its owner, after its teardown
    held ── begin_recovery ──> recovering ── finish_recovery ──> free, or ── abort_recovery ──> held
        by a person who made sure that the owner is gone, around a teardown that succeeds or fails

A recovery that was killed is recovered in the same way, with its own token.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from proctor.store._coordination_schema import (
    FAILED,
    find_lease,
    insert_lease,
    lease_of,
    recovery_columns,
    update_lease,
)
from proctor.store.coordination import BUSY_SECONDS, CoordinationDatabase
from proctor.store.lease_info import (
    Granted,
    Held,
    LeaseError,
    LeaseInfo,
    Recovery,
    Teardown,
    advice,
    checked_key,
    inspect_command,
)
from proctor.store.owner import Living, Owner, life_of
from proctor.store.plain import escape_surrogates


class WallClock(Protocol):
    """Tells what time it is."""

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...


def new_token() -> str:
    """Return a token that nobody has had before: 16 hexadecimal digits."""
    return secrets.token_hex(8)


class Leases:
    """The leases of one project, as seen by the process `owner` (this one).

    Each call is one short transaction and may come from any thread; it waits up to `busy_seconds` for other processes.
    All raise `StoreError` when the database cannot be used.
    """

    def __init__(self, path: Path, owner: Owner, clock: WallClock, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.owner = owner
        self._clock = clock
        self._database = CoordinationDatabase(path, busy_seconds=busy_seconds)

    @property
    def path(self) -> Path:
        """Where the database is."""
        return self._database.path

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about the database; complete after the first call that writes."""
        return tuple(self._database.notices)

    # ------------------------------------------------------------------------------------------------ the owner

    def try_acquire(
        self,
        key: str,
        experiment: str,
        *,
        run: str | None = None,
        teardown: Teardown | None = None,
        token: str | None = None,
    ) -> Granted | Held:
        """Take the lease if nobody has it, else say who has.

        `run` names the run for people; `teardown` is what a recovery has to run. With a `token` of its own
        (`new_token`), a caller that did not hear the answer asks again, and is granted what it has.
        Raises `UsageError` for a key that is none.
        """
        key = checked_key(key)
        token = token or new_token()
        now = self._clock.wall()
        with self._database.writing(create=True) as connection:
            before = find_lease(connection, key)
            if before is None:
                columns: dict[str, object] = {
                    "key": key,
                    "experiment": escape_surrogates(experiment),
                    "run": None if run is None else escape_surrogates(run),
                    "owner_token": token,
                    **asdict(self.owner),
                    "started_at": now,
                    "heartbeat_at": now,
                    "state": "held",
                    "teardown": teardown.path if teardown else None,
                    "teardown_timeout_seconds": teardown.timeout_seconds if teardown else None,
                }
                insert_lease(connection, columns)
        if before is None or (before.holder_token == token and not before.failed):
            return Granted(token)
        return Held(before, life_of(before.holder, self.owner))

    def heartbeat(self, tokens: Iterable[str]) -> frozenset[str]:
        """Note that the owner of these tokens is at work; return those that hold no lease any more.

        A lease is lost to a recovery, by somebody who was told that this process had ended. Nothing follows from an old
        heartbeat: it is there for people.
        """
        lost: set[str] = set()
        now = self._clock.wall()
        wanted = list(tokens)
        if not wanted:
            return frozenset()
        with self._database.writing() as connection:
            for token in wanted:
                done = connection.execute(
                    "UPDATE lease SET heartbeat_at = ? WHERE owner_token = ? AND recovery_token IS NULL", (now, token)
                )
                if done.rowcount == 0:
                    lost.add(token)
        return frozenset(lost)

    def release(self, key: str, token: str) -> None:
        """Give the lease back. Raises `LeaseError`, and changes nothing, where the token does not hold it.

        A lease with a failed teardown is not given back: the state outside is not what the next run expects.
        """
        key = checked_key(key)
        with self._database.writing() as connection:
            info = self._owned(connection, key, token, "release")
            if info.failed:
                raise LeaseError(
                    f"cannot release lease `{key}`: its teardown failed: {info.problem}",
                    hint=f"once this process has ended, `{inspect_command(info)}` says how to recover it",
                )
            connection.execute("DELETE FROM lease WHERE key = ?", (key,))

    def mark_failed_teardown(self, key: str, token: str, problem: str) -> None:
        """Note that the teardown failed: the lease stays held until somebody recovers it. Raises `LeaseError`."""
        key = checked_key(key)
        with self._database.writing() as connection:
            self._owned(connection, key, token, "mark")
            update_lease(connection, key, {"state": FAILED, "problem": escape_surrogates(problem)})

    def _owned(self, connection: sqlite3.Connection, key: str, token: str, action: str) -> LeaseInfo:
        info = find_lease(connection, key)
        if info is None:
            raise LeaseError(
                f"cannot {action} lease `{key}`: nobody holds it",
                hint="it was recovered, or the coordination database was moved away, while its owner was at work",
            )
        if info.owner_token != token or info.recovery is not None:
            doing = "recovered" if info.recovery else "held"
            raise LeaseError(
                f"cannot {action} lease `{key}` with token `{token}`: it is being {doing} by {info.holder}",
                hint=f"`{inspect_command(info)}` shows it",
            )
        return info

    # ------------------------------------------------------------------------------------------------ everybody

    def list(self) -> list[LeaseInfo]:
        """Return all leases, ordered by key."""
        with self._database.reading() as connection:
            return [lease_of(row) for row in connection.execute("SELECT * FROM lease ORDER BY key")]

    def inspect(self, key: str) -> LeaseInfo | None:
        """Return what is known of a lease, or None when nobody holds it."""
        with self._database.reading() as connection:
            return find_lease(connection, checked_key(key))

    def held(self, info: LeaseInfo) -> Held:
        """Return the lease with whether its holder is alive, as far as this process can know."""
        return Held(info, life_of(info.holder, self.owner))

    # ----------------------------------------------------------------------------------------------- recovering

    def begin_recovery(self, key: str, token: str) -> LeaseInfo:
        """Take the lease of a holder that is gone, to run its teardown; of two who try, one gets it.

        `token` is that of the holder. Ask a person first whether the holder and all it started has ended: that is not
        checked beyond this host. Returns the lease with the recovery that is now under way. Raises `LeaseError`, and
        changes nothing, for another token and for an owner that is alive on this host.
        """
        key = checked_key(key)
        recovery = Recovery(new_token(), self.owner, self._clock.wall())
        with self._database.writing() as connection:
            info = find_lease(connection, key)
            if info is None:
                raise LeaseError(f"nobody holds lease `{key}`", hint="`proctor lease list` lists those that are held")
            if info.holder_token != token:
                stale = " any more: it is being recovered" if info.owner_token == token else ""
                raise LeaseError(
                    f"token `{token}` does not hold lease `{key}`{stale}",
                    hint=f"`{inspect_command(info)}` shows who holds it now; nothing was changed",
                )
            for process in {info.holder, info.owner}:
                life = life_of(process, self.owner)
                if life.living is Living.ALIVE:
                    raise LeaseError(
                        f"cannot recover lease `{key}`: its holder is alive: {life.why}", hint=advice(info, life)
                    )
            update_lease(connection, key, recovery_columns(recovery))
        return replace(info, recovery=recovery)

    def finish_recovery(self, key: str, recovery_token: str) -> None:
        """Free the lease after its teardown. Raises `LeaseError` where the recovery does not have it any more."""
        with self._database.writing() as connection:
            self._recovered(connection, checked_key(key), recovery_token)
            connection.execute("DELETE FROM lease WHERE recovery_token = ?", (recovery_token,))

    def abort_recovery(self, key: str, recovery_token: str) -> None:
        """Give the lease back to the owner that it had, with the token that it had. Raises `LeaseError`."""
        key = checked_key(key)
        with self._database.writing() as connection:
            self._recovered(connection, key, recovery_token)
            update_lease(connection, key, recovery_columns(None))

    def _recovered(self, connection: sqlite3.Connection, key: str, recovery_token: str) -> None:
        info = find_lease(connection, key)
        if info is None or info.recovery is None or info.recovery.token != recovery_token:
            raise LeaseError(
                f"recovery `{recovery_token}` does not have lease `{key}` any more",
                hint="somebody recovered it meanwhile; `proctor lease list` shows what is held",
            )
