"""The matrix of a launch file: every combination of its axes is a request, with a name made from a template.

Pure: what is wrong is returned as (path in the file, sentence), nothing is raised.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from proctor.config.layers import NAME_FIELDS, FieldPath, Layer, Tree, merge
from proctor.config.scalars import holds_variable, is_name

REQUESTS_AT_MOST = 10_000
"""So many requests may one matrix expand to: more than that is a mistake."""

PLAIN_LISTS = frozenset({"retry_pattern_list", "artifacts", "tags"})
"""Fields whose value is a list: they are an axis only as a list of lists."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")

Said = tuple[FieldPath, str]
"""Something that is wrong, and where in the file."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One request of a matrix; `chosen` is what it has of each axis, in words."""

    name: str
    layer: Layer
    chosen: Mapping[str, str]


def expand(matrix: Layer, defaults: Mapping[str, Any]) -> tuple[list[Combination], list[Said]]:
    """Return the requests that a matrix stands for, and what is wrong; paths are within the matrix.

    `defaults` are what the template may name beside the fields of the matrix itself.
    """
    tree = {key: value for key, value in matrix.tree.items() if key != "name"}
    axes = {key: cast("list[Any]", value) for key, value in tree.items() if is_axis(key, value)}
    wrong: list[Said] = [((key,), f"the axis `{key}` is empty: nothing would run") for key in axes if not axes[key]]
    template = matrix.tree.get("name")
    if not isinstance(template, str):
        example = "-".join(f"{{{axis}}}" for axis in axes) or "{benchmark}-{model}"
        what = "needs a `name`" if template is None else "`name` must be a text"
        wrong.append((("name",) if template is not None else (), f'{what}, such as "{example}"'))
    elif (fault := _fault(template)) is not None:
        wrong.append((("name",), fault))
    if math.prod(map(len, axes.values())) > REQUESTS_AT_MOST:
        wrong.append(((), f"it stands for more than {REQUESTS_AT_MOST:,} requests"))
    if wrong or not isinstance(template, str):
        return [], wrong
    found: list[Combination] = []
    for places in itertools.product(*(range(len(values)) for values in axes.values())):
        place_of = dict(zip(axes, places, strict=True))
        layer = _chosen(matrix, tree, place_of)
        whole = merge(defaults, layer.tree)
        try:
            name = _format(template, whole)
        except LookupError as error:
            return [], [(("name",), str(error.args[0]))]
        found.append(Combination(name, layer, {axis: _word(axis, layer.tree[axis]) for axis in axes}))
    return found, _collisions(found, template)


def is_axis(key: str, value: Any) -> bool:
    """Say whether the values of a list are tried one by one."""
    if not isinstance(value, list):
        return False
    return key not in PLAIN_LISTS or all(isinstance(one, list) for one in cast("list[Any]", value))


def _chosen(matrix: Layer, tree: Tree, place_of: Mapping[str, int]) -> Layer:
    """Return the request with one value of each axis; the lines are those of the values."""
    lines: dict[FieldPath, int] = {}
    for path, line in matrix.lines.items():
        key = str(path[0]) if path else ""
        if key not in place_of:
            lines |= {path: line} if key != "name" else {}
        elif len(path) == 1:
            lines.setdefault(path, line)  # where the values stand one by one, theirs is the better one
        elif path[1] == place_of[key]:
            lines[(key, *path[2:])] = line
    values = {key: value[place_of[key]] if key in place_of else value for key, value in tree.items()}
    return Layer(matrix.source, values, lines)


def _fault(template: str) -> str | None:
    for found in _FIELD.finditer(template):
        if found.group() in ("{", "}"):
            return f"`name`: there is a single `{found.group()}`; write it twice, or close it"
        if found.group(1) is not None and not all(found.group(1).split(".")):
            return "`name`: `{}` names nothing; write a field in it, such as {benchmark}"
    return None


def _format(template: str, request: Mapping[str, Any]) -> str:
    """Return the name of a request. Raises `LookupError` for a field that is no plain value of it."""

    def value(found: re.Match[str]) -> str:
        if found.group(1) is None:
            return found.group()[0]
        return _value(found.group(1), request)

    return _FIELD.sub(value, template)


def _value(path: str, request: Mapping[str, Any]) -> str:
    found: Any = request
    keys = path.split(".")
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            raise LookupError(f"`name`: a request has no field `{path}` that {{{path}}} could stand for")
        found = cast("Mapping[str, Any]", found)[key]
    if isinstance(found, Mapping) and keys[-1] in NAME_FIELDS:
        found = cast("Mapping[str, Any]", found).get(NAME_FIELDS[keys[-1]])
    if holds_variable(cast("object", found)) and not is_name(tuple(keys)):
        raise LookupError(f"`name`: `{path}` holds the value of a variable, which is written nowhere: leave it out")
    if found is None or isinstance(found, Mapping | list):
        raise LookupError(f"`name`: `{path}` is no plain value: write a field of it, such as {{{path}.id}}")
    return _plain(found)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _word(axis: str, value: Any) -> str:
    """Return a value of an axis in a few words."""
    if isinstance(value, Mapping):
        value = cast("Mapping[str, Any]", value).get(NAME_FIELDS.get(axis, "id"), "a mapping")
    return "a list" if isinstance(value, list) else _plain(value)


def _collisions(found: list[Combination], template: str) -> list[Said]:
    """Return what to say of requests of one matrix that have the same name: both, and why."""
    used = {field.group(1).split(".")[0] for field in _FIELD.finditer(template) if field.group(1) is not None}
    first: dict[str, Combination] = {}
    wrong: dict[FieldPath, str] = {}
    for one in found:
        other = first.setdefault(one.name, one)
        if other is one:
            continue
        differ = list(_differing(one, other))
        unused = [axis for axis in differ if axis not in used]
        pairs = f"`{_described(other)}` and `{_described(one)}` would both be called `{one.name}`"
        if unused:
            why = f"the name does not use the axis `{unused[0]}`"
            wrong.setdefault(("name",), f"{pairs}: {why}; write {{{unused[0]}}} in it")
        else:
            wrong.setdefault(("name",), f"{pairs}: write in it what they differ in, such as {{model.params.NAME}}")
    return list(wrong.items())


def _differing(one: Combination, other: Combination) -> Iterator[str]:
    for axis in one.chosen:
        if one.layer.tree[axis] != other.layer.tree[axis]:
            yield axis


def _described(one: Combination) -> str:
    return ", ".join(f"{axis} {word}" for axis, word in one.chosen.items())
