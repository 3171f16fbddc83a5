"""Models behind an endpoint that speaks Anthropic's messages: `anthropic/NAME` is the model NAME.

As with `openai/...`, the endpoint gets what the experiment says and nothing else.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from proctor.model.spec import Json, ModelSpec
from proctor.models._endpoint_address import DEFAULT_TIMEOUT_SECONDS, Family
from proctor.models._params import read_params
from proctor.plugins.api import Model

ANTHROPIC = Family(
    prefix="anthropic/",
    base_url="https://api.anthropic.com",
    key_variable="ANTHROPIC_API_KEY",
    library="anthropic",
    client="proctor.models._anthropic_client",
    packages='"pydantic-ai-slim[anthropic]"',
)

DEFAULT_MAX_TOKENS = 16_384
"""How many tokens an answer may have, thoughts included: the protocol wants a number."""


class AnthropicParams(BaseModel):
    """The parameters of a model of this family; but for `max_tokens`, what is not given is not sent.

    `timeout_seconds` is how long one call may take in all. `thinking_budget_tokens` lets the model think aloud for so
    many tokens of `max_tokens`. `extra_body` is added to the body of the request as it is.
    """

    max_tokens: Annotated[int, Field(ge=1)] = DEFAULT_MAX_TOKENS
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop: str | list[str] | None = None
    thinking_budget_tokens: Annotated[int, Field(ge=1)] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_TIMEOUT_SECONDS
    extra_body: dict[str, Json] | None = None


def open_model(spec: ModelSpec) -> Model:
    """Make the model that `spec` describes; nothing is sent yet.

    The key is `spec.api_key`, else ANTHROPIC_API_KEY, else a placeholder for an endpoint of one's own. Raises
    `UsageError` when endpoint, key or parameters are missing or wrong, `MissingPackage` without the packages.
    """
    params = read_params(AnthropicParams, spec)
    name, base_url = ANTHROPIC.address(spec)
    key = ANTHROPIC.key(spec, base_url)
    return ANTHROPIC.module().AnthropicModel(
        spec, name=name, base_url=base_url, key=key, params=params, official=ANTHROPIC.is_own(base_url)
    )
