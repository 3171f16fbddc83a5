"""The base of all that people declare, and the kinds of values that more than one part of it takes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class Config(BaseModel):
    """Base of all: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    may_be_text: ClassVar[bool] = False
    """Whether a text may stand in its place, as a short form."""


def _whole_number(value: Any) -> Any:
    """Refuse what pydantic would turn into an integer in silence: booleans, and floats without a fraction."""
    if isinstance(value, bool | float):
        raise ValueError("must be a whole number")
    return value


def not_boolean(value: Any) -> Any:
    """Refuse what pydantic would turn into a number in silence."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError("must be a finite number above 0")
    return value


Count = Annotated[int, Field(ge=1), BeforeValidator(_whole_number)]
"""A whole number of at least 1."""

LimitOrOff = Annotated[int, Field(ge=0), BeforeValidator(_whole_number)]
"""A whole number of at least 1, or 0 for off."""

Positive = Annotated[
    float,
    BeforeValidator(not_boolean),
    AfterValidator(_positive),
    Field(json_schema_extra={"exclusiveMinimum": 0}),
]
"""A finite number above 0."""


__all__ = ["Config", "Count", "LimitOrOff", "Positive", "not_boolean"]
