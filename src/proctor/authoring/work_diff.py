"""`t.diff`: how the work directory differs, after the last turn of the agent, from what it was before the first."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

from proctor.authoring.work_listing import CannotList, Listing, list_work
from proctor.plugins.api import MEBIBYTE, Sandbox

TEXT_BYTES = MEBIBYTE
"""Of one file whose lines are compared."""
TEXTS_BYTES = 32 * MEBIBYTE
TEXTS_AT_MOST = 5_000
"""Of all files that are read before the first turn, so that their lines can be compared."""
CHANGED_TEXTS_AT_MOST = 200
"""Changed files whose lines are compared."""


def _no_texts() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Diff:
    """What was added, changed and removed, as sorted lists of paths below the work directory.

    Files by their content, links by where they lead; directories, modes and what is below `.git` do not count.
    """

    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    texts: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    """By path: the changed lines, as a unified diff, where they are known."""

    @property
    def paths(self) -> list[str]:
        """All of them."""
        return sorted([*self.added, *self.changed, *self.removed])

    @property
    def patch(self) -> str:
        """The changed lines of all files, as a unified diff; where they are not known a line says so."""
        words = dict.fromkeys(self.added, "added") | dict.fromkeys(self.changed, "changed")
        words |= dict.fromkeys(self.removed, "removed")
        return "".join(self.texts.get(path) or f"{words[path]}: {path}\n" for path in self.paths)

    @property
    def text(self) -> str:
        """The same as `patch`."""
        return self.patch

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.changed or self.removed)


class DiffWatch:
    """Looks at the work directory before the first turn and after each, where the code of the task asks for it."""

    def __init__(self, sandbox: Sandbox | None, *, wanted: bool, with_texts: bool = True) -> None:
        self._sandbox = sandbox
        self._wanted = wanted and sandbox is not None
        self._asked = wanted
        self._with_texts = with_texts
        self._lock = asyncio.Lock()
        self._before: Listing | None = None
        self._texts: dict[str, str] = {}
        self._diff: Diff | None = None
        self._known: dict[str, tuple[str | None, str]] = {}
        """By path: the digest that a changed file had after the last turn, None where it was gone, and its lines."""
        self._trouble: str | None = None

    async def before_turn(self) -> None:
        """Note the state before the first turn."""
        if not self._wanted:
            return
        async with self._lock:  # the first turns of two sessions may begin together
            if self._before is None and self._trouble is None:
                await self._note()

    async def after_turn(self) -> None:
        """Compare with the state before the first turn."""
        if not self._wanted:
            return
        async with self._lock:
            if self._before is not None:
                await self._compare(self._before)

    def diff(self) -> Diff:
        """Return what differs; nothing before the first turn. Raises `RuntimeError` where that is not known."""
        if self._sandbox is None:
            raise RuntimeError("`t.diff` compares the work directory of a sandbox, and this task has none")
        if not self._asked:
            raise RuntimeError(
                "`t.diff` was not expected: the code of this task was searched for it in vain; write `@task(diff=True)`"
            )
        if self._trouble is not None:
            raise RuntimeError(f"`t.diff`: the work directory cannot be compared: {self._trouble}")
        return self._diff or Diff()

    async def _note(self) -> None:
        assert self._sandbox is not None
        try:
            before = await list_work(self._sandbox)
            if self._with_texts:
                self._texts = await _read_all(self._sandbox, before)
        except CannotList as error:
            self._trouble = str(error)
        else:
            self._before = before

    async def _compare(self, before: Listing) -> None:
        assert self._sandbox is not None
        try:
            after = await list_work(self._sandbox)
        except CannotList as error:
            self._trouble = str(error)
            return
        # What is below another directory that the agent put in its place is nothing that was made here.
        old = before.digests
        new: Mapping[str, str] = after.digests if after.place == before.place else {}
        added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
        changed = sorted(path for path in old.keys() & new.keys() if old[path] != new[path])
        texts: dict[str, str] = {}
        if self._with_texts:
            for path in sorted([*added, *changed, *removed])[:CHANGED_TEXTS_AT_MOST]:
                lines = await self._lines_since(path, old.get(path), new.get(path))
                if lines is not None:
                    texts[path] = lines
        self._known = {path: (new.get(path), lines) for path, lines in texts.items()}
        self._diff = Diff(added, changed, removed, texts)

    async def _lines_since(self, path: str, old: str | None, new: str | None) -> str | None:
        """Return the changed lines of one file; those of the turn before where it is as it was then."""
        known = self._known.get(path)
        if known is not None and known[0] == new and (new is None or _names_content(new)):
            return known[1]
        return await self._lines(path, old, new)

    async def _lines(self, path: str, old: str | None, new: str | None) -> str | None:
        """Return the changed lines of one file, None where they are not known."""
        assert self._sandbox is not None
        before = "" if old is None else self._texts.get(path)
        after: str | None = ""
        if new is not None:
            after = None if new.startswith("link to ") else await _read_one(self._sandbox, path, new)
        if before is None or after is None:
            return None
        return await asyncio.to_thread(_unified, path, before, after, is_new=old is None, is_gone=new is None)


def _unified(path: str, before: str, after: str, *, is_new: bool, is_gone: bool) -> str:
    lines = unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        "/dev/null" if is_new else f"a/{path}",
        "/dev/null" if is_gone else f"b/{path}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


async def _read_one(sandbox: Sandbox, path: str, digest: str) -> str | None:
    """Return the text of a file that is small enough, None for what is no text, or has changed meanwhile."""
    with tempfile.TemporaryDirectory(prefix="proctor-diff-") as folder:
        target = Path(folder, "file")
        try:
            left_out = await sandbox.download(path, target, max_bytes=TEXT_BYTES, max_files=1)
        except OSError:  # it is gone, or has become something else, or one of its directories has
            return None
        return None if left_out else await asyncio.to_thread(_text_of, target, digest)


async def _read_all(sandbox: Sandbox, listing: Listing) -> dict[str, str]:
    """Return the texts of the files of a work directory, as many as there is room for."""
    with tempfile.TemporaryDirectory(prefix="proctor-diff-") as folder:
        target = Path(folder, "work")
        try:
            await sandbox.download(sandbox.workdir, target, max_bytes=TEXTS_BYTES, max_files=TEXTS_AT_MOST)
        except OSError:
            return {}
        return await asyncio.to_thread(_texts_below, target, listing)


def _texts_below(folder: Path, listing: Listing) -> dict[str, str]:
    found: dict[str, str] = {}
    for path, digest in listing.digests.items():
        copy = folder / path
        if os.path.normpath(copy) == str(copy) and copy.is_file() and not copy.is_symlink():
            text = _text_of(copy, digest)
            if text is not None:
                found[path] = text
    return found


def _names_content(digest: str) -> bool:
    """Say whether a content is known to be the one of a digest: the sums of `cksum` are too short for that.

    A link, and a file that cannot be read, have no digest that any content has.
    """
    return " " not in digest


def _text_of(path: Path, digest: str) -> str | None:
    if not path.is_file() or path.stat().st_size > TEXT_BYTES:
        return None
    content = path.read_bytes()
    if _names_content(digest) and hashlib.sha256(content).hexdigest() != digest:
        return None  # it changed between the two commands
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


__all__ = ["Diff", "DiffWatch"]
