"""The client behind `proctor.models.openai`; imported only when a model is opened, as its libraries are heavy."""

from __future__ import annotations

from json import dumps
from typing import Any, cast

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models._bounded_http import Bounded
from proctor.models._conversation import NO_ID, arguments_of, completion
from proctor.models._endpoint import NO_TAGS, EndpointModel, ErrorInAnswer, is_count, text_or_none
from proctor.models._endpoint_address import NO_KEY
from proctor.models._openai_responses import ResponsesModel
from proctor.models.openai import OpenAIParams
from proctor.plugins.api import Completion


class _BoundedClient(Bounded, openai.DefaultAsyncHttpxClient):
    """Reads whole bodies, up to a bound."""


class _ChatModel(OpenAIChatModel):
    """The library's model, less strict: an answer is not thrown away for a count or a call that cannot be read."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        error = (response.model_extra or {}).get("error")
        if isinstance(error, dict):
            raise ErrorInAnswer(cast("dict[str, Any]", error))
        if not response.choices:
            raise ValueError("the answer has no choices")
        if not _is_readable(response.usage):
            response.usage = None
        if response.usage is not None:
            _count_thoughts(response.usage)
        choices: list[dict[str, Any]] = response.model_dump(warnings=False)["choices"]
        _make_calls_readable(choices[0].get("message"))
        return super()._validate_completion(response.model_copy(update={"choices": choices}))

    @staticmethod
    def _map_tool_call(t: ToolCallPart) -> Any:
        # In place of the library's, which writes the model's arguments anew, and wraps those that are no JSON.
        return {
            "id": t.tool_call_id,
            "type": "function",
            "function": {"name": t.tool_name, "arguments": arguments_of(t)},
        }


def _make_calls_readable(message: Any) -> None:
    """Bring tool calls into the types that the library takes; what the model wrote stays as it is."""
    calls: Any = cast("dict[str, Any]", message).get("tool_calls") if isinstance(message, dict) else None
    for each in cast("list[Any]", calls) if isinstance(calls, list) else []:
        if isinstance(each, dict):
            call = cast("dict[str, Any]", each)
            function: Any = call.get("function")
            written = cast("dict[str, Any]", function) if isinstance(function, dict) else {}
            arguments: Any = written.get("arguments")
            if not isinstance(arguments, str):
                arguments = "" if arguments is None else dumps(arguments)
            call["type"] = "function"
            call["id"] = text_or_none(call.get("id")) or NO_ID
            call["function"] = {"name": text_or_none(written.get("name")) or "", "arguments": arguments}


def _is_readable(usage: CompletionUsage | None) -> bool:
    """Whether the counts that we use are numbers of tokens. The library builds the object without checking."""
    details = getattr(usage, "prompt_tokens_details", None)
    more = getattr(usage, "completion_tokens_details", None)
    needed = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens", "total_tokens")]
    extra = [getattr(details, "cached_tokens", None), getattr(more, "reasoning_tokens", None)]
    return all(is_count(each) for each in needed) and all(each is None or is_count(each) for each in extra)


def _count_thoughts(usage: CompletionUsage) -> None:
    """Count thoughts as output where an endpoint has them in its total only: they are paid for like all output.

    A total that may hold something else, such as what was cached, says nothing.
    """
    apart = usage.total_tokens - usage.prompt_tokens - usage.completion_tokens
    thoughts = getattr(usage.completion_tokens_details, "reasoning_tokens", None) or 0
    cached = getattr(usage.prompt_tokens_details, "cached_tokens", None) or any(
        "cache" in x for x in usage.model_extra or ()
    )
    if apart > 0 and (apart == thoughts or not (thoughts or cached)):
        usage.completion_tokens += apart


def _usage(reported: RequestUsage) -> Usage | None:
    """Return OpenAI's counts, where cached tokens are a part of the input, as ours, where each token counts once.

    A call always has input, so zeros all over are an endpoint that does not count.
    """
    read, write = reported.cache_read_tokens, reported.cache_write_tokens
    if not (reported.input_tokens or reported.output_tokens):
        return None
    return Usage(
        calls=1,
        input_tokens=max(0, reported.input_tokens - read - write),
        output_tokens=reported.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=reported.details.get("reasoning_tokens", 0),
    )


def _settings(params: OpenAIParams) -> dict[str, Any]:
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "max_tokens": params.max_tokens,
        "seed": params.seed,
        "stop_sequences": [params.stop] if isinstance(params.stop, str) else params.stop,
        "extra_body": params.extra_body,
    }


class OpenAIModel(EndpointModel):
    """A model behind an endpoint that speaks as OpenAI's do; `official` is OpenAI itself."""

    def __init__(
        self, spec: ModelSpec, *, name: str, base_url: str, key: str, params: OpenAIParams, official: bool = False
    ) -> None:
        # The deadline of a call is ours alone, and nothing below us makes a call again.
        client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key, max_retries=0, timeout=None, http_client=_BoundedClient(timeout=None)
        )
        if not official:
            # The library takes these from the environment; they are nobody's business but OpenAI's.
            client.organization = None
            client.project = None

        def profile(_: ModelProfile) -> ModelProfile:
            # In place of the library's guesses by name, which drop parameters and change texts. Servers of one's own
            # know `max_tokens`; OpenAI's newer models know `max_completion_tokens` only.
            return OpenAIModelProfile(thinking_tags=NO_TAGS, openai_chat_supports_max_completion_tokens=official)

        kind = ResponsesModel if params.api == "responses" else _ChatModel
        # Only OpenAI itself is known to keep thoughts, so that they are sent back by their ids.
        thoughts = {"openai_send_reasoning_ids": official} if params.api == "responses" else {}
        super().__init__(
            spec,
            model=kind(name, provider=OpenAIProvider(openai_client=client), profile=profile),
            client=client,
            settings=_settings(params) | thoughts,
            timeout_seconds=params.timeout_seconds,
            secrets=[] if key == NO_KEY else [key],
        )

    def _completion(self, response: ModelResponse, turn: int) -> Completion:
        details = response.provider_details or {}
        reason = details.get("finish_reason", response.finish_reason)
        if response.finish_reason == "content_filter":
            reason = "content_filter"
        return completion(
            response,
            usage=_usage(response.usage),
            stop_reason=text_or_none(reason),
            text=text_or_none(details.get("refusal")),
            turn=turn,
        )
