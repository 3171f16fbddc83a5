"""Where a project is: in the directory of the nearest `proctor.yaml` upward."""

from __future__ import annotations

from os.path import isfile
from pathlib import Path

PROJECT_FILE = "proctor.yaml"


def project_above(start: Path) -> Path | None:
    """Return the directory with `proctor.yaml` nearest upward from `start`, or None where there is none."""
    # `is_file` of a path raises where the directory may not be looked into.
    return next((folder for folder in (start, *start.parents) if isfile(folder / PROJECT_FILE)), None)


def project_directory(start: Path) -> Path:
    """Return the directory with `proctor.yaml` nearest upward from `start`, else `start` itself; links are followed."""
    start = start.resolve()
    return project_above(start) or start


__all__ = ["PROJECT_FILE", "project_above", "project_directory"]
