"""What the scripted model server can be told to answer, the same on every wire, and what a script sees of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.models.mock import NoAnswer, Script, ToolScript, with_tools
from proctor.plugins.api import ChatMessage, Completion, Tool, ToolCall

WireName = Literal["chat", "responses", "messages"]
"""OpenAI's chat completions, OpenAI's responses, Anthropic's messages."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server saw it.

    `body` is the JSON value, or None where it is not JSON. Header names are lower case. `messages` and `tools` are the
    same whatever the wire. `wire` is None for what is no request for an answer.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Json = None
    messages: tuple[ChatMessage, ...] = ()
    tools: tuple[Tool, ...] = ()
    wire: WireName | None = None

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.field("model", ""))

    @property
    def stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return self.field("stream") is True

    @property
    def wants_usage(self) -> bool:
        """Whether a stream of chat completions is to end with the usage; the other wires always do."""
        return _object(self.field("stream_options")).get("include_usage") is True

    @property
    def api_key(self) -> str | None:
        """The key that came, as `x-api-key` or as a bearer token."""
        bearer = self.headers.get("authorization", "")
        named = self.headers.get("x-api-key")
        return named or (bearer[len("bearer ") :].strip() if bearer.lower().startswith("bearer ") else None)

    def field(self, name: str, default: Json = None) -> Json:
        """Return a field of the body."""
        return _object(self.body).get(name, default)


def _object(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the model, in a form of no provider; each wire says it in its own.

    `usage` is counted as the mock models count, or a `Usage` that each wire reports in its way, or an object that is
    sent as it stands, or left out where it is None. `finish_reason` is in OpenAI's words (stop, length, tool_calls,
    content_filter), by default what fits the answer; a word that a wire has no other for is sent as it is. `model` is
    the one that was asked for unless said otherwise. `refusal` is a text instead of `text`. An `empty` answer has no
    choices, no output, no blocks. A tool call may be malformed: arguments that are no JSON, an id that is empty (and
    then is not sent).
    """

    text: str = ""
    usage: Usage | Mapping[str, Json] | Literal["counted"] | None = "counted"
    finish_reason: str | None = None
    model: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    refusal: str | None = None
    empty: bool = False

    @property
    def reason(self) -> str:
        """Why the answer ended, in OpenAI's words."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error status with the error object of the wire.

    `retry_after` is sent as the header of that name, seconds or a date. With `echo_authorization` the message holds the
    request's key, as careless servers do. `body` is sent instead of the error object. `code` is the `code` of OpenAI's
    object and the `type` of Anthropic's, where the one that goes with the status will not do.
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
    """Break the connection: before anything is answered, after half of an answer, or in its first tool call.

    The answer is `answer`, or one with `text`. Where there is no stream, "tool_call" is "half". With `error`, a stream
    says so as its last event, as a provider does that fails in the middle, and then ends in good order. With `stall`,
    nothing more is sent and the connection stays open.
    """

    where: Literal["start", "half", "tool_call"] = "start"
    text: str = "this answer is never seen whole"
    answer: Answer | None = None
    error: Failure | None = None
    stall: bool = False


@dataclass(frozen=True, slots=True)
class Garbage:
    """Status 200 and a body that is no answer."""

    body: bytes = b'{"id": "chatcmpl-1", "choi'
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Mangled:
    """An answer of which each piece, a whole body or one event, is changed on its way out."""

    answer: Answer
    change: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait `seconds`, then reply."""

    seconds: float
    reply: Answer | Failure | Hang | Cut | Garbage | Mangled | str


Reply = Answer | Failure | Hang | Cut | Garbage | Mangled | Delay | str
"""What can be answered; a string is an `Answer` with that text."""

ServerScript = Sequence[Reply] | Callable[[Request], Reply | Awaitable[Reply]]
"""Replies in the order in which requests come, or a function that replies to a request."""


def answering(script: Script | ToolScript) -> Callable[[Request], Reply]:
    """Make the server answer as a mock model with this script does; what it has no answer to gets status 400."""
    seeing = with_tools(script)

    def reply(request: Request) -> Reply:
        try:
            answer = seeing(request.messages, request.tools)
        except NoAnswer as error:
            return Failure(400, str(error), code="no_answer")
        return _answer_of(answer) if isinstance(answer, Completion) else Answer(answer)

    return reply


def _answer_of(completion: Completion) -> Answer:
    return Answer(
        completion.text,
        completion.usage,
        completion.stop_reason,
        completion.model,
        completion.tool_calls,
        completion.reasoning,
    )


def failing_first(
    then: Callable[[Request], Reply], failure: Failure, times: int | None = None
) -> Callable[[Request], Reply]:
    """Answer the first `times` requests (None: all) with `failure`, then by `then`: a storm of 429, say."""
    left = times

    def reply(request: Request) -> Reply:
        nonlocal left
        if left is None:
            return failure
        if left > 0:
            left -= 1
            return failure
        return then(request)

    return reply


def not_utf_8(text: str = "caf\N{LATIN SMALL LETTER E WITH ACUTE}") -> Mangled:
    """Return an answer whose text is sent in Latin 1, so that the body is no UTF-8; raises `ValueError` for ASCII."""
    if text.isascii():
        raise ValueError(f"nothing in {text!r} differs between Latin 1 and UTF-8")

    def change(piece: bytes) -> bytes:
        for each in set(text):
            if not each.isascii():
                piece = piece.replace(f"\\u{ord(each):04x}".encode(), each.encode("latin-1"))
        return piece

    return Mangled(Answer(text), change)
