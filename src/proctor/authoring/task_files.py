"""The files that a task puts into its sandbox, read when the task is found: their content is in its identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proctor.authoring.tasks import PythonTask
from proctor.errors import UsageError
from proctor.plugins.sandboxes import MEBIBYTE

FILES_BYTES = 256 * MEBIBYTE
"""Of all files of one task."""


def read_files(declared: PythonTask) -> dict[str, bytes]:
    """Return the files of a task by their paths in the sandbox; a directory comes with everything that is in it.

    Raises `UsageError`, with file and line of the task.
    """
    found: dict[str, bytes] = {}
    files: Any = declared.options.get("files", {})
    for target, content in files.items():
        if not isinstance(target, str) or not target.strip("/"):
            raise UsageError(f"{declared.place}: `files` has the path {target!r}", hint="name a path in the sandbox")
        if isinstance(content, Path):
            found |= _read(target, Path(declared.place.file).parent / content, declared)
        elif isinstance(content, str | bytes):
            found[target] = content.encode() if isinstance(content, str) else content
        else:
            kind = type(content).__name__
            raise UsageError(f"{declared.place}: file `{target}` is no text, bytes or Path but {kind}", hint="read it")
    if sum(map(len, found.values())) > FILES_BYTES:
        raise UsageError(
            f"{declared.place}: the files of the task have more than {FILES_BYTES:,} bytes in all",
            hint="put them into the image of its environment",
        )
    if found and not declared.options.get("sandbox", True):
        raise UsageError(f"{declared.place}: the task has files, and `sandbox=False`", hint="leave one of them out")
    return found


def paths_of(declared: PythonTask) -> list[Path]:
    """Return where the files of a task are on this machine, and where those are that are in a directory of them."""
    contents: Any = declared.options.get("files", {}).values()
    tops = [Path(declared.place.file).parent / content for content in contents if isinstance(content, Path)]
    return [path for top in tops for path in (top, *top.rglob("*"))]


def _read(target: str, path: Path, declared: PythonTask) -> dict[str, bytes]:
    try:
        if not path.is_dir():
            return {target: path.read_bytes()}
        inside = sorted(one for one in path.rglob("*") if one.is_file())
        return {f"{target.rstrip('/')}/{one.relative_to(path).as_posix()}": one.read_bytes() for one in inside}
    except OSError as error:
        raise UsageError(
            f"{declared.place}: file `{target}`: {path} cannot be read: {error.strerror}",
            hint="paths are from the directory of the file of the task",
        ) from None


__all__ = ["paths_of", "read_files"]
