"""The endpoint of a model as a program is told of it, which calls the model itself from inside of the sandbox."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from proctor.errors import UsageError
from proctor.model.spec import ModelSpec

UNREACHABLE = ("mock", "local")
"""Families of models that live in the process of proctor: nothing can call them from outside of it."""

_DEFAULTS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
"""The address and the variable of the key, by family; any other model is behind an endpoint like OpenAI's."""

NO_KEY = "unused"
"""Stands for a key at endpoints that want none: programs do not start without one."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a program has to know: the name of the model there, the address, the credential."""

    family: str
    """`anthropic`, or `openai` for all that speak as OpenAI's does."""
    model: str
    base_url: str
    key: str = field(repr=False)

    @property
    def root_url(self) -> str:
        """The address without `/v1` at its end, as Anthropic's clients want it."""
        return self.base_url.rstrip("/").removesuffix("/v1")


def why_unreachable(model_id: str) -> str | None:
    """Return why a model cannot be called from inside of a sandbox, or None."""
    family, slash, _ = model_id.partition("/")
    if slash and family in UNREACHABLE:
        return f"model `{model_id}` lives inside of proctor, where a program in a sandbox cannot call it"
    return None


def endpoint_of(spec: ModelSpec) -> Endpoint:
    """Return the endpoint of a model. Raises `UsageError` for a model that has none."""
    why = why_unreachable(spec.id)
    if why is not None:
        raise UsageError(
            why, hint="take a model behind an endpoint; `python -m proctor.testing.model_server` makes one"
        )
    family, slash, name = spec.id.partition("/")
    own = bool(slash) and family in _DEFAULTS
    base_url, variable = _DEFAULTS[family] if own else (None, "OPENAI_API_KEY")
    base_url = spec.base_url or base_url
    if base_url is None:
        raise UsageError(f"model `{spec.id}` has no endpoint", hint="set model.base_url")
    return Endpoint(
        family if own else "openai",
        name if own else spec.id,
        base_url,
        spec.api_key or os.environ.get(variable) or NO_KEY,
    )
