"""The parts of a launch file, one by one: what each may be, and how it is taken out of the file."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from proctor.config.layers import Layer
from proctor.config.problems import SCHEMA_HINT
from proctor.config.scalars import holds_variable
from proctor.config.schema import OF_EXECUTION, ExperimentConfig, RuntimeConfig
from proctor.errors import nearest

TOP = ("task_concurrency", "execution", "runtime", "defaults", "requests", "matrix")

OF_REQUEST = ("execution", "runtime")
"""Sections that a request, or the defaults, may hold beside the fields of an experiment."""

RUNTIME_OF_REQUEST = ("reuse", "checkpoint_resume")
"""What a request may say itself about how it runs; everything else is of the whole invocation."""

NAME_CHARACTERS_AT_MOST = 200

HINT = f"{SCHEMA_HINT} launch` prints what a launch file may hold"

NOTE = "x-"
"""Keys that begin so are for people, and are left out."""


def without_notes(layer: Layer) -> Layer:
    """Return a file without the keys that are notes: at its top, in the defaults, in requests and matrices."""

    def cleaned(value: Any, depth: int) -> Any:
        if isinstance(value, list) and depth:
            return [cleaned(one, depth) for one in cast("list[Any]", value)]
        if not isinstance(value, Mapping) or not depth:
            return cast("Any", value)
        kept = cast("Mapping[Any, Any]", value).items()
        return {key: cleaned(inner, depth - 1) for key, inner in kept if not str(key).startswith(NOTE)}

    return replace(layer, tree=cleaned(layer.tree, 2))


def only_fields(layer: Layer) -> Layer:
    """Return of a request what are fields of its experiment."""
    left_out = {"name", *OF_REQUEST}
    tree = {key: value for key, value in layer.tree.items() if key not in left_out}
    return replace(
        layer, tree=tree, lines={p: line for p, line in layer.lines.items() if not p or p[0] not in left_out}
    )


def top_fault(key: str) -> str | None:
    """Return why a key cannot stand at the top of a launch file, or None."""
    if key in TOP:
        return None
    if key == "max_concurrency":
        return "`max_concurrency` is an experiment's own cap: the global limit is `task_concurrency`"
    if key in ExperimentConfig.model_fields:
        return f"`{key}` is of an experiment: write it in a request, or under `defaults` for all of them"
    return f"unknown field `{key}`{_near(key, TOP)}"


def runtime_fault(key: str, value: Any) -> str | None:
    """Return what is wrong with a value of the `runtime` of a request, or None."""
    if key in RuntimeConfig.model_fields and key not in RUNTIME_OF_REQUEST:
        return f"`runtime.{key}` is of the whole invocation: write it at the top of the file, under `runtime`"
    if key not in RUNTIME_OF_REQUEST:
        return f"unknown field `runtime.{key}`{_near(key, RUNTIME_OF_REQUEST)}"
    if key == "reuse" and reuse_said(value) is None:
        return "`runtime.reuse` must be true, false or the id of a run"
    if key == "checkpoint_resume" and switch_said(value) is None:
        return "`runtime.checkpoint_resume` must be true or false"
    return None


def _near(key: str, known: Sequence[str]) -> str:
    near = nearest(key, known)
    return f"; did you mean `{near}`?" if near else ""


def lifted(layer: Layer) -> Layer:
    """Return a request in which fields of its `execution` that are an experiment's too stand among its own fields.

    So what a request says is stronger than what the defaults say, in whichever of the two places either says it.
    """
    section = layer.below("execution")
    up = {key: value for key, value in section.tree.items() if key in OF_EXECUTION and key not in layer.tree}
    if not up:
        return layer
    rest = {key: value for key, value in section.tree.items() if key not in up}
    lines = {path[1:]: line for path, line in layer.lines.items() if len(path) > 1 and path[0] == "execution"}
    moved = {path: line for path, line in lines.items() if path[0] in up}
    kept = {path: line for path, line in layer.lines.items() if path[:1] != ("execution",) or path[1:] not in moved}
    return replace(layer, tree={**layer.tree, **up, "execution": rest}, lines={**kept, **moved})


def kind_of(value: Any) -> str:
    """Return what stands where something else belongs, in words."""
    if isinstance(value, Mapping | list):
        return "an empty one" if not value else "a mapping" if isinstance(value, Mapping) else "a list"
    return "nothing" if value is None else "a plain value"


def reuse_said(value: Any) -> bool | str | None:
    """Return what `runtime.reuse` says; None for what it cannot be."""
    switch = switch_said(value)
    if switch is not None:
        return switch
    return value if isinstance(value, str) and value else None


def switch_said(value: Any) -> bool | None:
    """Return a value that is true or false, also as the text of a file."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control, surrogate, line and paragraph separators


def name_fault(name: object) -> str | None:
    """Return why something cannot be the name of a request, or None."""
    if not isinstance(name, str):
        return "is not a text: write it in quotes"
    if holds_variable(name):
        return "holds the value of a variable, which is written nowhere, and it names a directory: write it out"
    if not name or name != name.strip():
        return "has white space around it" if name else "is empty"
    if len(name) > NAME_CHARACTERS_AT_MOST:
        return f"is longer than {NAME_CHARACTERS_AT_MOST} characters"
    if any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in name):
        return "has control characters"
    return None
