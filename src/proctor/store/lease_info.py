"""What is known of a lease, how it is said, and how long a waiter waits.

A lease is mutual exclusion between runs that share outside state, and nothing else (spec 03 S5).
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from proctor.errors import StoreError, UsageError
from proctor.store.owner import Life, Living, Owner

KEY_LENGTH_MAX = 200
TEARDOWN_SECONDS = 30.0
"""How long a teardown may take that declares nothing."""

POLL_SECONDS_MIN = 0.1
POLL_SECONDS_MAX = 2.0
WAIT_SECONDS = 600.0
"""How long a run without a terminal waits for a lease, unless it is told."""

_NAMES = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_DOTTED = re.compile(f"{_NAMES}:{_NAMES}")
_IN_FILE = re.compile(rf"(?P<file>[^/\0-\x1f:][^\0-\x1f:]*\.py):{_NAMES}")
"""A function of a file of the project."""


def names_function(path: str) -> bool:
    """Say whether a path is of the form `package.module:function`, or `path/to/file.py:function` inside a project."""
    if (in_file := _IN_FILE.fullmatch(path)) is not None:
        return ".." not in in_file["file"].split("/")
    return _DOTTED.fullmatch(path) is not None


FUNCTION_FORMS = "`package.module:function` or `path/to/file.py:function`"


class LeaseError(StoreError):
    """A lease is not what the caller takes it for; nothing was changed."""


class LeaseState(StrEnum):
    """What a lease is held for."""

    HELD = "held"
    TEARDOWN_FAILED = "teardown failed"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Teardown:
    """The compensating teardown of an experiment, as a path that `names_function`, and how long it may take."""

    path: str
    timeout_seconds: float = TEARDOWN_SECONDS

    def __post_init__(self) -> None:
        if not names_function(self.path):
            raise UsageError(
                f"teardown `{self.path}` is not of the form {FUNCTION_FORMS}",
                hint="name a function that can be imported from the directory of the project, or one of a file in it",
            )
        if not 0 < self.timeout_seconds < float("inf"):
            raise UsageError(
                f"limit {self.timeout_seconds!r} of teardown `{self.path}` is not a finite number of seconds above 0",
                hint="a teardown without an end would hold the lease for ever",
            )


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery under way: who does it, and since when (seconds after the epoch)."""

    token: str
    owner: Owner
    started_at: float


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """A lease as it stands; moments in seconds after the epoch. `problem` says why a teardown failed."""

    key: str
    experiment: str
    run: str | None
    owner_token: str
    owner: Owner
    started_at: float
    heartbeat_at: float
    failed: bool
    problem: str | None
    teardown: Teardown | None
    recovery: Recovery | None

    @property
    def state(self) -> LeaseState:
        """What it is held for."""
        if self.recovery is not None:
            return LeaseState.RECOVERING
        return LeaseState.TEARDOWN_FAILED if self.failed else LeaseState.HELD

    @property
    def holder(self) -> Owner:
        """The process that holds it: the owner, or whoever recovers it."""
        return self.recovery.owner if self.recovery else self.owner

    @property
    def holder_token(self) -> str:
        """The token of the holder: who recovers the lease must name it."""
        return self.recovery.token if self.recovery else self.owner_token


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease is taken; `token` is what it is released with."""

    token: str


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody has the lease: what is known of it, and whether its holder is alive."""

    info: LeaseInfo
    life: Life


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """How a waiter polls; `limit_seconds` None waits without end."""

    limit_seconds: float | None

    @classmethod
    def default(cls, *, on_terminal: bool) -> LeaseWait:
        """Return how long a run waits that was not told: without end where a person watches, else 600 s."""
        return cls(None if on_terminal else WAIT_SECONDS)

    def next_poll(self, waited_seconds: float, draw: float) -> float | None:
        """Return after how many seconds to ask again, or None when the limit is over.

        `draw` is random, from 0 to 1: it keeps waiters from asking all at once. A poll falls on the limit itself.
        """
        if self.limit_seconds is not None and waited_seconds >= self.limit_seconds:
            return None
        pace = min(POLL_SECONDS_MAX, max(POLL_SECONDS_MIN, waited_seconds / 8))
        delay = pace * (0.5 + draw / 2)
        return delay if self.limit_seconds is None else min(delay, self.limit_seconds - waited_seconds)


def checked_key(key: str) -> str:
    """Return a key in the form in which it is compared (NFC).

    Raises `UsageError` for one that cannot be told from another when it is read: empty, with control characters or
    line breaks, with blanks at its ends, starting like an option, or longer than 200 characters.
    """
    key = unicodedata.normalize("NFC", key)
    bad = not key or not key.isprintable() or key != key.strip() or key.startswith("-")
    if bad or len(key) > KEY_LENGTH_MAX:
        shown = key if len(key) <= KEY_LENGTH_MAX else key[:KEY_LENGTH_MAX] + "..."
        raise UsageError(
            f"{shown!a} cannot be the key of shared state",
            hint=f"use 1 to {KEY_LENGTH_MAX} printable characters, without blanks at the ends or `-` at the start, "
            "such as `team/cohort-a`",
        )
    return key


def inspect_command(info: LeaseInfo) -> str:
    """Return the command that shows a lease."""
    return f"proctor lease inspect {shlex.quote(info.key)}"


def recover_command(info: LeaseInfo) -> str:
    """Return the command that recovers a lease."""
    return (
        f"proctor lease recover {shlex.quote(info.key)} --owner-token {info.holder_token} "
        "--confirm-owner-terminated --confirm-remote-quiesced"
    )


def advice(info: LeaseInfo, life: Life) -> str:
    """Return what to do about a lease that somebody wants: an action, never to take it over unasked."""
    if life.living is Living.ALIVE:
        failed = (
            "; its teardown failed, so it then has to be recovered" if info.state is LeaseState.TEARDOWN_FAILED else ""
        )
        return f"wait for {info.holder}, or end it{failed}"
    make_sure = (
        "make sure that it and everything it started has ended"
        if life.living is Living.UNKNOWN
        else ("make sure that everything it started, also elsewhere, has ended")
    )
    return f"{make_sure} and that nothing works on the shared state any more, then run `{recover_command(info)}`"
