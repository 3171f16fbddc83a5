"""The shape of each event as a line of the journal holds it, made from the dataclasses of `proctor.model`.

The events are standard-library dataclasses, which msgspec writes with all their defaults and without checking types.
So each gets a twin `msgspec.Struct` with the same fields: converting to the twin checks every type (plugins make some
of the values), and the twin leaves defaults out. Nothing is listed by hand, so an event cannot be forgotten.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from proctor.model.attempt import Usage
from proctor.model.events import EVENT_TYPES

_Field = tuple[str, Any] | tuple[str, Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The twin of a dataclass, and where in it a `Usage` stands: at its top, or one level down (`inner`)."""

    struct: type[Any]
    usage_fields: tuple[str, ...]
    required_usage: tuple[str, ...]
    inner: tuple[tuple[str, Shape], ...]

    def drop_empty_usage(self, struct: Any) -> None:
        """Leave out every usage of no calls."""
        for name in self.usage_fields:
            if getattr(struct, name) == EMPTY_USAGE:
                setattr(struct, name, UNSET)
        for name, shape in self.inner:
            shape.drop_empty_usage(getattr(struct, name))

    def fill_usage(self, struct: Any) -> None:
        """Put back what `drop_empty_usage` left out where the dataclass has no default for it."""
        for name in self.required_usage:
            if getattr(struct, name) is UNSET:
                setattr(struct, name, EMPTY_USAGE)


_SHAPES: dict[type, Shape] = {}


def shape_of(cls: type) -> Shape:
    """Return the shape of a dataclass of the model, making it at the first call."""
    if cls not in _SHAPES:
        _SHAPES[cls] = _make(cls)
    return _SHAPES[cls]


def event_union(shapes: Iterable[Shape]) -> Any:
    """Return the type of any of the events."""
    return Union[tuple(shape.struct for shape in shapes)]  # noqa: UP007 (there is no other way to write a union of many)


def _make(cls: type) -> Shape:
    hints = get_type_hints(cls)
    event = cls in EVENT_TYPES
    fields: list[_Field] = [("at", str, "")] if event else []
    usage_fields: list[str] = []
    required: list[str] = []
    inner: list[tuple[str, Shape]] = []
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if hint is Usage:
            usage_fields.append(field.name)
            fields.append((field.name, shape_of(Usage).struct | UnsetType, UNSET))
            if field.default is dataclasses.MISSING:
                required.append(field.name)
            continue
        if dataclasses.is_dataclass(hint) and isinstance(hint, type) and shape_of(hint).usage_fields:
            inner.append((field.name, shape_of(hint)))
        fields.append(_twin_field(field, hint))
    tag, tag_field = (cls.__name__, "type") if event else (None, None)
    struct: Any = msgspec.defstruct(
        cls.__name__, fields, omit_defaults=True, kw_only=True, gc=False, module=__name__, tag=tag, tag_field=tag_field
    )
    return Shape(struct, tuple(usage_fields), tuple(required), tuple(inner))


def _twin_field(field: dataclasses.Field[Any], hint: Any) -> _Field:
    twin = _twin(hint)
    if field.default_factory is not dataclasses.MISSING:
        # The generic alias `dict[str, float]` makes a plain dict, and only the plain type is known to be left out.
        factory: Any = get_origin(field.default_factory) or field.default_factory
        return (field.name, twin, msgspec.field(default_factory=factory))
    if field.default is not dataclasses.MISSING:
        return (field.name, twin, field.default)
    if type(None) in get_args(hint):
        return (field.name, twin, None)
    return (field.name, twin)


def _twin(hint: Any) -> Any:
    """Return a type with the dataclasses in it replaced by their twins."""
    if dataclasses.is_dataclass(hint):
        return shape_of(hint).struct  # pyright: ignore[reportArgumentType]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None:
        return hint
    if origin in (types.UnionType, Union):
        return Union[tuple(_twin(argument) for argument in arguments)]  # noqa: UP007
    if origin is tuple:
        return tuple[_twin(arguments[0]), ...]
    if origin is Mapping:
        return dict[_twin(arguments[0]), _twin(arguments[1])]
    raise TypeError(f"the journal has no form for {hint!r}")


EMPTY_USAGE: Any = shape_of(Usage).struct()
"""The twin of usage of no calls."""
