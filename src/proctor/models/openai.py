"""Models behind an endpoint that speaks OpenAI's chat completions.

`openai/NAME` is the model NAME; any other id is the model's name as it stands (`meta-llama/Llama-3`) and needs
`model.base_url`. The endpoint gets what the experiment says and nothing else: no parameter is dropped or added for the
sake of a model's name, no text is changed on its way out or in, and no call is made twice.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from proctor.errors import MissingPackage, PluginLoadError, UsageError, describe
from proctor.model.spec import Json, ModelSpec
from proctor.models._params import read_params
from proctor.plugins.api import Model

PREFIX = "openai/"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
PACKAGES = '"pydantic-ai-slim[openai]"'
"""What has to be installed for models of this family, as pip takes it in a shell."""

NO_KEY = "unused"
"""Stands for a key at endpoints that want none; the header of the call needs one."""

DEFAULT_TIMEOUT_SECONDS = 600.0


class OpenAIParams(BaseModel):
    """The parameters of a model of this family; what is not given is not sent.

    `timeout_seconds` is how long one call may take in all. `extra_body` is added to the body of the request as it is.
    """

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_TIMEOUT_SECONDS
    extra_body: dict[str, Json] | None = None


def is_openai(base_url: str) -> bool:
    """Say whether an endpoint is OpenAI's own."""
    return urlsplit(base_url).hostname == urlsplit(DEFAULT_BASE_URL).hostname


def _name_and_url(spec: ModelSpec) -> tuple[str, str]:
    """Return the model's name at its endpoint, and the endpoint."""
    name = spec.id.removeprefix(PREFIX)
    if not name:
        raise UsageError(f"model `{spec.id}` names no model", hint=f"write `{PREFIX}NAME`")
    if spec.base_url is None:
        if not spec.id.startswith(PREFIX):
            raise UsageError(f"model `{spec.id}` has no endpoint", hint="set model.base_url")
        # Said here, so that OPENAI_BASE_URL of whoever runs it does not decide what is measured.
        return name, DEFAULT_BASE_URL
    try:
        parts = urlsplit(spec.base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        valid = valid and "@" not in parts.netloc  # a user name and password there would be written to plan.json
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(f"model `{spec.id}`: model.base_url is not a web address", hint="write `https://HOST/v1`")
    return name, spec.base_url


def _key(spec: ModelSpec, base_url: str) -> str:
    key = spec.api_key or os.environ.get(KEY_VARIABLE)
    if key:
        return key
    if is_openai(base_url):
        raise UsageError(f"model `{spec.id}` has no API key", hint=f"set model.api_key or {KEY_VARIABLE}")
    return NO_KEY


def _client_module() -> Any:
    """Import what speaks to the endpoint, only when a model is opened: it takes about a second of CPU."""
    for package in ("pydantic_ai", "openai"):
        if find_spec(package) is None:
            raise MissingPackage(
                "a model behind an endpoint", package.replace("_", "-"), install=f"pip install {PACKAGES}"
            )
    try:
        from proctor.models import _openai_client  # noqa: PLC0415 - see above
    except ImportError as error:
        raise PluginLoadError(
            f"the client of model endpoints cannot be loaded: {describe(error)}",
            hint=f"run `pip install --upgrade {PACKAGES}`",
        ) from error
    return _openai_client


def open_model(spec: ModelSpec) -> Model:
    """Make the model that `spec` describes; nothing is sent yet.

    The key is `spec.api_key`, else OPENAI_API_KEY, else a placeholder for an endpoint of one's own. Raises
    `UsageError` when endpoint, key or parameters are missing or wrong, `MissingPackage` without `PACKAGES`.
    """
    params = read_params(OpenAIParams, spec)
    name, base_url = _name_and_url(spec)
    key = _key(spec, base_url)
    return _client_module().OpenAIModel(spec, name=name, base_url=base_url, key=key, params=params)
