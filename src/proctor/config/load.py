"""From what was written to validated configuration, and errors that name the field and where it was written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from proctor.config.layers import FieldPath, Source
from proctor.config.problems import LISTED_FIELDS, ConfigErrors, Problem
from proctor.config.scalars import Refused, Substituted, refused_in
from proctor.config.settle import inside, model_in, settled
from proctor.errors import UsageError, nearest

C = TypeVar("C", bound=BaseModel)

Places = Mapping[str, type[BaseModel]]
"""The sections of a file by their path, for fields that stand in the wrong one; the path of its top is ""."""

_SECRET_WORDS = ("key", "token", "secret", "passw", "credential", "auth")


def is_secret(name: str) -> bool:
    """Say whether what stands under this name may be a credential; rather one name too many than one too few."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def validate(
    schema: type[C], tree: Mapping[str, Any], *, what: str, at: Callable[[FieldPath], Source] | None = None
) -> C:
    """Return `tree` as a `schema`. Raises one `UsageError` that lists everything wrong with it.

    `at` tells where the value of a path was written.
    """
    try:
        return schema.model_validate(settled(tree, schema))
    except ValidationError as error:
        # Where a value itself is wrong, whatever field it is for, that is all there is to say of it.
        found = _problems(error, schema, at or _nowhere) or list(refused_in(tree))
    if any(problem.source is not None and problem.source.line is not None for problem in found):
        raise ConfigErrors(found)
    message = "; ".join(problem.message for problem in found)
    raise UsageError(f"{what}: {message}", hint=found[0].hint if found else None)


def check(
    schema: type[BaseModel],
    tree: Mapping[str, Any],
    at: Callable[[FieldPath], Source],
    *,
    places: Places | None = None,
    within: FieldPath = (),
) -> list[Problem]:
    """Return what is wrong with values that need not be all there are: nothing is missing in them.

    `within` is the path of `tree` in its file.
    """
    try:
        schema.model_validate(settled(tree, schema))
    except ValidationError as error:
        return _problems(error, schema, at, partly=True, places=places or {}, within=within)
    return []


def _nowhere(path: FieldPath) -> Source | None:
    del path


def _problems(
    error: ValidationError,
    schema: type[BaseModel],
    at: Callable[[FieldPath], Source | None],
    *,
    partly: bool = False,
    places: Places | None = None,
    within: FieldPath = (),
) -> list[Problem]:
    found: list[Problem] = []
    for problem in error.errors(include_url=False, include_context=False):
        path: FieldPath = problem["loc"]
        refused = problem["input"]
        if (partly and problem["type"] == "missing") or (isinstance(refused, Refused) and refused.why is None):
            continue
        where = ".".join(str(part) for part in (*within, *path))
        whole = isinstance(refused, dict) and problem["type"] == "value_error"  # it is about fields of the section
        section = _section(schema, path if whole else path[:-1])
        hint = f"{LISTED_FIELDS}{', '.join(section.model_fields)}" if section.model_fields else "it has no fields"
        if problem["type"] == "extra_forbidden":
            message = f"unknown field `{where}`{_meant(str(path[-1]), section, places or {})}"
        elif problem["type"] == "missing":
            message = f"`{where}` is required"
        else:
            message = f"`{where}`: {_reason(where, problem)}" if where else _reason(where, problem)
        found.append(Problem(message, hint, at(path)))
    return found


def _section(schema: type[BaseModel], path: FieldPath) -> type[BaseModel]:
    """Return the innermost section that a path leads into."""
    annotation: Any = schema
    found = schema
    for part in path:
        annotation = inside(annotation, part)
        found = model_in(annotation) or found
    return found


ELSEWHERE = 0.1
"""A name in another section is meant only where it is so much more like what was written."""


def _meant(name: str, section: type[BaseModel], places: Places) -> str:
    """Return what may be meant by an unknown field: the same name in its right place, or the nearest there is."""
    others = {place: fields.model_fields for place, fields in places.items() if fields is not section}
    elsewhere = [_placed(place, name) for place, fields in others.items() if name in fields]
    if elsewhere:
        return f"; it belongs to {' or '.join(elsewhere)}"
    here = nearest(name, section.model_fields)
    there = nearest(name, [field for fields in others.values() for field in fields])
    if there is not None and _likeness(name, there) > (ELSEWHERE + _likeness(name, here) if here else 0.7):
        place = next(place for place, fields in others.items() if there in fields)
        return f"; did you mean {_placed(place, there)}?"
    return f"; did you mean `{here}`?" if here else ""


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.casefold(), other.casefold()).ratio()


def _placed(place: str, field: str) -> str:
    """Return a field with its place: a path, or words such as `an experiment`."""
    return f"`{field}` of {place}" if " " in place else f"`{f'{place}.{field}'.strip('.')}`"


_WANT_CONTAINERS = {"dict_type", "list_type", "model_type", "model_attributes_type"}
"""Refusals of a value that stands where several belong: a credential may be among them."""


def _reason(where: str, problem: ErrorDetails) -> str:
    """Return why a value is refused, with the value where it cannot be, or hold, a credential."""
    value: Any = problem["input"]
    message = problem["msg"].removeprefix("Value error, ")
    if isinstance(value, Refused):
        message, value = str(value.why), value.text
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        message = "must be a section with fields of its own"
    secret = isinstance(value, Substituted) or (is_secret(where) and not isinstance(value, bool | int | float | None))
    if secret and problem["type"] in ("value_error", "assertion_error"):
        return "the given value is refused"  # what a plugin says of it may repeat it
    if isinstance(value, dict) and problem["type"] == "value_error" and not message.startswith("must be"):
        return message  # it is about several fields, and names them
    if secret:
        shown = "the given value"
    elif isinstance(value, str | bool | int | float | None) and problem["type"] not in _WANT_CONTAINERS:
        shown = f"{value!r:.80}"
    else:
        shown = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a plain value"
    return f"{message[0].lower()}{message[1:]}, not {shown}"
