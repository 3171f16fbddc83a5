"""Models behind an endpoint that speaks OpenAI's chat completions, or its responses.

`openai/NAME` is the model NAME; any other id is the model's name as it stands (`meta-llama/Llama-3`) and needs
`model.base_url`. The endpoint gets what the experiment says and nothing else: no parameter is dropped or added for the
sake of a model's name, no text is changed on its way out or in, and no call is made twice.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from proctor.errors import UsageError
from proctor.model.spec import Json, ModelSpec
from proctor.models._endpoint_address import DEFAULT_TIMEOUT_SECONDS, Family
from proctor.models._params import read_params
from proctor.plugins.api import Model

OPENAI = Family(
    prefix="openai/",
    base_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
    library="openai",
    client="proctor.models._openai_client",
    packages='"pydantic-ai-slim[openai]"',
)


class OpenAIParams(BaseModel):
    """The parameters of a model of this family; what is not given is not sent.

    `api` chooses among OpenAI's interfaces. `timeout_seconds` is how long one call may take in all. `extra_body` is
    added to the body of the request as it is.
    """

    api: Literal["chat", "responses"] = "chat"
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_TIMEOUT_SECONDS
    extra_body: dict[str, Json] | None = None


def open_model(spec: ModelSpec) -> Model:
    """Make the model that `spec` describes; nothing is sent yet.

    The key is `spec.api_key`, else OPENAI_API_KEY, else a placeholder for an endpoint of one's own. Raises
    `UsageError` when endpoint, key or parameters are missing or wrong, `MissingPackage` without the packages.
    """
    params = read_params(OpenAIParams, spec)
    for field in ("seed", "stop") if params.api == "responses" else ():
        if getattr(params, field) is not None:
            raise UsageError(f"model `{spec.id}`: parameter `{field}` does not exist with `api: responses`")
    name, base_url = OPENAI.address(spec)
    key = OPENAI.key(spec, base_url)
    return OPENAI.module().OpenAIModel(
        spec, name=name, base_url=base_url, key=key, params=params, official=OPENAI.is_own(base_url)
    )
