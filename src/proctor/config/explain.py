"""What a field of the configuration is: in words, for people who look it up."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from proctor.config.assignments import FREE
from proctor.config.project_schema import ProjectConfig
from proctor.config.schema import SECTIONS, ExperimentConfig
from proctor.config.settle import inside, model_in
from proctor.errors import UsageError, nearest

TABLE_KEYS: Mapping[str, str] = {"models": "NAME", "benchmarks": "ID", "harnesses": "ID", "environments": "PROVIDER"}
"""What stands for the keys of the tables of a project's file."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A field by its path: what it is, what it takes, and what it is where nobody sets it."""

    path: str
    words: str
    takes: str
    default: str
    of_experiment: bool


def explain(name: str) -> list[Explained]:
    """Return the fields of a path, or all that have its last part as their name. Raises `UsageError`."""
    known = {one.path: one for one in fields()}
    if name in known:
        return [known[name]]
    within = _inside(name, known)
    if within is not None:
        return [known[within]]
    named = [one for path, one in known.items() if path.rpartition(".")[2] == name or path.startswith(f"{name}.")]
    if named:
        return named
    near = nearest(name, [*known, *{path.rpartition(".")[2] for path in known}])
    middle = f"; did you mean `{near}`?" if near else ""
    raise UsageError(f"unknown field `{name}`{middle}", hint="`proctor config show` lists all that have a value")


def _inside(name: str, known: Container[str]) -> str | None:
    """Return the path that explains what is inside of a mapping or a table: `models.gpt.id` as `models.NAME.id`."""
    parts = name.split(".")
    if len(parts) > 1 and parts[0] in TABLE_KEYS:
        parts[1] = TABLE_KEYS[parts[0]]
    for length in range(len(parts), 1, -1):
        path = ".".join(parts[:length])
        if path in known and (length == len(parts) or path.rpartition(".")[2] in FREE):
            return path
    return None


def fields() -> Iterator[Explained]:
    """Yield all fields: of experiments by their own names, of the sections and tables with these in front."""
    yield from _of(ExperimentConfig, "", of_experiment=True)
    for name, schema in SECTIONS.items():
        yield from _of(schema, name, of_experiment=False)
    for table, key in TABLE_KEYS.items():
        schema = model_in(inside(ProjectConfig.model_fields[table].annotation, key))
        assert schema is not None
        yield from _of(schema, f"{table}.{key}", of_experiment=False)


def _of(schema: type[BaseModel], prefix: str, *, of_experiment: bool) -> Iterator[Explained]:
    whole: dict[str, Any] = schema.model_json_schema()
    definitions: dict[str, Any] = whole.get("$defs", {})
    for name, field in schema.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        takes = _words(whole["properties"][name], definitions)
        yield Explained(path, field.description or "", takes, _default(field), of_experiment)
        below = model_in(field.annotation)
        if below is not None:
            yield from _of(below, path, of_experiment=of_experiment)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "none: it is required"
    default: Any = field.default
    if isinstance(default, BaseModel):
        default = default.model_dump(mode="json")
    return json.dumps(default, default=list)


_PLAIN = {
    "string": "text", "boolean": "true or false", "null": "null", "integer": "a whole number", "number": "a number",
}  # fmt: skip


def _words(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return in words what a field takes, by its part of a schema."""
    if "$ref" in part:
        found = definitions[str(part["$ref"]).rpartition("/")[2]]
        return f"a section: {', '.join(found.get('properties', {}))}"
    if "anyOf" in part:
        return " or ".join(_words(one, definitions) for one in cast("list[Mapping[str, Any]]", part["anyOf"]))
    if "enum" in part or "const" in part:
        return "one of " + ", ".join(map(str, part.get("enum", [part.get("const")])))
    if part.get("type") == "array":
        items: Any = part.get("items")
        return f"a list, each of {_words(items, definitions)}" if items else "a list"
    if part.get("type") == "object":
        values: Any = part.get("additionalProperties")
        return f"names, each with {_words(values, definitions) if values not in (None, True) else 'any value'}"
    return _PLAIN.get(str(part.get("type")), "any value") + _bounds(part)


def _bounds(part: Mapping[str, Any]) -> str:
    if "exclusiveMinimum" in part:
        return f" above {part['exclusiveMinimum']}"
    return f" of at least {part['minimum']}" if "minimum" in part else ""
