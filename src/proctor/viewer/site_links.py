"""Where pages are in a static site: the file of each, whatever the ids are, and which are still to be written."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

SHOWN_AS_IT_IS = (".json", ".txt")
"""Files that a browser shows as text. Any other gets `.txt` after its name: what a sandbox wrote is never a page."""

_UNSAFE = re.compile(r"[^A-Za-z0-9]+")
_READABLE_CHARACTERS = 40
_DIGEST_CHARACTERS = 16

POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""What a page may load wherever it is opened; a browser does not take every file for `'self'` in one that is a file."""


class Target(NamedTuple):
    """What a link leads to: a page of some kind, a file of a run, or an asset."""

    kind: str
    run: str = ""
    name: str = ""
    query: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()


LEFT_OUT = Target("left_out")


class SiteMap:
    """All that links have led to. Each target has one file for good, and is handed out once to be written."""

    def __init__(self, most_attempts: int) -> None:
        self._most_attempts = most_attempts
        self._paths: dict[Target, str] = {}
        self._waiting: deque[Target] = deque()
        self._attempts = 0
        self._left_out: set[Target] = set()

    @property
    def attempts_left_out(self) -> int:
        """How many attempts were linked to and have no page of their own."""
        return len(self._left_out)

    def path(self, target: Target) -> str:
        """Return the file of a target, `/` between the parts. From now on it is one that has to be written."""
        if target.kind == "attempt" and target not in self._paths:
            if self._attempts >= self._most_attempts:
                self._left_out.add(target)
                target = LEFT_OUT
            else:
                self._attempts += 1
        if target not in self._paths:
            self._paths[target] = _path(target)
            self._waiting.append(target)
        return self._paths[target]

    def next(self) -> Target | None:
        """Return what is to be written next; None where all is."""
        return self._waiting.popleft() if self._waiting else None


class StaticLinks:
    """Addresses relative to the page at `here`, so that a site may lie, and be moved, anywhere."""

    static = True
    policy = POLICY

    def __init__(self, site: SiteMap, here: str) -> None:
        self._site = site
        self._start = posixpath.dirname(here)

    def runs(self, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the list of runs."""
        return self._to(Target("runs", query=_asked(query)))

    def run(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of a run."""
        return self._to(Target("run", run, query=_asked(query)))

    def lanes(self, run: str, query: Mapping[str, str] | None = None) -> str:
        """Return the address of the lanes of a run."""
        return self._to(Target("lanes", run, query=_asked(query)))

    def attempt(self, run: str, attempt: str) -> str:
        """Return the address of an attempt, or of what says that it has no page."""
        return self._to(Target("attempt", run, attempt))

    def compare(self, runs: list[str]) -> str:
        """Return the address of the comparison of runs."""
        return self._to(Target("compare", runs=tuple(runs)))

    def file(self, run: str, path: str) -> str:
        """Return the address of a copy of a file of a run."""
        return self._to(Target("file", run, path))

    def asset(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        return self._to(Target("asset", name=name))

    def _to(self, target: Target) -> str:
        # Names consist of letters, digits, `-`, `.` and `/` only: nothing in an address is to be quoted.
        return posixpath.relpath(self._site.path(target), self._start or ".")


def _asked(query: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return a query in one order and without what says nothing, so that no page is written under two names."""
    given = ((name, str(value)) for name, value in (query or {}).items())
    return tuple(sorted((name, value) for name, value in given if value and (name, value) != ("page", "1")))


def _path(target: Target) -> str:
    run = f"{_readable(target.run.rpartition('/')[2])}-{_digest(target.run)}"
    query = f"-{_digest(*(part for pair in target.query for part in pair))}" if target.query else ""
    names = {
        "runs": f"index{query}.html",
        "run": f"{run}/index{query}.html",
        "lanes": f"{run}/lanes{query}.html",
        "attempt": f"{run}/attempt-{_readable(target.name)}-{_digest(target.name)}.html",
        "compare": f"compare-{_digest(*target.runs)}.html",
        "file": f"{run}/files/{_file_name(target.name)}",
        "asset": f"static/{target.name}",
        "left_out": "no-page.html",
    }
    return names[target.kind]


def _file_name(path: str) -> str:
    stem, extension = posixpath.splitext(posixpath.basename(path))
    if extension in SHOWN_AS_IT_IS:
        return f"{_readable(stem)}-{_digest(path)}{extension}"
    return f"{_readable(posixpath.basename(path))}-{_digest(path)}.txt"


def _readable(text: str) -> str:
    """Return what a person recognises of a text; another text may give the same, so a digest goes with it."""
    return _UNSAFE.sub("-", text[: 4 * _READABLE_CHARACTERS]).strip("-")[:_READABLE_CHARACTERS].lower() or "x"


def _digest(*texts: str) -> str:
    joined = "\0".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
