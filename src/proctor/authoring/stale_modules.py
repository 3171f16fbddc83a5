"""Modules of a project that are out of date in this process: a notebook edits a file, and runs again."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from proctor.authoring.one_module import PREFIX
from proctor.authoring.places import is_own_file
from proctor.authoring.project_files import forget, known_projects

_AT_START = frozenset(sys.path)

_Version = tuple[int, int]
_known: dict[Path, dict[str, tuple[Path, _Version]]] = {}
"""By project: the modules that its files brought in, each with its file, and the time of change and size of that."""


def drop_stale_modules(project: Path, changed: Collection[Path] = ()) -> bool:
    """Forget all modules that the files of a project brought in, if the file of one of them has changed since.

    What still uses them keeps them; who imports them next gets them as they are now. So it is with what other projects
    brought in: two may each have a module of the same name. `changed` are further files that are known to have changed:
    a function may have imported them while it ran. Returns whether anything was forgotten.
    """
    others = known_projects() - {project}
    below = tuple(f"{other}/" for other in others)
    if others:
        sys.path[:] = [path for path in sys.path if path in _AT_START or Path(path) not in others]
        _drop(name for name, place in _places() if place.startswith(below) and _is_of_others(name, place, project))
    known = _known.get(project, {})
    late = [name for name, place in _places() if changed and Path(place) in changed]
    stale = bool(late) or any(version_of(path) != version for path, version in known.values())
    if stale:
        _drop([*known, *late])
        forget(project)
        known.clear()
    if sys.path[:1] != [str(project)]:
        sys.path[:] = [str(project), *(path for path in sys.path if path != str(project))]
    return stale


def _drop(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def note_modules(project: Path, before: frozenset[str]) -> None:
    """Note which modules of a project are there that were not there `before` its files were imported."""
    known = _known.setdefault(project, {})
    for name, place in _places():
        if name not in before and name not in known and is_own_file(place, project):
            known[name] = (Path(place), version_of(Path(place)))


def _places() -> Iterator[tuple[str, str]]:
    """Yield the names of modules with their files, of packages without a file with their folders."""
    for name, module in list(sys.modules.items()):
        place: Any = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
        if isinstance(place, str):
            yield name, place


def _is_of_others(name: str, place: str, project: Path) -> bool:
    return not name.startswith(PREFIX) and "site-packages" not in place and not is_own_file(place, project)


def version_of(path: Path) -> _Version:
    """Return the time of change and the size of a file; of a folder, whose files count by themselves, nothing."""
    try:
        state = path.stat()
    except OSError:
        return (0, 0)
    return (0, 0) if S_ISDIR(state.st_mode) else (state.st_mtime_ns, state.st_size)


__all__ = ["drop_stale_modules", "note_modules", "version_of"]
