"""The client behind `proctor.models.openai`; imported only when a model is opened, as its libraries are heavy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import openai
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from proctor.errors import describe
from proctor.model.attempt import Usage
from proctor.model.bounds import TOKENS_AT_MOST
from proctor.model.spec import ModelSpec
from proctor.models._bounded_http import AnswerTooLarge, BoundedClient
from proctor.models._http_errors import REFUSED_STATUSES, ModelFault, code_of_refusal, redacted
from proctor.models.openai import NO_KEY, OpenAIParams, is_openai
from proctor.plugins.api import ChatMessage, Completion

_NO_TAGS = ("<\ue000reasoning>", "</\ue000reasoning>")
"""Tags that no model writes: what an endpoint sends as content is the answer, `<think>` included."""


class _ErrorInAnswer(Exception):
    """A body that came with status 200 and holds an error instead of an answer."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(_text_of_body(body) or "no message")
        code = body.get("code")
        self.status = code if isinstance(code, int) and 400 <= code < 600 else 500


class _ChatModel(OpenAIChatModel):
    """The library's model, less strict about usage: an answer is not thrown away for a count that cannot be read."""

    def _validate_completion(self, response: ChatCompletion) -> Any:
        error = (response.model_extra or {}).get("error")
        if isinstance(error, dict):
            raise _ErrorInAnswer(cast("dict[str, Any]", error))
        if not response.choices:
            raise ValueError("the answer has no choices")
        if not _is_readable(response.usage):
            response.usage = None
        return super()._validate_completion(response)


def _is_readable(usage: CompletionUsage | None) -> bool:
    """Whether the counts that we use are numbers of tokens. The library builds the object without checking."""
    details = getattr(usage, "prompt_tokens_details", None)
    more = getattr(usage, "completion_tokens_details", None)
    needed = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens", "total_tokens")]
    extra = [getattr(details, "cached_tokens", None), getattr(more, "reasoning_tokens", None)]
    return all(_is_count(each) for each in needed) and all(each is None or _is_count(each) for each in extra)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= TOKENS_AT_MOST


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


def _history(messages: Sequence[ChatMessage]) -> list[ModelMessage]:
    history: list[ModelMessage] = []
    pending: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "assistant":
            if pending:
                history.append(ModelRequest(parts=pending))
                pending = []
            history.append(ModelResponse(parts=[TextPart(content=message.text)]))
        elif message.role == "system":
            pending.append(SystemPromptPart(content=message.text))
        elif message.role == "user":
            pending.append(UserPromptPart(content=message.text))
        else:
            raise ValueError(f"a message has the role {message.role!r}; known are system, user and assistant")
    if pending:
        history.append(ModelRequest(parts=pending))
    return history


def _settings(params: OpenAIParams) -> ModelSettings:
    given: dict[str, Any] = {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "max_tokens": params.max_tokens,
        "seed": params.seed,
        "stop_sequences": [params.stop] if isinstance(params.stop, str) else params.stop,
        "extra_body": params.extra_body,
    }
    return cast("ModelSettings", {name: value for name, value in given.items() if value is not None})


class OpenAIModel:
    """A model behind an endpoint; may be called concurrently, from one event loop."""

    def __init__(self, spec: ModelSpec, *, name: str, base_url: str, key: str, params: OpenAIParams) -> None:
        self.spec = spec
        self._key = key
        self._timeout_seconds = params.timeout_seconds
        self._settings = _settings(params)
        parts = urlsplit(base_url)
        self._endpoint = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        # The deadline of a call is ours alone, and nothing below us makes a call again.
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key, max_retries=0, timeout=None, http_client=BoundedClient(timeout=None)
        )
        own = not is_openai(base_url)
        if own:
            # The library takes these from the environment; they are nobody's business but OpenAI's.
            self._client.organization = None
            self._client.project = None

        def profile(_: ModelProfile) -> ModelProfile:
            # In place of the library's guesses by name, which drop parameters and change texts. Servers of one's own
            # know `max_tokens`; OpenAI's newer models know `max_completion_tokens` only.
            return OpenAIModelProfile(thinking_tags=_NO_TAGS, openai_chat_supports_max_completion_tokens=not own)

        provider = OpenAIProvider(openai_client=self._client)
        self._model = _ChatModel(name, provider=provider, profile=profile)

    async def complete(self, messages: Sequence[ChatMessage]) -> Completion:
        """Make one call; raises `ModelFault` with the code of what went wrong."""
        history = _history(messages)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await model_request(self._model, history, model_settings=self._settings, instrument=False)
        except TimeoutError:
            fault = self._fault("model.timeout", f"no answer within {self._timeout_seconds:g} s", refused=False)
        except UserError:
            raise
        except UnicodeEncodeError as error:
            fault = self._fault("model.invalid_request", f"a message cannot be sent as UTF-8: {error}")
        except Exception as error:
            fault = self._fault_of(error)
        else:
            return _completion(response)
        # Raised outside of the handler, and so without the library's exception: its texts may hold the key.
        raise fault

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    def _fault(self, code: str, text: str, **facts: Any) -> ModelFault:
        said = redacted(text, [] if self._key == NO_KEY else [self._key])
        return ModelFault(code, f"model `{self.spec.id}` at {self._endpoint}: {said}", **facts)

    def _fault_of(self, error: Exception) -> ModelFault:
        chain = list(_causes(error))
        for each in chain:
            if isinstance(each, AnswerTooLarge):
                return self._fault("model.malformed", str(each))
            if isinstance(each, openai.APIStatusError):
                status = each.status_code
                return self._fault(
                    code_of_refusal(status, each.code),
                    f"status {status}: {_text_of_body(each.body) or each.response.text or 'no message'}",
                    status=status,
                    retry_after=each.response.headers.get("retry-after"),
                    refused=status in REFUSED_STATUSES,
                )
            if isinstance(each, _ErrorInAnswer):
                return self._fault(code_of_refusal(each.status, None), f"an error with status 200: {each}")
            if isinstance(each, openai.APITimeoutError):
                return self._fault("model.timeout", f"the connection timed out: {describe(chain[-1])}")
            if isinstance(each, openai.APIConnectionError):
                refused = any(type(cause).__name__ == "ConnectError" for cause in chain)
                what = "no connection" if refused else "the connection broke"
                return self._fault("model.connection", f"{what}: {describe(chain[-1])}", refused=refused)
        return self._fault("model.server", f"the answer cannot be understood: {describe(chain[-1])}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Return an exception, what it was raised from, and so on."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__


def _text_of_body(body: object) -> str | None:
    """Return the provider's own words from the body of an error."""
    if isinstance(body, dict):
        found = cast("dict[str, Any]", body)
        inner: Any = found.get("error")
        if isinstance(inner, str):
            return inner
        return _text_of_body(cast("object", inner)) if inner else _text_or_none(found.get("message"))
    return body if isinstance(body, str) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _completion(response: ModelResponse) -> Completion:
    details = response.provider_details or {}
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    refusal = details.get("refusal")
    if not text and isinstance(refusal, str):
        text = refusal
    reason = details.get("finish_reason", response.finish_reason)
    if response.finish_reason == "content_filter":
        reason = "content_filter"
    return Completion(
        text=text,
        usage=_usage(response.usage),
        model=response.model_name,
        stop_reason=_text_or_none(reason),
    )
