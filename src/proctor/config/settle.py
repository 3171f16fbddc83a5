"""From values as they were typed to values, by the types of their fields."""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel

from proctor.config.layers import Tree
from proctor.config.scalars import Plain, Refused, Substituted, Typed, of_json, of_yaml
from proctor.config.values import AS_TYPED


def kinds_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a value may be of: the parts of a union, without what is said about them beside."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(annotation) for kind in kinds_of(part))
    if origin is Literal:
        return tuple({type(value) for value in get_args(annotation)})
    return (annotation,)


def settled(values: Mapping[str, Any], schema: type[BaseModel] | None = None) -> Tree:
    """Return values of a section with what was typed turned into values, by the types of its fields.

    A field that takes text keeps it, character for character. Where no type says anything a value of the command line
    is what JSON says, one of a file what YAML 1.2 says, and what a variable held is text.
    """
    fields = schema.model_fields if schema else {}
    tree: Tree = {}
    for name, value in values.items():
        known = fields.get(name)
        raw = known is not None and AS_TYPED in known.metadata
        tree[name] = value if raw else settle(value, Any if known is None else known.annotation)
    return tree


def settle(value: Any, annotation: Any = Any) -> Any:
    """Return one value, whatever is in it included; `Refused` stands for what its field cannot take."""
    kinds = kinds_of(annotation)
    if isinstance(value, Typed):
        return _leaf(value, kinds)
    if isinstance(value, dict):
        tree = cast("Tree", value)
        if (model := model_in(annotation)) is not None:
            return settled(tree, model)
        return {name: settle(inner, inside(annotation, name)) for name, inner in tree.items()}
    if isinstance(value, list):
        return [settle(inner, inside(annotation, 0)) for inner in cast("list[Any]", value)]
    return value


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a field is, or None: a list of sections has no fields that a path could name."""
    for candidate in kinds_of(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def inside(annotation: Any, part: str | int) -> Any:
    """Return the type of what is at `part` in a value of a type; `Any` where nothing is known of it."""
    kinds = kinds_of(annotation)
    if (model := model_in(annotation)) is not None:
        known = model.model_fields.get(str(part))
        return Any if known is None else known.annotation
    for kind in kinds:
        taken = get_args(kind)
        if _is_mapping(kind) and len(taken) > 1:
            return taken[1]
        if _is_listing(kind) and taken:
            return taken[0]
    return Any


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) in (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def _is_listing(kind: Any) -> bool:
    return get_origin(kind) in (list, tuple, set, frozenset, collections.abc.Sequence)


_NUMBERS = (int, float)


def _leaf(text: Typed, kinds: tuple[Any, ...]) -> Any:
    if Any in kinds or object in kinds:
        return _free(text)
    scalar = of_json(text) if type(text) is Typed else of_yaml(text)
    fits = type(scalar) in kinds or (type(scalar) is int and float in kinds)
    if str in kinds:
        # A value of the command line or of a variable is text wherever text is taken.
        return scalar if fits and isinstance(text, Plain) and not isinstance(scalar, str) else _as_text(text)
    if fits:
        return scalar
    if isinstance(text, Plain):
        if isinstance(scalar, str) and any(kind in kinds for kind in _NUMBERS):
            return Refused(text, "must be a number")
        if bool in kinds and not any(kind in kinds for kind in _NUMBERS):
            return Refused(text, "must be true or false (other words are text in YAML 1.2)")
    return _as_text(text)


def _free(text: Typed) -> Any:
    if isinstance(text, Substituted):
        return text
    return of_yaml(text) if isinstance(text, Plain) else of_json(text)


def _as_text(text: Typed) -> str:
    """Return the text itself; one that holds the value of a variable stays known as such."""
    return text if isinstance(text, Substituted) else str(text)
