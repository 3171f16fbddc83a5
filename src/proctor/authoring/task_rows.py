"""The rows of a data set by their ids, for one task each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from proctor.authoring.shown_values import shown_value
from proctor.errors import UsageError

ID_CHARACTERS = 200

_HINT = 'pass `id="name"` (a key or attribute that every row has), or `id=lambda row: ...`'


def rows_by_id(
    rows: Iterable[Any] | Mapping[str, Any], own: str | Callable[[Any], object] | None, where: str
) -> dict[str, Any]:
    """Return the rows by their ids, in their order; `own` says where a row has its id.

    Raises `UsageError`, which names the row.
    """
    if isinstance(rows, str | bytes):
        raise UsageError(f"{where}: the rows are one text", hint='pass a list of rows, such as `task.each(["a", "b"])`')
    found: dict[str, Any] = {}
    places: dict[str, int] = {}
    given: Iterable[tuple[Any, Any]]
    if isinstance(rows, Mapping) and own is None:
        given = cast("Mapping[Any, Any]", rows).items()
    else:
        items = cast("Mapping[Any, Any]", rows).values() if isinstance(rows, Mapping) else rows
        given = ((_id_of(row, own, place, where), row) for place, row in enumerate(items, 1))
    for place, (key, row) in enumerate(given, 1):
        row_id = _checked(key, place, where)
        if row_id in found:
            raise UsageError(
                f"{where}: rows {places[row_id]} and {place} have the same id `{row_id}`",
                hint="give each row an id of its own",
            )
        found[row_id], places[row_id] = row, place
    if not found:
        raise UsageError(f"{where}: there are no rows, so that there is no task", hint="pass at least one row")
    return found


def _id_of(row: Any, own: str | Callable[[Any], object] | None, place: int, where: str) -> Any:
    if own is None:
        if isinstance(row, str) or (isinstance(row, int) and not isinstance(row, bool)):
            return row
        raise UsageError(f"{where}: row {place} ({shown_value(row)}) has no id", hint=_HINT)
    try:
        if callable(own):
            return own(row)
        return cast("Any", row)[own] if isinstance(row, Mapping) else getattr(row, own)
    except Exception as error:
        raise UsageError(f"{where}: row {place} ({shown_value(row)}) has no id: {error!r}", hint=_HINT) from error


def _checked(key: Any, place: int, where: str) -> str:
    row_id = str(key) if isinstance(key, int) and not isinstance(key, bool) else key
    if (
        not isinstance(row_id, str)
        or not row_id
        or len(row_id) > ID_CHARACTERS
        or row_id != row_id.strip()
        or not row_id.isprintable()
    ):
        raise UsageError(
            f"{where}: row {place} has the id {shown_value(key)}, which is no text of at most {ID_CHARACTERS} "
            "printable characters without white space around it",
            hint=_HINT,
        )
    return row_id


__all__ = ["rows_by_id"]
