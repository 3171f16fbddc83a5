"""Reads one attempt out of the journal of its run: its own lines are found by its id, all others are passed over."""

from __future__ import annotations

import re
from array import array
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
from proctor.viewer.journal_lines import LONGEST_LINE_BYTES, JournalLines
from proctor.viewer.page import NotFound

_ATTEMPT = re.compile(f'"attempt":"([{ID_ALPHABET}]{{{ID_LENGTH}}})"'.encode())

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


class AttemptLines(JournalLines):
    """Where the lines of every attempt are: for whoever reads many attempts of a journal, which then is read once."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal)
        self._places: dict[bytes, array[int]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._places)

    def follow(self) -> None:
        """Read on to the end of the journal. Raises `OSError`."""
        for place, piece, end in self.pieces():
            for found in _ATTEMPT.finditer(piece, 0, end):
                begin = place + piece.rfind(b"\n", 0, found.start())
                places = self._places.setdefault(found[1], array("q"))
                if not places or places[-1] != begin:
                    places.append(begin)
            self._last = place + piece.rfind(b"\n", 0, end)

    def lines(self, attempt: str) -> Iterator[tuple[bytes, bool]]:
        """Yield each line that names an attempt, then, as not its own, the last whole line of all. Raises `OSError`."""
        with self.journal.open("rb") as file:
            for places, is_own in ((self._places.get(attempt.encode(), ()), True), ((self._last,), False)):
                for place in places:
                    file.seek(place)
                    yield file.readline(LONGEST_LINE_BYTES), is_own


def read_attempt(journal: Path, attempt: str, known: AttemptLines | None = None) -> AttemptRead:
    """Return an attempt; `known` is where its lines are, which are looked for otherwise.

    Raises `NotFound` where the journal has none of that id, `StoreError` where it fails.
    """
    missing = NotFound("there is no attempt `@{attempt}` in this run, or not any more", attempt=attempt[:40])
    if len(attempt) != ID_LENGTH or set(attempt) - set(ID_ALPHABET):
        raise missing
    found = AttemptRead(AttemptStory(attempt))
    last = b""
    try:
        for count, (line, is_own) in enumerate(known.lines(attempt) if known else _lines(journal, attempt)):
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


def _lines(journal: Path, attempt: str) -> Iterator[tuple[bytes, bool]]:
    """Yield each line that names an attempt, then, as not its own, the last whole line of all."""
    needle, last = f'"attempt":"{attempt}"'.encode(), b""
    for _, piece, end in JournalLines(journal).pieces():
        place = piece.find(needle, 0, end)
        while place >= 0:
            stop = piece.find(b"\n", place) + 1
            yield piece[piece.rfind(b"\n", 0, place) + 1 : stop], True
            place = piece.find(needle, stop, end)
        last = piece[piece.rfind(b"\n", 0, end) + 1 : end + 1]
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
