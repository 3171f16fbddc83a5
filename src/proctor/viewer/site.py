"""Writes the pages of the viewer as files: a site that opens without a server, and that can be put on any."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import cast

from proctor.errors import ProctorError, StoreError, UsageError
from proctor.viewer.attempt_page import attempt_page
from proctor.viewer.compare_page import compare_page
from proctor.viewer.inside import open_inside
from proctor.viewer.lanes_page import lanes_page
from proctor.viewer.page import Asked, NotFound, Page, render
from proctor.viewer.results import Results
from proctor.viewer.run_page import run_page
from proctor.viewer.runs_page import runs_page
from proctor.viewer.site_links import SiteMap, StaticLinks, Target
from proctor.viewer.words import LANGUAGES

MARK = ".proctor-site.json"
"""Lists the files of a site: a directory that holds no others is one that may be written anew."""
FORMAT = 1

MOST_ATTEMPTS = 2000
"""So many attempts get a page of their own where nothing else is said: a directory of more is slow to copy."""
FILE_BYTES = 16 * 1024 * 1024
"""A larger file of a run is not copied."""
ALL_FILES_BYTES = 1024 * 1024 * 1024
"""Once so much was copied, no more is."""
MARK_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Written:
    """What a site consists of, and what it was not given."""

    directory: Path
    pages: int = 0
    files: int = 0
    copied_bytes: int = 0
    attempts_left_out: int = 0
    unreadable: list[str] = field(default_factory=list[str])
    """Why pages show nothing, once for each such page."""
    broken: list[str] = field(default_factory=list[str])
    """The traces of bugs of ours that pages could not be made for."""
    files_left_out: int = 0


def write_site(
    results: Results, out: Path, *, language: str = LANGUAGES[0], most_attempts: int = MOST_ATTEMPTS
) -> Written:
    """Write the pages of `results` below `out`, which is replaced as a whole once all of them are there.

    Raises `UsageError` where `out` holds anything that is not of an earlier site, `StoreError` where it cannot be
    written; `out` is then as it was.
    """
    out = Path(os.path.abspath(out))
    _check_replaceable(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = out.parent / f".proctor-site-{secrets.token_hex(6)}"
        fresh.mkdir()
    except OSError as error:
        raise _failure(out, error) from error
    try:
        found = _Writing(results, fresh, language, most_attempts).all()
        _put(fresh, out)
    except OSError as error:
        raise _failure(out, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    found.directory = out
    return found


class _Writing:
    """A site on its way into a directory: writes what links lead to, until they lead to nothing new."""

    def __init__(self, results: Results, directory: Path, language: str, most_attempts: int) -> None:
        self._results = results
        self._directory = directory
        self._language = language
        self._map = SiteMap(most_attempts)
        self._written = Written(directory)

    def all(self) -> Written:
        names = [MARK]
        self._map.path(Target("runs"))
        while (target := self._map.next()) is not None:
            name = self._map.path(target)
            names.append(name)
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if target.kind == "asset":
                path.write_bytes(files("proctor.viewer").joinpath("static", target.name).read_bytes())
            elif target.kind == "file":
                self._copy(target, path)
            else:
                path.write_text(self._rendered(target, name), "utf-8", "backslashreplace")
                self._written.pages += 1
        (self._directory / MARK).write_text(json.dumps({"format": FORMAT, "files": sorted(names)}, indent=0))
        self._written.attempts_left_out = self._map.attempts_left_out
        return self._written

    def _rendered(self, target: Target, name: str) -> str:
        """Return a page as HTML; what cannot be shown is a page that says why."""
        asked = Asked(StaticLinks(self._map, name), self._language, dict(target.query), target.runs)
        try:
            return render(_PAGES[target.kind](self._results, asked, target), asked)
        except NotFound as error:
            page = Page("message.html", asked.say("not found"), {"message": error.said(asked)})
        except ProctorError as error:
            self._written.unreadable.append(error.message)
            page = Page("message.html", asked.say("this cannot be shown"), {"message": error.message})
        except Exception:  # a bug of ours is no reason to have no site: who writes it is told
            self._written.broken.append(f"{target.kind} {target.run} {target.name}\n{traceback.format_exc()}")
            message = asked.say("this is a bug of proctor: the command that wrote the pages says more")
            page = Page("message.html", asked.say("this cannot be shown"), {"message": message})
        return render(page, asked)

    def _copy(self, target: Target, path: Path) -> None:
        """Write a copy of a file of a run, or why there is none."""
        try:
            source = open_inside(self._results.layout(target.run).directory, target.name)
        except NotFound as error:
            path.write_text(f"{error.message}\n", "utf-8", "backslashreplace")
            return
        with os.fdopen(source, "rb") as file:
            size = os.fstat(source).st_size
            if size > min(FILE_BYTES, ALL_FILES_BYTES - self._written.copied_bytes):
                path.write_text(f"this file is not in the site: it has {size:,} bytes\n")
                self._written.files_left_out += 1
                return
            path.write_bytes(file.read(size))  # of a file that grows, what it was when it was looked at
        self._written.copied_bytes += size
        self._written.files += 1


def _left_out(asked: Asked) -> Page:
    message = asked.say("this attempt has no page in this site: `proctor show @ATTEMPT` prints it")
    return Page("message.html", asked.say("no page"), {"message": message})


_PAGES: Mapping[str, Callable[[Results, Asked, Target], Page]] = MappingProxyType(
    {
        "runs": lambda results, asked, _: runs_page(results, asked),
        "run": lambda results, asked, target: run_page(results, asked, target.run),
        "lanes": lambda results, asked, target: lanes_page(results, asked, target.run),
        "attempt": lambda results, asked, target: attempt_page(results, asked, target.run, target.name),
        "compare": lambda results, asked, _: compare_page(results, asked),
        "left_out": lambda _, asked, __: _left_out(asked),
    }
)


def _check_replaceable(out: Path) -> None:
    """Raise `UsageError` where something would be lost if `out` were replaced."""
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise UsageError(f"`{out}` is not a directory", hint="give --out another directory")
        if not out.exists():
            return
        own = _own(out)
        foreign = next((path for path in _entries(out) if path not in own), None)
    except OSError as error:
        raise _failure(out, error) from error
    if foreign is not None:
        raise UsageError(
            f"`{out}` holds `{foreign}`, which is not of a site that proctor wrote",
            hint="give --out an empty directory, or one that is not there yet",
        )


def _own(out: Path) -> frozenset[str]:
    """Return the files that a site says are its own."""
    try:
        if (out / MARK).is_symlink() or (out / MARK).stat().st_size > MARK_BYTES:
            return frozenset()
        data = json.loads((out / MARK).read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return frozenset()
    listed = cast("object", data.get("files")) if isinstance(data, dict) else None  # pyright: ignore[reportUnknownMemberType] - any JSON
    return frozenset(map(str, cast("list[object]", listed))) if isinstance(listed, list) else frozenset()


def _entries(out: Path) -> Iterator[str]:
    """Yield all below a directory that is not a directory itself; links are not followed."""
    for directory, inner, names in os.walk(out, onerror=_raise):
        links = [name for name in inner if os.path.islink(os.path.join(directory, name))]
        for name in [*names, *links]:
            yield Path(directory, name).relative_to(out).as_posix()


def _raise(error: OSError) -> None:
    raise error


def _put(fresh: Path, out: Path) -> None:
    """Put the new site where the old one, if any, was; that is kept until the new one is there."""
    if not out.exists():
        fresh.rename(out)
        return
    old = fresh.with_name(f"{fresh.name}-old")
    out.rename(old)
    try:
        fresh.rename(out)
    except OSError:
        old.rename(out)
        raise
    shutil.rmtree(old)


def _failure(out: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the site cannot be written to `{out}`: {error.strerror or error}", hint="give --out another directory"
    )
