"""Reads one attempt out of the journal of its run: its own lines are found by its id, all others are passed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proctor.errors import JournalDamaged, StoreError
from proctor.model.attempt import Grade, Usage
from proctor.model.events import (
    ImageWaitStarted,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    SavedFile,
    SlotFilled,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.ids import ID_ALPHABET, ID_LENGTH
from proctor.report.attempt import AttemptStory, TryStory
from proctor.report.cost_words import together
from proctor.report.lanes import TrySpans
from proctor.store.codec import NewerFormat, decode
from proctor.viewer.page import NotFound

CHUNK_BYTES = 8 * 1024 * 1024
LONGEST_LINE_BYTES = 64 * 1024 * 1024
"""A longer line of a journal is none that proctor wrote."""
LINES_READ = 100_000
"""Of one attempt; hundreds of tries have fewer."""


@dataclass(slots=True)
class SeenSandbox:
    """A sandbox of a try; `state` is `open`, `gone` or `kept`, as far as the journal says."""

    sandbox: str
    purpose: str
    state: str = "open"


@dataclass(slots=True)
class TryRead:
    """One try with all that the journal says of it."""

    story: TryStory
    spans: TrySpans
    sandboxes: dict[str, SeenSandbox] = field(default_factory=dict[str, SeenSandbox])
    image: str | None = None
    """The image that it waited for, if it did."""
    answer_sha256: str | None = None
    files: dict[str, SavedFile] = field(default_factory=dict[str, SavedFile])
    """The files whose digest the journal knows, by their names below the directory of the try."""


@dataclass(slots=True)
class AttemptRead:
    """An attempt as its journal has it. `filled` is there instead of tries where another run made it."""

    story: AttemptStory
    tries: list[TryRead] = field(default_factory=list[TryRead])
    grade: Grade | None = None
    filled: SlotFilled | None = None
    last_at: float | None = None
    """The moment of the newest event, of this attempt or not: until then, what has not ended went on."""
    damaged: bool = False

    @property
    def usage(self) -> Usage:
        """Of all tries, grading included."""
        return together(each.story.all_usage for each in self.tries)


def read_attempt(journal: Path, attempt: str) -> AttemptRead:
    """Return an attempt. Raises `NotFound` where the journal has none of that id, `StoreError` where it fails."""
    missing = NotFound(f"there is no attempt `@{attempt:.40}` in this run, or not any more")
    if len(attempt) != ID_LENGTH or set(attempt) - set(ID_ALPHABET):
        raise missing
    found = AttemptRead(AttemptStory(attempt))
    needle = f'"attempt":"{attempt}"'.encode()
    last = b""
    try:
        for count, (line, is_own) in enumerate(_lines(journal, needle)):
            if not is_own:
                last = line
            elif count <= LINES_READ:
                _take(found, line)
    except OSError as error:
        raise StoreError(f"journal `{journal}` cannot be read: {error.strerror}", hint="is it still there?") from error
    if not found.tries and found.filled is None and found.story.verdict is None:
        raise missing
    try:
        found.last_at = decode(last)[1]
    except (JournalDamaged, NewerFormat):
        found.damaged = True
    return found


def _lines(journal: Path, needle: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield each line that has the needle, then, as not its own, the last whole line of all."""
    rest, last = b"", b""
    with journal.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            data = rest + chunk
            end = data.rfind(b"\n") + 1
            place = data.find(needle, 0, end)
            while place >= 0:
                stop = data.find(b"\n", place) + 1
                yield data[data.rfind(b"\n", 0, place) + 1 : stop], True
                place = data.find(needle, stop, end)
            if end:
                last = data[data.rfind(b"\n", 0, end - 1) + 1 : end]
            rest = data[end:] if len(data) - end <= LONGEST_LINE_BYTES else b""
    yield last, False


def _take(found: AttemptRead, line: bytes) -> None:
    try:
        event, at = decode(line)
    except (JournalDamaged, NewerFormat):
        found.damaged = True
        return
    if getattr(event, "attempt", None) != found.story.attempt:
        return
    if isinstance(event, SlotFilled):
        found.filled = event
        return
    found.story.add(event, at)
    if isinstance(event, TryStarted):
        found.tries.append(TryRead(found.story.tries[-1], TrySpans(at)))
        return
    if not found.tries:
        return
    last = found.tries[-1]
    last.spans.add(event, at)
    match event:
        case SandboxOpened(_, _, sandbox, purpose):
            last.sandboxes[sandbox] = SeenSandbox(sandbox, purpose.value)
        case SandboxDisposed(_, sandbox):
            _set_state(found, sandbox, "gone")
        case SandboxKept(_, _, sandbox):
            _set_state(found, sandbox, "kept")
        case ImageWaitStarted(_, image):
            last.image = image
        case WorkCheckpointed(_, _, digest, _, files):
            last.answer_sha256 = digest
            last.files = {file.name: file for file in files}
        case TryEnded(_, _, result):
            found.grade = result.grade
        case _:
            pass


def _set_state(found: AttemptRead, sandbox: str, state: str) -> None:
    for each in reversed(found.tries):  # a sandbox that is slow to go may go while the next try runs
        if sandbox in each.sandboxes:
            each.sandboxes[sandbox].state = state
            return
