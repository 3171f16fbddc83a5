"""What the scripted model server can answer, and how that looks on the wire of OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.models.mock import NoAnswer, Script, usage_of
from proctor.plugins.api import ChatMessage, Completion

PIECE_CHARACTERS = 16
"""How much text one chunk of a stream carries."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server saw it.

    `body` is the JSON value, or None where it is not JSON. Header names are lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = None
    messages: tuple[ChatMessage, ...] = ()

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self._field("model", ""))

    @property
    def stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return self._field("stream", False) is True

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with the usage."""
        options = self._field("stream_options", None)
        return _object(options).get("include_usage") is True

    def _field(self, name: str, default: Json) -> Json:
        return _object(self.body).get(name, default)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model.

    `usage` is counted as the mock models count, or the object given, or left out where it is None. `model` is the one
    that was asked for unless said otherwise.
    """

    text: str
    usage: Mapping[str, Json] | Literal["counted"] | None = "counted"
    finish_reason: str = "stop"
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error status with OpenAI's error object.

    `retry_after` is sent as the header of that name, seconds or a date. With `echo_authorization` the message holds the
    request's Authorization header, as careless servers do. `body` is sent instead of the error object.
    """

    status: int
    message: str = "scripted failure"
    code: str | None = None
    retry_after: str | None = None
    echo_authorization: bool = False
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the request and never answer."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Break the connection: before anything is answered, or after half of an answer."""

    where: Literal["start", "half"] = "start"
    text: str = "this answer is never seen whole"


@dataclass(frozen=True, slots=True)
class Garbage:
    """Status 200 and a body that is no answer."""

    body: bytes = b'{"id": "chatcmpl-1", "choi'
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait `seconds`, then reply."""

    seconds: float
    reply: Answer | Failure | Hang | Cut | Garbage | str


Reply = Answer | Failure | Hang | Cut | Garbage | Delay | str
"""What can be answered; a string is an `Answer` with that text."""

ServerScript = Sequence[Reply] | Callable[[Request], Reply | Awaitable[Reply]]
"""Replies in the order in which requests come, or a function that replies to a request."""


def _object(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def answering(script: Script) -> Callable[[Request], Reply]:
    """Make the server answer as a mock model with this script does; what it has no answer to gets status 400."""

    def reply(request: Request) -> Reply:
        try:
            answer = script(request.messages)
        except NoAnswer as error:
            return Failure(400, str(error), code="no_answer")
        return _answer_of(answer) if isinstance(answer, Completion) else Answer(answer)

    return reply


def _answer_of(completion: Completion) -> Answer:
    usage = None if completion.usage is None else openai_usage(completion.usage)
    return Answer(completion.text, usage, completion.stop_reason or "stop", completion.model)


def openai_usage(usage: Usage) -> dict[str, Json]:
    """Return usage as OpenAI reports it: cached tokens are a part of the prompt."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    reported: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
    }
    if usage.cache_read_tokens or usage.cache_write_tokens:
        reported["prompt_tokens_details"] = {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        }
    if usage.reasoning_tokens:
        reported["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return reported


def messages_of(body: Json) -> tuple[ChatMessage, ...]:
    """Return the messages of a request's body; raises `ValueError` for what is no list of messages with text."""
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    listed = cast("dict[str, Json]", body).get("messages")
    if not isinstance(listed, list) or not listed:
        raise ValueError("`messages` must be a list with at least one message")
    return tuple(_message_of(each) for each in cast("list[Json]", listed))


def _message_of(value: Json) -> ChatMessage:
    if not isinstance(value, dict):
        raise ValueError("a message must be an object")
    message = cast("dict[str, Json]", value)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise ValueError("a message must have a role")
    if isinstance(content, list):
        parts = cast("list[Json]", content)
        content = "".join(
            str(cast("dict[str, Json]", part).get("text", "")) for part in parts if isinstance(part, dict)
        )
    if not isinstance(content, str):
        raise ValueError("a message must have text as its content")
    return ChatMessage(role, content)


def error_body(message: str, code: str | None, status: int) -> dict[str, Json]:
    """Return OpenAI's error object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _usage_of(answer: Answer, request: Request) -> Json:
    if answer.usage == "counted":
        return openai_usage(usage_of(request.messages, answer.text))
    return None if answer.usage is None else dict(answer.usage)


def completion_body(answer: Answer, request: Request, number: int) -> dict[str, Json]:
    """Return the body of an answer that is not streamed."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    body: dict[str, Json] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": answer.model or request.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}],
    }
    usage = _usage_of(answer, request)
    if usage is not None:
        body["usage"] = usage
    return body


def completion_chunks(answer: Answer, request: Request, number: int) -> list[bytes]:
    """Return the events of a streamed answer, the end mark included."""
    head: dict[str, Json] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": answer.model or request.model,
    }
    usage = _usage_of(answer, request) if request.wants_usage else None
    tail: dict[str, Json] = {"usage": None} if request.wants_usage else {}

    def event(delta: dict[str, Json], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return _event({**head, "choices": [choice], **tail})

    events = [event({"role": "assistant", "content": ""})]
    events += [event({"content": piece}) for piece in _pieces(answer.text)]
    events.append(event({}, answer.finish_reason))
    if usage is not None:
        events.append(_event({**head, "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def _event(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE_CHARACTERS):
        yield text[start : start + PIECE_CHARACTERS]
