"""Puts what holds in a project beneath what is declared of one experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from proctor.config.declared import Declared
from proctor.config.default_provider import default_provider
from proctor.config.environment_layers import environments_merged
from proctor.config.layers import NAME_FIELDS, Layer, Layered, Tree, layered
from proctor.config.project import Project
from proctor.model.spec import Task

REPLACED_WHOLE = ("benchmark", "harness", "model", "judge")
"""Parts of which nothing is left where a stronger layer names another: their parameters belong to them alone."""


def declare(
    project: Project,
    name: str,
    given: Sequence[Layer],
    *,
    directory: str | None = None,
    choose: Callable[[Sequence[Task]], Sequence[Task]] | None = None,
    hooks: Mapping[str, Callable[..., Any]] | None = None,
    reuse: bool | str | None = None,
    checkpoint_resume: bool | None = None,
    execution: Sequence[Layer] = (),
) -> Declared:
    """Return one experiment, made of layers of its fields and of its section `execution`.

    The defaults of the project are put beneath them, and what was typed above.
    """
    return Declared(
        name=name,
        fields=fields_of(project, [*given, *project.typed]),
        execution=project.section("execution", execution),
        directory=directory,
        choose=choose,
        hooks=hooks or {},
        reuse=reuse,
        checkpoint_resume=checkpoint_resume,
        project=project.directory,
        secrets=project.hidden,
    )


def fields_of(project: Project, given: Sequence[Layer]) -> Layered:
    """Return the fields of an experiment with the defaults of the parts that it names."""
    layers = sorted(map(with_names, given), key=_level)
    for part in REPLACED_WHOLE:
        layers = _of_strongest(part, layers)
    beneath: list[Layer] = []
    for part, key in NAME_FIELDS.items():
        named = layered(layers).tree.get(part)
        name = cast("Tree", named).get(key) if isinstance(named, dict) else None
        if name is None and part == "environment":
            name = default_provider()
        if not isinstance(name, str):
            continue
        defaults = [_within(part, layer) for layer in project.defaults(part, name)]
        beneath += defaults
        if part in ("model", "judge") and any("id" in layer.tree[part] for layer in defaults):
            layers = [_without_name(part, layer) for layer in layers]
    return layered(environments_merged(sorted([*beneath, *layers], key=_level)))


def _level(layer: Layer) -> int:
    return layer.source.level


def with_names(layer: Layer) -> Layer:
    """Return a layer in which parts that are given by name alone are written out."""
    given = layer.tree
    short = {part: {key: given[part]} for part, key in NAME_FIELDS.items() if isinstance(given.get(part), str)}
    return replace(layer, tree={**given, **short}) if short else layer


def _of_strongest(part: str, layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers without what weaker ones say of another thing than the one that is named at last."""
    kept: list[Layer] = []
    name: str | None = None
    for layer in layers:
        inside: Any = layer.tree.get(part)
        named: Any = cast("Tree", inside).get(NAME_FIELDS[part]) if isinstance(inside, dict) else None
        if named is not None:
            if name is not None and named != name:
                kept = [_without(part, weaker) for weaker in kept]
            name = named
        kept.append(layer)
    return kept


def _without(part: str, layer: Layer) -> Layer:
    return replace(layer, tree={name: value for name, value in layer.tree.items() if name != part})


def _without_name(part: str, layer: Layer) -> Layer:
    """Return a layer without the name of a model, in the place of which its id stands further below."""
    inside: Any = layer.tree.get(part)
    if not isinstance(inside, dict) or "id" not in inside:
        return layer
    rest = {name: value for name, value in cast("Tree", inside).items() if name != "id"}
    return replace(layer, tree={**layer.tree, part: rest})


def _within(part: str, layer: Layer) -> Layer:
    """Return the defaults of a part as a layer of the experiment."""
    lines = {(part, *path): line for path, line in layer.lines.items()}
    return Layer(layer.source, {part: dict(layer.tree)}, lines)
