"""`progress.json`: how a run stands, for whoever looks from outside while it goes on; replaced about once a second.

It is a copy of what the displays of the run show, never the truth about it: that is the journal. A reader takes it as
it was at `written_at`, and works out ages from the moments in it. All moments are seconds since the epoch (UTC).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from proctor.errors import StoreError
from proctor.store.files import SYSTEM_FILES, Files, fsync_all, store_error, write_all
from proctor.store.owner import Owner

FORMAT = 1

BYTES_AT_MOST = 64 * 1024 * 1024
"""A larger file is none of ours."""


class Flight(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One attempt in flight.

    `phase_at` is when its phase began, `output_at` its last sign of life: output, a log line, a call. `limit` is the
    one that ends the phase first if nothing changes, by the name of its setting, and `ends_at` when; where the try
    waits, nothing of it runs off, and `left_seconds` are what is left of it instead.
    """

    attempt: str
    task: str
    ordinal: int
    try_number: int
    state: str
    """running, backing off, waiting for image, waiting for grading, or between tries."""
    started_at: float
    phase: str | None = None
    phase_at: float | None = None
    output_at: float | None = None
    limit: str | None = None
    limit_seconds: float | None = None
    ends_at: float | None = None
    left_seconds: float | None = None
    backing_off: str | None = None
    """The code of what it waits for, inside a try or between two."""
    waits_until: float | None = None
    """When that wait is over, as far as it is known."""


class Left(msgspec.Struct, frozen=True):
    """The estimate: seconds from `written_at` to the end of the invocation, and what it costs in all."""

    seconds_left: float | None = None
    seconds_total: float | None = None
    cost_usd: float | None = None
    cost_spread_usd: float | None = None
    cost_at_least_usd: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """How one run stands. `counts` are those of summary.json; they add up to their `total`."""

    format: int
    proctor: str
    invocation: str
    run: str
    experiment: str
    owner: Owner | None
    """The process that writes it; None where it cannot be told from others."""
    started_at: float
    written_at: float
    every_seconds: float
    """The next one is written so long after this one, or a little later."""
    ended: bool
    """Whether this is the last one."""
    completion: str | None
    counts: dict[str, Any]
    backing_off: int
    waiting_for_grading: int
    between_tries: int
    cost_usd: float | None
    """So far, of attempts whose try has ended; None where a price is not known."""
    cost_at_least_usd: float = 0.0
    """All of it, or the part of it that is known."""
    unpriced_calls: int = 0
    """How many calls have a cost of which not all is known."""
    estimate: Left | None = None
    waiting: dict[str, int] | None = None
    """How many queued attempts wait for what; None where that is not known."""
    time_limit_at: float | None = None
    """When the limit of the whole invocation ends it."""
    in_flight: list[Flight] = []


_ENCODER = msgspec.json.Encoder()


class ProgressFile:
    """Writes the progress of one run; to be used by one thread at a time."""

    def __init__(self, path: Path, *, files: Files = SYSTEM_FILES) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._files = files

    def write(self, data: bytes) -> None:
        """Put the file in its place: written, synced, renamed. Raises `StoreError`; the old one stays then.

        Unlike elsewhere the new name is not synced: after a power cut an older one is as good.
        """
        files = self._files
        try:
            descriptor = files.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                _, failed = write_all(files, descriptor, data)
                if failed is not None:
                    raise failed
                fsync_all(files, descriptor)
            finally:
                files.close(descriptor)
            files.replace(self._temporary, self.path)
        except OSError as error:
            with suppress(OSError):  # the error above is what counts
                files.unlink(self._temporary)
            raise store_error("write", self.path, error) from error


def encode_progress(progress: Progress) -> bytes:
    """Return the content of the file."""
    return _ENCODER.encode(progress) + b"\n"


def read_progress(path: Path) -> Progress | None:
    """Return the progress in a file; None where there is none. Raises `StoreError` for what is no progress."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe there must not hold anybody
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error("read", path, error) from error
    with open(descriptor, "rb") as file:
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > BYTES_AT_MOST:
                raise StoreError(f"`{path}` is not a file that proctor wrote", hint=_HINT)
            data = file.read(BYTES_AT_MOST)
        except OSError as error:
            raise store_error("read", path, error) from error
    return decode_progress(data, path)


def decode_progress(data: bytes, path: Path) -> Progress:
    """Return what the content of a file says. Raises `StoreError`."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).format
        if version > FORMAT:
            raise StoreError(
                f"`{path}` has format {version}, and this proctor knows {FORMAT}",
                hint="look at it with the proctor that runs it, or a newer one",
            )
        return msgspec.json.decode(data, type=Progress)
    except (msgspec.DecodeError, RecursionError) as error:
        raise StoreError(f"`{path}` is damaged: {error}", hint=_HINT) from error


class _Versioned(msgspec.Struct):
    format: int


_HINT = "`proctor show` on the directory of the run reads its journal, which is the truth about it"
