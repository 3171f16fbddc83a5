"""Reads the parameters of a model specification."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from proctor.errors import UsageError, nearest
from proctor.model.spec import ModelSpec

P = TypeVar("P", bound=BaseModel)


def read_params(kind: type[P], spec: ModelSpec) -> P:
    """Return the parameters of `spec` as `kind`; nothing is converted (`"0.5"` is not a number).

    Raises `UsageError` for a parameter that `kind` does not have, naming the nearest, or a value that it refuses.
    """
    known = list(kind.model_fields)
    for name in spec.params:
        if name not in known:
            near = nearest(name, known)
            middle = f"; did you mean `{near}`?" if near else ""
            hint = f"it has {', '.join(f'`{each}`' for each in known)}" if known else "it has no parameters"
            raise UsageError(f"model `{spec.id}` has no parameter `{name}`{middle}", hint=hint)
    try:
        return kind.model_validate(dict(spec.params), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = str(first["loc"][0]) if first["loc"] else "params"
        said = first["msg"][:1].lower() + first["msg"][1:]
        hint = (
            f"a text that looks like something else is put in quotes: `--set model.params.{place}='\"41\"'`"
            if first["type"] == "string_type"
            else f"give one: `--set model.params.{place}=...`"
            if first["type"] == "missing"
            else None
        )
        raise UsageError(f"model `{spec.id}`: parameter `{place}` is not valid: {said}", hint=hint) from error
