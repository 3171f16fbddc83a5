"""The project that a command is given in: `proctor.yaml`, the files of `--config`, `.env`, what was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from proctor.config.layers import Layer, Layered, Level, Parts, Source, Tree, layered
from proctor.config.load import check
from proctor.config.problems import ConfigErrors, Problem, line_of
from proctor.config.project_schema import PROJECT_PLACES, ProjectConfig
from proctor.config.scalars import hidden_in, substituted_in
from proctor.errors import UsageError
from proctor.model.project import PROJECT_FILE, project_above

if TYPE_CHECKING:
    from dotenv.parser import Binding

    from proctor.config.yaml_file import YamlFile

ENVIRONMENT_FILE = ".env"

TABLES: Mapping[str, str] = {
    "benchmark": "benchmarks",
    "harness": "harnesses",
    "model": "models",
    "judge": "models",
    "environment": "environments",
}
"""The section with the defaults of a part of an experiment, by the field of that part."""


def _no_environ() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Project:
    """Where a command is given, and what holds for every experiment there, as layers."""

    directory: Path
    """The directory with `proctor.yaml`, or where the command was given if there is none."""
    layers: tuple[Layer, ...] = ()
    """Whole files: `proctor.yaml`, then those of `--config`."""
    environ: Mapping[str, str] = field(default_factory=_no_environ)
    """The environment with what `.env` adds."""
    typed: tuple[Layer, ...] = ()
    """Fields of every experiment, from `--set` and options."""
    typed_sections: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict[str, tuple[Layer, ...]])
    """Layers of the sections `execution` and `runtime`, from `--set` and options."""

    def table(self, section: str) -> Layered:
        """Return what the files say in one of `TABLES`, such as `models`: entries by their names."""
        return layered(self._at(section))

    def defaults(self, part: str, name: str) -> list[Layer]:
        """Return what the files say of a benchmark, harness, model or provider of that name."""
        table = TABLES[part]
        return [parts.at((table, name)) for parts in self._parts if name in parts.at((table,)).tree]

    def section(self, name: str, given: Sequence[Layer] = ()) -> Layered:
        """Return `execution` or `runtime` as it is in force, with `given` between the files and what was typed."""
        return layered([*self._at(name), *given, *self.typed_sections.get(name, ())])

    def with_typed(self, fields: Sequence[Layer], sections: Mapping[str, Sequence[Layer]]) -> Project:
        """Return the project with what was typed for a command."""
        return replace(
            self, typed=tuple(fields), typed_sections={name: tuple(layers) for name, layers in sections.items()}
        )

    @property
    def secrets(self) -> set[str]:
        """The values of all variables that the files refer to."""
        return set(substituted_in([layer.tree for layer in self.layers]))

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The values of those that are not to be shown: all but the ones in names."""
        return frozenset(hidden_in([layer.tree for layer in self.layers]))

    @cached_property
    def _parts(self) -> tuple[Parts, ...]:
        return tuple(map(Parts, self.layers))

    def _at(self, section: str) -> list[Layer]:
        return [parts.at((section,)) for parts in self._parts]


def load_project(start: Path, config_files: Sequence[Path], environ: Mapping[str, str]) -> Project:
    """Read the project that `start` is in. Raises `ConfigErrors` with everything that is wrong with its files.

    `.env` beside `proctor.yaml` adds to `environ` and overrides nothing in it.
    """
    start = start.absolute()
    found = project_above(start)
    directory = found or start
    environ = {**_of_env_file(directory / ENVIRONMENT_FILE), **environ}
    named = [] if found is None else [(found / PROJECT_FILE, Level.PROJECT)]
    files = _read([*named, *((path, Level.CONFIG) for path in config_files)], environ)
    problems: list[Problem] = []
    layers: list[Layer] = []
    for file in files:
        layer = expanded(file.layer)
        found = [
            *file.problems,
            *check(ProjectConfig, layer.tree, layer.source_of, places=PROJECT_PLACES),
        ]
        problems += sorted(found, key=line_of)
        layers.append(layer)
    if any(map(_counts, problems)):
        raise ConfigErrors(problems)
    return Project(directory, tuple(layers), environ)


def _read(paths: Sequence[tuple[Path, Level]], environ: Mapping[str, str]) -> list[YamlFile]:
    if not paths:
        return []
    from proctor.config.yaml_file import read_yaml  # noqa: PLC0415 - slow to import, and not everybody has such a file

    return [read_yaml(path, level, environ) for path, level in paths]


def _counts(problem: Problem) -> bool:
    """Say whether a problem counts in any case; that a variable is not set does so only for an entry that is used."""
    return not (len(problem.value_at) > 1 and problem.value_at[0] in TABLES.values())


_SQLITE = "sqlite:///"


def results_dir_of(runtime: Layered, results_dir: str) -> str:
    """Return `runtime.results_dir` as it is meant: what a file says is relative to that file."""
    source = runtime.source_of(("results_dir",))
    return results_dir if source.line is None else str(Path(source.name).parent / results_dir)


def record_url_of(runtime: Layered, record_url: str | None) -> str | None:
    """Return `runtime.record_url` as it is meant: the path of a file's `sqlite:///relative/path` is relative to it."""
    source = runtime.source_of(("record_url",))
    path = (record_url or "").removeprefix(_SQLITE)
    if source.line is None or record_url is None or path == record_url or path.startswith("/"):
        return record_url
    return f"{_SQLITE}{Path(source.name).parent.absolute() / path}"


def expanded(layer: Layer) -> Layer:
    """Return the layer of a file without the empty values of its sections, which stand for nothing."""
    tree: Tree = {name: {} if value is None else value for name, value in layer.tree.items()}
    for section in TABLES.values():
        table: Any = tree.get(section)
        if isinstance(table, dict):
            entries = cast("Tree", table)
            tree[section] = {name: {} if value is None else value for name, value in entries.items()}
    models: Any = tree.get("models")
    if isinstance(models, dict):
        # `gpt-x: openai/gpt-x` is short for a model with nothing but an id.
        named = cast("Tree", models)
        tree["models"] = {name: {"id": value} if isinstance(value, str) else value for name, value in named.items()}
    return replace(layer, tree=tree)


def _bare(binding: Binding) -> bool:
    """Say whether a line of an `.env` is a name alone, which sets nothing; `export NAME` means to."""
    return (
        binding.key is not None and binding.value is None and not binding.original.string.lstrip().startswith("export")
    )


def _of_env_file(path: Path) -> dict[str, str]:
    """Return what an `.env` sets. Raises `UsageError`, which repeats nothing of it."""
    if not path.is_file():
        return {}
    from dotenv.parser import parse_stream  # noqa: PLC0415 - few projects have such a file, and it takes 40 ms

    from proctor.config.yaml_file import name_of  # noqa: PLC0415 - likewise

    try:
        with path.open(encoding="utf-8-sig") as file:
            bindings = list(parse_stream(file))
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or "it cannot be read").lower() if isinstance(error, OSError) else "it is not in UTF-8"
        raise UsageError(f"cannot read `{name_of(path)}`: {why}", hint="mend it, or move it away") from None
    wrong = [one.original.line for one in bindings if one.error or "\0" in f"{one.key}{one.value}" or _bare(one)]
    if wrong:
        raise ConfigErrors(
            Problem(
                "not of the form NAME=value",
                "quote a value with spaces or `#`",
                Source(Level.PROJECT, name_of(path), line),
            )
            for line in wrong
        )
    return {binding.key: binding.value for binding in bindings if binding.key and binding.value is not None}
