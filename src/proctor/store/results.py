"""The files that are derived from a journal: `result.json` of each attempt (see `store.fold`), and other JSON files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from proctor.store.files import SYSTEM_FILES, Files, store_error, write_file
from proctor.store.fold import AttemptFold, attempt_result, fold_attempts
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
    directory = str(layout.attempt_dir(fold.task, fold.ordinal))
    try:
        _make_attempt_dir(directory, files)
    except OSError as error:
        raise store_error("make the directory", directory, error) from error
    write_file(f"{directory}/result.json", data, files=files)


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
    data = encode_json(value, path.name)
    write_file(path, msgspec.json.format(data, indent=2) + b"\n", durable=durable, files=files)


def _make_attempt_dir(directory: str, files: Files) -> None:
    """Make `attempts/<task>/<ordinal>` with few calls: most of the time the directories above are there."""
    missing: list[str] = []
    while True:
        try:
            files.mkdir(directory)
        except FileExistsError:
            pass  # made for another attempt of the task, or for a try of this one
        except FileNotFoundError:
            if len(missing) > 2:  # the run directory itself is gone
                raise
            missing.append(directory)
            directory = directory.rpartition("/")[0]
            continue
        if not missing:
            return
        directory = missing.pop()


__all__ = [
    "AttemptFold", "attempt_result", "fold_attempts", "rebuild_results", "write_attempt", "write_json",
]  # fmt: skip
