"""Where the record of a results root is, and how it names that root."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from proctor.errors import UsageError
from proctor.store._locking import file_system_of, is_network
from proctor.store.lock import this_host
from proctor.store.plain import escape_surrogates


def record_path(results_root: Path, url: str | None = None) -> Path:
    """Return the file of the record of a results root, or the one that a `record_url` names.

    Raises `UsageError` for an address of anything but a SQLite file.
    """
    if url is None:
        return results_root / ".proctor" / "record.sqlite"
    hint = "`sqlite:///relative/path` or `sqlite:////absolute/path` names a file"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError("the `record_url` is no address of a database", hint=hint) from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        shown = parsed.render_as_string(hide_password=True)
        raise UsageError(f"a record cannot be kept in `{shown}`: only SQLite is supported so far", hint=hint)
    return Path(parsed.database)


def root_name(root: Path, database: Path | None) -> str:
    """Return the name that a results root has in a record.

    It is empty in the record that lies in the root itself, so that both can be moved. Elsewhere it is its path, and on
    a file system that only this machine has, its machine as well.
    """
    root = root.resolve() if ".." in root.parts else root.absolute()
    if database is not None and database.parent.parent == root:
        return ""
    path = escape_surrogates(str(root))
    return path if is_network(file_system_of(root)) else f"{this_host()}:{path}"


def below(root: Path, directory: Path) -> str:
    """Return a directory relative to a results root, with `/`. Raises `UsageError` for one outside of it."""
    try:
        inner = directory.absolute().relative_to(root.absolute())
    except ValueError:
        try:  # it may be written another way
            inner = directory.resolve().relative_to(root.resolve())
        except ValueError as error:
            raise UsageError(
                f"`{directory}` is not in `{root}`", hint="name a run of these results, or other `--results-dir`"
            ) from error
    return "" if inner == Path() else inner.as_posix()
