"""The files that are derived from a journal: `result.json` of each attempt (see `store.fold`), and other JSON files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from proctor.model.spec import Json
from proctor.store.files import SYSTEM_FILES, Files, store_error, write_file
from proctor.store.fold import AttemptFold, fold_attempts
from proctor.store.layout import RunLayout
from proctor.store.plain import encode_json
from proctor.store.reader import read_journal


def write_attempt(layout: RunLayout, fold: AttemptFold, *, files: Files = SYSTEM_FILES) -> None:
    """Write result.json of a sealed attempt, by rename, making the directories that are missing.

    It is not synced: the journal holds the same, and `rebuild_results` writes it again. Raises `StoreError`.
    """
    data = fold.encoded()
    assert fold.task is not None, "a sealed attempt has a slot"
    assert fold.ordinal is not None, "a sealed attempt has a slot"
    path = str(layout.result(fold.task, fold.ordinal))
    _make_directories_of(path, files, most_missing=3)  # attempts/<task>/<ordinal>: the run directory itself is there
    write_file(path, data, files=files)


def write_evidence(path: Path, content: bytes | Json, *, files: Files = SYSTEM_FILES) -> None:
    """Write a file that a try left behind, by rename, making the directories that are missing.

    Bytes are written as they are, anything else as indented JSON. It is not synced. Raises `NotEncodable` for a value
    that has no JSON form, and makes nothing then; `StoreError` when a directory or the file cannot be written.
    """
    data = content if isinstance(content, bytes) else _indented(content, path.name)
    _make_directories_of(str(path), files, most_missing=len(path.parts))
    write_file(path, data, files=files)


def rebuild_results(layout: RunLayout) -> int:
    """Write every result.json of a run again from its journal; return how many.

    Raises `StoreError` as reading and writing do.
    """
    count = 0
    for fold in fold_attempts(read_journal(layout.journal)):
        write_attempt(layout, fold)
        count += 1
    return count


def write_json(path: Path, value: object, *, durable: bool = False, files: Files = SYSTEM_FILES) -> None:
    """Write a JSON file for people and programs: indented, UTF-8, in place by rename.

    Values are what `store.plain` allows. Raises `NotEncodable`, naming the place of a value that has no JSON form, and
    `StoreError` when writing fails; the old file is untouched in both cases.
    """
    write_file(path, _indented(value, path.name), durable=durable, files=files)


def _indented(value: object, name: str) -> bytes:
    return msgspec.json.format(encode_json(value, name), indent=2) + b"\n"


def _make_directories_of(path: str, files: Files, *, most_missing: int) -> None:
    """Make the directories of a file with few calls: most of the time those above the last are there.

    Raises `StoreError`, also where more than `most_missing` of them are not there.
    """
    directory = path.rpartition("/")[0]
    missing: list[str] = []
    try:
        while directory:
            try:
                files.mkdir(directory)
            except FileExistsError:
                pass  # made for another attempt of the task, or for a try of this one
            except FileNotFoundError:
                if len(missing) >= most_missing - 1:
                    raise
                missing.append(directory)
                directory = directory.rpartition("/")[0]
                continue
            if not missing:
                return
            directory = missing.pop()
    except OSError as error:
        raise store_error("make the directory", directory, error) from error


__all__ = [
    "AttemptFold", "fold_attempts", "rebuild_results", "write_attempt", "write_evidence", "write_json",
]  # fmt: skip
