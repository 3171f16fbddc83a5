"""What this machine offers: limits, space, credentials by name, optional packages."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from proctor import __version__
from proctor.model.project import PROJECT_FILE
from proctor.runtime.cgroup import CgroupRoots

LITTLE_SPACE_BYTES = 2 * 1024**3
"""Less free space than this is worth a warning."""

FEW_FILES = 1024
"""As many open files, or fewer, is worth a warning."""

KNOWN_VARIABLES = {
    "OPENAI_API_KEY": "models behind an endpoint (`openai/...`)",
    "ANTHROPIC_API_KEY": "models of Anthropic (`anthropic/...`)",
}
"""Variables that proctor itself reads a credential from, and for what."""

_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)")
_REQUIREMENT = re.compile(
    r"""(?P<package>[A-Za-z0-9._-]+)(?:\[(?P<of>[^]]*)\])?[^;]*;.*extra\s*==\s*['"](?P<extra>[^'"]+)"""
)
_FOR_DEVELOPERS = ("dev",)


def versions() -> dict[str, str]:
    """Return versions of proctor, Python and the system."""
    return {
        "proctor": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def cgroup_limits(roots: CgroupRoots) -> dict[str, Any]:
    """Return which limits control groups give here, and of which version; none where no group can be made."""
    limits = {name for name in ("cpu", "memory", "pids") if name in roots.controllers or getattr(roots, name, None)}
    unified = bool(roots.unified and roots.controllers & {"cpu", "memory", "pids"})
    return {"version": "v2" if unified else "v1" if limits else None, "limits": sorted(limits)}


def credentials(directory: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the variables that hold credentials, and where each is set: `environment`, `.env`, or None. Never values.

    They are those that proctor reads itself, and those that the project's `proctor.yaml` refers to.
    """
    wanted = dict(KNOWN_VARIABLES)
    for name in _REFERENCE.findall(_text(directory / PROJECT_FILE)):
        wanted.setdefault(name, PROJECT_FILE)
    in_file = _names_in(directory / ".env")
    return [
        {
            "variable": name,
            "used_by": used_by,
            "set_in": "environment" if environ.get(name) else ".env" if name in in_file else None,
        }
        for name, used_by in wanted.items()
    ]


def _text(path: Path) -> str:
    """Return the text of a file; none where it cannot be read, which is for other commands to complain of."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _names_in(path: Path) -> set[str]:
    """Return the variables that an `.env` gives a value."""
    if not path.is_file():
        return set()
    from io import StringIO  # noqa: PLC0415 - few projects have such a file

    from dotenv import dotenv_values  # noqa: PLC0415 - likewise

    return {name for name, value in dotenv_values(stream=StringIO(_text(path)), interpolate=False).items() if value}


def extras() -> list[dict[str, Any]]:
    """Return the optional packages: each extra with its packages, their versions where they are installed."""
    found: dict[str, dict[str, str | None]] = {}
    for line in requires("proctor") or ():
        match = _REQUIREMENT.match(line)
        if match and match["extra"] not in _FOR_DEVELOPERS:
            found.setdefault(match["extra"], {}).update(_wanted(match["package"], match["of"] or ""))
    return [
        {
            "extra": extra,
            "packages": packages,
            "installed": None not in packages.values(),
            "install": f'pip install "proctor[{extra}]"',
        }
        for extra, packages in sorted(found.items())
    ]


def _wanted(package: str, its_extras: str) -> dict[str, str | None]:
    """Return a package and what its own extras need, with their versions; what some machines need is left out."""
    wanted: dict[str, str | None] = {package: _installed(package)}
    names = {name.strip() for name in its_extras.split(",")}
    for line in (requires(package) or ()) if wanted[package] else ():
        match = _REQUIREMENT.match(line)
        if match and match["extra"] in names and line.count("==") == 1 and " and " not in line:
            wanted[match["package"]] = _installed(match["package"])
    return wanted


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def disk_space(places: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return the space where files go, in bytes; of a directory that is not there, that of the one above it."""
    found: list[dict[str, Any]] = []
    for use, place in places.items():
        there = place.absolute()
        while not there.exists() and there != there.parent:
            there = there.parent
        row: dict[str, Any] = {"use": use, "path": str(place), "free_bytes": None, "total_bytes": None}
        try:
            usage = shutil.disk_usage(there)
        except OSError as error:
            row["problem"] = (error.strerror or str(error)).lower()
        else:
            row |= {"free_bytes": usage.free, "total_bytes": usage.total}
            if not os.access(there, os.W_OK):
                row["problem"] = "it cannot be written to"
            elif usage.free < LITTLE_SPACE_BYTES:
                row["problem"] = "there is little space left"
        found.append(row)
    return found


def open_files() -> dict[str, Any]:
    """Return how many files this process may have open, and to what it may raise that (`most`); None is any number."""
    soft, hard = (
        None if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    few = hard is not None and hard <= FEW_FILES
    problem = f"many slots need more than {hard:,}: raise the hard limit with `ulimit -n`" if few else None
    return {"limit": soft, "most": hard, **({"problem": problem} if problem else {})}


__all__ = [
    "FEW_FILES", "KNOWN_VARIABLES", "LITTLE_SPACE_BYTES", "cgroup_limits", "credentials", "disk_space", "extras",
    "open_files", "versions",
]  # fmt: skip
