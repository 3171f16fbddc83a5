"""From what was typed to validated configuration: `--set`, precedence, and errors that name the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from proctor.config.schema import SECTIONS, ExperimentConfig
from proctor.errors import UsageError, nearest

C = TypeVar("C", bound=BaseModel)
Tree = dict[str, Any]


class Typed(str):
    """A value as it was typed after `--set KEY=`; the type of its field decides what it means."""

    __slots__ = ()


_FREE = {"params", "flags", "env", "provider_limits", "env_open_qps"}
"""Mappings whose keys are not ours to know."""

_SECRET_WORDS = ("key", "token", "secret", "passw", "credential", "auth")
_PATH = re.compile(r"[A-Za-z0-9_]{1,40}(\.[A-Za-z0-9_]{1,40})*")
"""A path as people write them; what looks different may hold a part of a value."""


def is_secret(name: str) -> bool:
    """Say whether what stands under this name may be a credential; rather one name too many than one too few."""
    return any(word in name.lower() for word in _SECRET_WORDS)


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
            return keys, json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            raise UsageError(
                f"{_option(keys)}: the value is not valid JSON: {reason}", hint="quote it for the shell"
            ) from None
    return keys, Typed(value)


def _option(keys: list[str]) -> str:
    """Return how an error names an assignment: by its path, up to the first name that may be one of a credential."""
    shown = keys[: next((index for index, key in enumerate(keys, 1) if is_secret(key)), len(keys))]
    path = ".".join(shown)
    return f"`--set {path}`" if _PATH.fullmatch(path) else "`--set`"


def settled(values: Mapping[str, Any], schema: type[BaseModel] | None = None) -> Tree:
    """Return free values (parameters, flags) with what was typed turned into values.

    A field of `schema` that takes text keeps the text; everywhere else a number, `true` and `false` are what JSON says,
    and the rest is text.
    """
    fields = schema.model_fields if schema else {}
    tree: Tree = {}
    for name, value in values.items():
        takes_text = name in fields and str in _alternatives(fields[name].annotation)
        if isinstance(value, Typed):
            tree[name] = str(value) if takes_text else _scalar(value)
        else:
            tree[name] = settled(cast("Tree", value)) if isinstance(value, dict) else value
    return tree


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a field may be of."""
    origin = get_origin(annotation)
    return get_args(annotation) if origin in (Union, UnionType) else (annotation,)


def _scalar(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return str(text)
    # 1e3 is a whole number in a field of counts; a field of fractions takes it as well.
    return int(value) if isinstance(value, float) and value.is_integer() and "." not in text else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def split_assignments(assignments: Iterable[str]) -> tuple[Tree, dict[str, Tree]]:
    """Return the trees that `--set` builds: one for the experiment, one for each top-level section.

    Later assignments win. Raises `UsageError` naming the nearest field for an unknown one.
    """
    experiment: Tree = {}
    sections: dict[str, Tree] = {name: {} for name in SECTIONS}
    for text in assignments:
        keys, value = parse_assignment(text)
        if keys[0] in SECTIONS:
            _check_path(keys[1:], SECTIONS[keys[0]], prefix=keys[0])
            _put(keys, sections[keys[0]], keys[1:], value)
        else:
            _check_path(keys, ExperimentConfig, prefix="")
            _put(keys, experiment, keys, value)
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
        if key in _FREE:
            return
        schema = _model_in(schema.model_fields[key].annotation)
    if schema is not None:
        fields = ", ".join(schema.model_fields)
        raise UsageError(f"{option} names a whole section, not a field of it", hint=f"fields there: {fields}")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a field is, or None: a list of sections has no fields that a path could name."""
    for candidate in _alternatives(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _put(path: list[str], tree: Tree, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner: Any = tree.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{_option(path)}: `{key}` already has a plain value", hint="set one or the other")
        tree = cast("Tree", inner)
    tree[keys[-1]] = value


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return `under` with the values of `over` in place of its own, mappings merged key by key."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = merge(cast("Tree", below), cast("Tree", value)) if both else value
    return merged


def validate(schema: type[C], tree: Mapping[str, Any], *, what: str) -> C:
    """Return `tree` as a `schema`. Raises one `UsageError` that lists everything wrong with it."""
    try:
        return schema.model_validate(tree)
    except ValidationError as error:
        fields = ", ".join(schema.model_fields)
        hint = f"fields there: {fields}" if fields else "it has no fields"
        raise UsageError(_wording(error, schema, what), hint=hint) from None


def _wording(error: ValidationError, schema: type[BaseModel], what: str) -> str:
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            near = nearest(str(problem["loc"][-1]), schema.model_fields)
            lines.append(f"unknown field `{where}`" + (f"; did you mean `{near}`?" if near else ""))
        elif problem["type"] == "missing":
            lines.append(f"`{where}` is required")
        else:
            lines.append(f"`{where}`: {_reason(where, problem)}")
    return f"{what}: " + "; ".join(lines)


_WANT_CONTAINERS = {"dict_type", "list_type", "model_type", "model_attributes_type"}
"""Refusals of a value that stands where several belong: a credential may be among them."""


def _reason(where: str, problem: ErrorDetails) -> str:
    """Return why a value is refused, with the value where it cannot be, or hold, a credential."""
    value: Any = problem["input"]
    secret = is_secret(where) and not isinstance(value, bool | int | float | None)
    if secret and problem["type"] in ("value_error", "assertion_error"):
        return "the given value is refused"  # what a plugin says of it may repeat it
    message = problem["msg"].removeprefix("Value error, ")
    if secret:
        shown = "the given value"
    elif isinstance(value, str | bool | int | float | None) and problem["type"] not in _WANT_CONTAINERS:
        shown = f"{value!r:.80}"
    else:
        shown = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a plain value"
    return f"{message[0].lower()}{message[1:]}, not {shown}"
