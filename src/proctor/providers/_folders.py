"""The folders of sandboxes that are directories of this machine: made, labelled, listed and removed.

    <temporary folder>/proctor-<uid>/<sandbox>/
        labels.json    what the sandbox was made for

All of it belongs to one user of the machine, and nobody else can change it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from proctor.errors import Fault, describe
from proctor.providers import _files

ID_BYTES = 6
LABELS = "labels.json"


class Folders:
    """The folders of one provider below `base`, by default among the temporary files; their names begin with it."""

    def __init__(self, provider: str, base: Path | None = None) -> None:
        self.base = os.path.realpath(base or os.path.join(tempfile.gettempdir(), f"proctor-{os.getuid()}"))
        self._provider = provider
        self._id = re.compile(f"{provider}-[0-9a-f]{{{2 * ID_BYTES}}}")
        self._base_is_fine = False

    def make(self, labels: Mapping[str, str]) -> str:
        """Make the folder of a new sandbox and return it. Raises `OSError`, or `Fault` for a base that is not safe."""
        if not self._base_is_fine:
            _make_base(self.base)
            self._base_is_fine = True
        folder = f"{self.base}/{self._provider}-{os.urandom(ID_BYTES).hex()}"
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:  # another process found the base empty, and removed it
            _make_base(self.base)
            os.mkdir(folder, 0o700)
        try:
            Path(folder, LABELS).write_text(json.dumps(dict(labels)))  # no part of it can be read as a whole
        except OSError:
            _files.remove_tree(folder)
            raise
        return folder

    def of(self, sandbox: str) -> str:
        """Return the folder of a sandbox by its id; raises `ValueError` for what is no id."""
        if not self._id.fullmatch(sandbox):
            raise ValueError(f"{sandbox!r} is no sandbox of provider {self._provider}")
        return os.path.join(self.base, sandbox)

    def there(self, sandbox: str) -> str:
        """Return the folder of a sandbox that is there; raises `Fault` (provider.lost) for one that is not."""
        folder = self.of(sandbox)
        if labels_of(folder) is None:
            raise Fault("provider.lost", f"there is no sandbox {sandbox}")
        return folder

    def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the sandboxes that carry all of `labels`, whichever process opened them."""
        found: list[Mapping[str, str]] = []
        with suppress(FileNotFoundError):
            for name in sorted(filter(self._id.fullmatch, os.listdir(self.base))):
                if (own := labels_of(f"{self.base}/{name}")) is not None and labels.items() <= own.items():
                    found.append({**own, "sandbox": name})
        return found

    def remove_empty(self) -> None:
        """Remove the folder of all sandboxes if none is left."""
        self._base_is_fine = False
        with suppress(OSError):  # others have sandboxes there
            os.rmdir(self.base)


async def remove_folder(folder: str, names: Sequence[str]) -> None:
    """Remove a sandbox: what is called `names` first, its labels last, so that it is listed while anything is left."""

    def remove() -> None:
        for name in names:
            _files.remove_tree(f"{folder}/{name}")
        _files.remove_tree(folder)

    try:
        await asyncio.to_thread(remove)
    except OSError as error:
        raise Fault("dispose.failed", f"the sandbox's directory could not be removed: {describe(error)}") from error


def mark_kept(folder: str) -> None:
    """Note with the labels of a sandbox that it was kept, at one stroke."""
    written = f"{folder}/labels.new"
    Path(written).write_text(json.dumps({**(labels_of(folder) or {}), "kept": "true"}))
    os.replace(written, f"{folder}/{LABELS}")


def labels_of(folder: str) -> dict[str, str] | None:
    """Return the labels of a sandbox; None for what is no sandbox, or is not yet or no longer one."""
    try:
        with open(f"{folder}/{LABELS}", "rb") as file:
            found: Any = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return cast("dict[str, str]", found) if isinstance(found, dict) else None


def _make_base(base: str) -> None:
    """Make the folder of all sandboxes; raises `Fault` if it is there and somebody else could change it."""
    os.makedirs(base, mode=0o700, exist_ok=True)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise Fault("provider.unavailable", f"{base} is not a directory that only this user can change: remove it")
