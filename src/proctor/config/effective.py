"""The configuration in force: every value, and where it came from; credentials are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from proctor.config.layers import BUILT_IN, FieldPath, Layered, Source, Tree, layered
from proctor.config.load import check, validate
from proctor.config.problems import ConfigErrors
from proctor.config.project import TABLES, Project
from proctor.config.project_schema import ProjectConfig
from proctor.config.scalars import Refused, Substituted, is_name
from proctor.config.schema import OF_EXECUTION, SECTIONS, ExperimentConfig
from proctor.config.settle import inside, settle
from proctor.model.secrets import is_secret_name

REDACTED = "[redacted]"
NOT_SET = "[refers to a variable that is not set]"

_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


@dataclass(frozen=True, slots=True)
class Effective:
    """One value in force; credentials in it are replaced by a mark."""

    field: str
    value: Any
    source: Source

    @property
    def origin(self) -> str:
        """Where the value came from."""
        return str(self.source)


def effective(project: Project) -> list[Effective]:
    """Return every value that is in force in a project. Raises `UsageError`, which lists what is wrong."""
    rows: list[Effective] = []
    for name, schema in SECTIONS.items():
        section = project.section(name)
        config = validate(schema, section.tree, what=name, at=section.source_of)
        rows += _of_section(name, config, section)
    rows += _of_experiments(project, rows)
    for table in dict.fromkeys(TABLES.values()):
        entries = project.table(table)
        annotation = ProjectConfig.model_fields[table].annotation
        rows += _leaves((table,), entries.tree, entries, annotation, skip=1)
    return rows


def _of_section(name: str, config: BaseModel, section: Layered) -> Iterator[Effective]:
    for field in type(config).model_fields:
        value: Any = getattr(config, field)
        if isinstance(value, dict) and value:
            for key in cast("Tree", value):
                yield _row((name, field, key), value[key], section.source_of((field, key)))
        else:
            # What a variable held is known as such only in what was written.
            written: Any = section.tree.get(field)
            held = isinstance(written, Substituted)
            yield _row((name, field), written if held else cast("Any", value), section.source_of((field,)))


def _of_experiments(project: Project, of_sections: list[Effective]) -> Iterator[Effective]:
    """Yield what holds for experiments that say nothing themselves."""
    typed = layered(project.typed)
    wrong = [problem for layer in project.typed for problem in check(ExperimentConfig, layer.tree, layer.source_of)]
    if wrong:
        raise ConfigErrors(wrong)
    by_execution = {row.field: row for row in of_sections}
    for name, field in ExperimentConfig.model_fields.items():
        if name in typed.tree:
            yield from _leaves(("experiment", name), typed.tree[name], typed, field.annotation, skip=1)
        elif name in OF_EXECUTION:
            row = by_execution[f"execution.{name}"]
            yield Effective(f"experiment.{name}", row.value, row.source)
        elif not field.is_required():
            default: Any = field.default
            plain = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
            yield _row(("experiment", name), plain, BUILT_IN)


def _leaves(path: FieldPath, value: Any, of: Layered, annotation: Any, *, skip: int) -> Iterator[Effective]:
    """Yield the values in a tree; the first `skip` parts of `path` are not among those of its layers."""
    if isinstance(value, dict) and value:
        for key, inner in cast("Tree", value).items():
            yield from _leaves((*path, key), inner, of, inside(annotation, key), skip=skip)
    elif len(path) > skip:
        yield _row(path, settle(value, annotation), of.source_of(path[skip:]))


def _row(path: FieldPath, value: Any, source: Source) -> Effective:
    plain = str(value) if isinstance(value, Substituted) and is_name(path) else value
    return Effective(".".join(str(part) for part in path), shown(plain, str(path[-1])), source)


def shown(value: Any, name: str) -> Any:
    """Return a value without the credentials in it; `name` is that of its field."""
    if isinstance(value, Refused):
        return NOT_SET
    if isinstance(value, Substituted):
        return REDACTED if value.values else str(value)
    if isinstance(value, str):
        return REDACTED if is_secret_name(name) else _CREDENTIALS.sub(f"{REDACTED}@", value)
    if isinstance(value, Mapping):
        return {key: shown(inner, str(key)) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [shown(inner, name) for inner in cast("list[Any]", value)]
    return value
