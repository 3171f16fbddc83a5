"""What is typed after `--set`: fields by their dotted paths."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from pydantic import BaseModel

from proctor.config.layers import Tree
from proctor.config.load import is_secret
from proctor.config.problems import Collected
from proctor.config.scalars import Typed, refuse_constant
from proctor.config.schema import SECTIONS, ExperimentConfig
from proctor.config.settle import model_in
from proctor.errors import UsageError, nearest

FREE = {"params", "flags", "labels", "env", "args", "provider_limits", "env_open_qps"}
"""Mappings whose keys are not ours to know."""

_PATH = re.compile(r"[A-Za-z0-9_]{1,40}(\.[A-Za-z0-9_]{1,40})*")
"""A path as people write them; what looks different may hold a part of a value."""


def parse_assignment(text: str) -> tuple[list[str], Any]:
    """Split `dotted.key=value`.

    A value that is a JSON list, object, quoted string or null is read as JSON; anything else stays the text that was
    typed (`Typed`), and the type of the field decides what it means: `1e5` is a number in a field of seconds and text
    in a name. Raises `UsageError`.

    No error about an assignment repeats its value: a mistyped field may have been meant for a credential.
    """
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise UsageError(
            f"{_option(keys)} is not of the form dotted.key=value",
            hint="for example `--set model.params.temperature=0`",
        )
    if value[:1] in ("[", "{", '"') or value == "null":
        try:
            return keys, json.loads(value, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise UsageError(
                f"{_option(keys)}: the value is not valid JSON: {reason}",
                hint="put it in single quotes for the shell; a text that begins so is given as '\"{field} and more\"'",
            ) from None
    return keys, Typed(value)


def _option(keys: list[str]) -> str:
    """Return how an error names an assignment: by its path, up to the first name that may be one of a credential."""
    shown = keys[: next((index for index, key in enumerate(keys, 1) if is_secret(key)), len(keys))]
    path = ".".join(shown)
    return f"`--set {path}`" if _PATH.fullmatch(path) else "`--set`"


def split_assignments(assignments: Iterable[str]) -> tuple[Tree, dict[str, Tree]]:
    """Return the trees that `--set` builds: one for the experiment, one for each top-level section.

    Later assignments win. Raises `UsageError` naming the nearest field for an unknown one.
    """
    experiment: Tree = {}
    sections: dict[str, Tree] = {name: {} for name in SECTIONS}
    wrong = Collected()
    for text in assignments:
        with wrong.gather():
            keys, value = parse_assignment(text)
            if keys[0] in SECTIONS:
                _check_path(keys[1:], SECTIONS[keys[0]], prefix=keys[0])
                _put(keys, sections[keys[0]], keys[1:], value)
            else:
                _check_path(keys, ExperimentConfig, prefix="")
                _put(keys, experiment, keys, value)
    wrong.raise_any()
    return experiment, sections


def _check_path(keys: list[str], schema: type[BaseModel] | None, *, prefix: str) -> None:
    option = _option([prefix, *keys] if prefix else keys)
    for depth, key in enumerate(keys):
        where = ".".join(filter(None, [prefix, *keys[: depth + 1]]))
        if schema is None:
            above = where.rpartition(".")[0]
            raise UsageError(f"{option}: `{above}` is a plain value and has no fields", hint=f"set `{above}` itself")
        if key not in schema.model_fields:
            known = sorted(schema.model_fields) + (sorted(SECTIONS) if not prefix and depth == 0 else [])
            near = nearest(key, known)
            middle = f"; did you mean `{near}`?" if near else ""
            named = f" `{where}`" if _PATH.fullmatch(key) else ""  # else it may hold a part of the value
            raise UsageError(f"`--set`: unknown field{named}{middle}", hint=f"fields there: {', '.join(known)}")
        if key in FREE:
            return
        schema = model_in(schema.model_fields[key].annotation)
    if schema is not None and not getattr(schema, "may_be_text", False):
        fields = ", ".join(schema.model_fields)
        raise UsageError(f"{option} names a whole section, not a field of it", hint=f"fields there: {fields}")


def _put(path: list[str], tree: Tree, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner: Any = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{_option(path)}: `{key}` already has a plain value", hint="set one or the other")
        tree = cast("Tree", inner)
    tree[keys[-1]] = value
