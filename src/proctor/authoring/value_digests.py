"""Digests of values that code has from elsewhere: rows of data, defaults of arguments, what a closure holds."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from inspect import isclass, isroutine
from pathlib import Path, PurePath
from types import CellType, FunctionType, ModuleType
from typing import Any, cast

LEVELS_AT_MOST = 200

OnCode = Callable[[Any], None]
"""Is told of each function, class and module that a value leads to: its source counts elsewhere."""


class ValueDigest:
    """Digests values by what they are: equal ones have equal digests in every process and on every machine.

    What can be pickled counts by its content; what cannot, such as a lock or a connection, by its type alone.
    """

    def __init__(self, project: Path, on_code: OnCode) -> None:
        self._project = project
        self._on_code = on_code
        self._above: dict[int, int] = {}

    def of(self, value: Any) -> str:
        """Return the digest of a value."""
        place = self._above.get(id(value))
        if place is not None:  # it is inside of itself
            return f"above:{len(self._above) - place}"
        if len(self._above) >= LEVELS_AT_MOST:
            return f"deep:{type(value).__name__}"
        self._above[id(value)] = len(self._above)
        try:
            return sha256(self._written(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        finally:
            del self._above[id(value)]

    def _written(self, value: Any) -> str:  # noqa: PLR0911 - one for each kind of value
        kind = cast("type[Any]", type(value))
        if value is None or kind in (bool, int, float, complex, str):
            return f"{kind.__name__}:{value if kind is str else self._number(value)}"
        if kind in (bytes, bytearray):
            return f"bytes:{sha256(value).hexdigest()}"
        if isinstance(value, PurePath):
            return f"path:{self._path(value)}"
        if isinstance(value, Enum):
            return f"enum:{self._class(kind)}.{value.name}"
        if kind in (list, tuple):
            return f"{kind.__name__}:{','.join(map(self.of, value))}"
        if kind in (set, frozenset):
            return f"{kind.__name__}:{','.join(sorted(map(self.of, value)))}"
        if kind is dict:
            return f"dict:{self._items(value)}"
        if isinstance(value, ModuleType):
            self._on_code(value)
            return f"module:{value.__name__.rpartition('.')[2]}"
        if isclass(value):
            return f"class:{self._class(value)}"
        if isroutine(value):
            return self._function(value)
        return self._reduced(value, kind)

    def _number(self, value: Any) -> str:
        return hex(value) if type(value) is int else repr(value)  # digits of a huge number are not to be had

    def _path(self, path: PurePath) -> str:
        """Return a path of the project as it is below it, wherever the project is."""
        inside = isinstance(path, Path) and path.is_relative_to(self._project)
        return path.relative_to(self._project).as_posix() if inside else path.as_posix()

    def _items(self, items: Mapping[Any, Any]) -> str:
        return ",".join(sorted(f"{self.of(key)}={self.of(item)}" for key, item in items.items()))

    def _class(self, kind: type[Any]) -> str:
        self._on_code(kind)
        return kind.__qualname__

    def _function(self, function: Any) -> str:
        """Return what a function is, with what it has from elsewhere; its source counts by itself."""
        self._on_code(function)
        own = getattr(function, "__self__", None)
        values: list[Any] = [] if own is None or isinstance(own, ModuleType) else [own]
        if isinstance(function, FunctionType):
            values += [function.__defaults__, function.__kwdefaults__, *contents(function.__closure__)]
        name = getattr(function, "__qualname__", type(function).__name__)
        return f"function:{name}:{','.join(map(self.of, values))}"

    def _reduced(self, value: Any, kind: type[Any]) -> str:
        reducer: Any = copyreg.dispatch_table.get(kind)
        try:
            reduced: Any = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception:  # what a value says of itself is code of a project
            return f"opaque:{self._class(kind)}"
        if isinstance(reduced, str):
            return f"global:{reduced}"
        parts = cast("tuple[Any, ...]", reduced)
        state = [*parts[:3], *(list(part) if part is not None else None for part in parts[3:5])]
        return f"object:{self._class(kind)}:{','.join(map(self.of, state))}"


def contents(closure: tuple[CellType, ...] | None) -> list[Any]:
    """Return what the cells of a closure hold; nothing for one that is still empty."""
    found: list[Any] = []
    for cell in closure or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


__all__ = ["ValueDigest", "contents"]
