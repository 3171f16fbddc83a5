"""Rows of data, and the fields in them; `row_files` reads them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import Any, cast

from proctor.errors import nearest

NAMES_SHOWN = 12


class RowError(ValueError):
    """Something is wrong with a row, or with a field of it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it stands, as `questions.jsonl:12`, and its values by name."""

    place: str
    values: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Return the value of a field: by its name, or by a dotted path into objects and lists (`meta.tags.0`).

        Raises `RowError`, which says what is there, for a field that is not, or that is null.
        """
        found: Any = self.values
        names = [path] if path in self.values else path.split(".")
        for depth, name in enumerate(names):
            if isinstance(found, Mapping) and name in found:
                found = cast("Mapping[str, Any]", found)[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(cast("list[Any]", found)):
                found = cast("list[Any]", found)[int(name)]
            else:
                raise RowError(f"there is no field `{path}`{_instead(found, name, '.'.join(names[:depth]))}")
        if found is None:
            raise RowError(f"field `{path}` is null")
        return found

    def text(self, path: str) -> str:
        """Return the value of a field as text. Raises `RowError` where it is empty, or no text could stand for it."""
        return _stated(path, self.get(path))

    def texts(self, path: str) -> list[str]:
        """Return the texts of a field, several where it holds a list. Raises `RowError`, for an empty list too."""
        value = self.get(path)
        if not isinstance(value, list):
            return [_stated(path, value)]
        if not value:
            raise RowError(f"field `{path}` is an empty list")
        return [_stated(f"{path}.{place}", each) for place, each in enumerate(cast("list[Any]", value))]

    @property
    def digest(self) -> str:
        """Twelve digits that only an equal row has, wherever it stands."""
        plain = json.dumps(self.values, sort_keys=True, default=repr)
        return hashlib.sha256(plain.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of files, in order, and the SHA-256 of what the files hold."""

    rows: tuple[Row, ...]
    sha256: str


def _stated(path: str, value: Any) -> str:
    try:
        text = text_of(value)
    except RowError as error:
        raise RowError(f"field `{path}` {error}") from error
    if not text.strip():
        raise RowError(f"field `{path}` is empty")
    return text


def _instead(found: Any, name: str, inside: str) -> str:
    where = f" in `{inside}`" if inside else ""
    if isinstance(found, Mapping):
        names = [str(key) for key in cast("Mapping[Any, Any]", found)]
        near = nearest(name, names)
        there = ", ".join(f"`{key}`" for key in names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
        return f"{where}; there are {there or 'none'}" + (f"; did you mean `{near}`?" if near else "")
    if isinstance(found, list):
        return f"{where}; a list of {len(cast('list[Any]', found))} is there"
    return f"{where}; {type(found).__name__} {found!r:.40} is there"


def text_of(value: Any) -> str:
    """Return the text of a value: numbers as JSON writes them, lists and objects as JSON. Raises `RowError`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise RowError("is not a finite number")
    if isinstance(value, Decimal | date | time):
        return str(value)
    if isinstance(value, bool | int | float | list | Mapping):
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, default=text_of)
        except ValueError as error:
            raise RowError(f"cannot be written: {error}") from error
    raise RowError(f"is of type {type(value).__name__}, which is no text")
