"""The client behind `proctor.models.anthropic`; imported only when a model is opened, as its libraries are heavy."""

from __future__ import annotations

from json import dumps
from typing import Any, cast

import anthropic
from anthropic.types.beta import BetaMessage, BetaToolUseBlock, BetaUsage
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.anthropic import AnthropicModel as LibraryAnthropicModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models._bounded_http import Bounded
from proctor.models._conversation import NO_ID, completion
from proctor.models._endpoint import NO_TAGS, EndpointModel, ErrorInAnswer, is_count, text_or_none
from proctor.models._endpoint_address import NO_KEY
from proctor.models.anthropic import AnthropicParams
from proctor.plugins.api import Completion

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _BoundedClient(Bounded, anthropic.DefaultAsyncHttpxClient):
    """Reads whole bodies, up to a bound."""


class _MessagesModel(LibraryAnthropicModel):
    """The library's model, less strict: an answer is not thrown away for a count or a call that cannot be read."""

    def _process_response(self, response: BetaMessage, *arguments: Any, **options: Any) -> ModelResponse:
        error = (response.model_extra or {}).get("error")
        if isinstance(error, dict):
            raise ErrorInAnswer(cast("dict[str, Any]", error))
        blocks: Any = response.content
        if not isinstance(blocks, list):
            raise ValueError("the answer has no content")
        for block in cast("list[Any]", blocks):
            if isinstance(block, BetaToolUseBlock):
                block.id, block.name = text_or_none(block.id) or NO_ID, text_or_none(block.name) or ""
                written: Any = block.input
                if written is not None and not isinstance(written, dict | str):
                    vars(block)["input"] = dumps(written)
        if not _is_readable(response.usage):
            response.usage = BetaUsage(input_tokens=0, output_tokens=0)
        return super()._process_response(response, *arguments, **options)


def _is_readable(usage: BetaUsage | None) -> bool:
    """Whether the counts that we use are numbers of tokens. The library builds the object without checking."""
    if not isinstance(usage, BetaUsage):
        return False
    given = [getattr(usage, name, None) for name in _COUNTS]
    return all(is_count(each) for each in given[:2]) and all(each is None or is_count(each) for each in given[2:])


def _usage(response: ModelResponse) -> Usage | None:
    """Return Anthropic's counts, which are disjoint as ours are; None where there are none."""
    counts = response.usage.details
    fresh, output, read, written = (counts.get(name, 0) for name in _COUNTS)
    if not (fresh or output or read or written):
        return None
    return Usage(
        calls=1,
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(output, counts.get("thinking_tokens", 0)),
    )


def _settings(params: AnthropicParams) -> dict[str, Any]:
    budget = params.thinking_budget_tokens
    return {
        "max_tokens": params.max_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "stop_sequences": [params.stop] if isinstance(params.stop, str) else params.stop,
        "anthropic_thinking": None if budget is None else {"type": "enabled", "budget_tokens": budget},
        "extra_body": params.extra_body,
    }


def _profile(_: ModelProfile) -> ModelProfile:
    # In place of the library's guesses by name, which drop parameters, cap them, and make calls again.
    return AnthropicModelProfile(thinking_tags=NO_TAGS)


class AnthropicModel(EndpointModel):
    """A model behind an endpoint that speaks Anthropic's messages; `official` is Anthropic itself."""

    def __init__(
        self, spec: ModelSpec, *, name: str, base_url: str, key: str, params: AnthropicParams, official: bool = False
    ) -> None:
        # The deadline of a call is ours alone, and nothing below us makes a call again.
        client = anthropic.AsyncAnthropic(
            base_url=base_url.rstrip("/").removesuffix("/v1"),  # the library adds it
            api_key=key,
            max_retries=0,
            timeout=None,
            http_client=_BoundedClient(timeout=None),
        )
        # In place of those that the library takes from the environment (ANTHROPIC_CUSTOM_HEADERS). It sends the key as
        # that of a bearer, where servers of one's own may know the older header alone.
        vars(client)["_custom_headers"] = {} if official else {"x-api-key": key}
        super().__init__(
            spec,
            model=_MessagesModel(name, provider=AnthropicProvider(anthropic_client=client), profile=_profile),
            client=client,
            settings=_settings(params),
            timeout_seconds=params.timeout_seconds,
            secrets=[] if key == NO_KEY else [key],
        )

    def _completion(self, response: ModelResponse, turn: int) -> Completion:
        details = response.provider_details or {}
        reason = "content_filter" if response.finish_reason == "content_filter" else details.get("finish_reason")
        return completion(
            response,
            usage=_usage(response),
            stop_reason=text_or_none(reason),
            text=text_or_none(details.get("refusal")),
            turn=turn,
        )
