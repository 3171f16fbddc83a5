"""The `anthropic` models over real HTTP: what is sent, what is read, and what a failure means."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.anthropic import ANTHROPIC, DEFAULT_MAX_TOKENS, open_model
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from support.endpoints import endpoint

BASH = Tool(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string", "title": "Command"}}, "required": ["command"]},
)
ASKED = [ChatMessage("user", "say hi")]
TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "echo hi"}}
THOUGHT = {"type": "thinking", "thinking": "they want hi", "signature": "c2lnbmVk"}


def answer(*content, stop_reason="end_turn", usage=None, **more):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 3} if usage is None else usage,
        **more,
    }


def talk(*turns, tools=(), api_key=None, path="", status=200, headers=None, **params):
    """Make a call for each (messages, body of the answer); return the completions and what was sent."""

    async def run():
        async with endpoint(*(body for _, body in turns), status=status, headers=headers) as (address, came):
            spec = ModelSpec("anthropic/m", base_url=address + path, api_key=api_key, params=params)
            model = open_model(spec)
            said = []
            try:
                for messages, _ in turns:
                    said.append(await model.complete(messages(said) if callable(messages) else messages, tools))
            finally:
                await model.close()
            return said, came

    return asyncio.run(run())


def fault(body, status=200, **more):
    with pytest.raises(Fault) as caught:
        talk((ASKED, body), status=status, **more)
    return caught.value


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_the_answer_with_its_usage_model_and_reason():
    (said,), _ = talk((ASKED, answer(TEXT)))
    assert (said.text, said.model, said.stop_reason, said.reasoning) == ("hi", "m-1", "end_turn", None)
    assert said.usage == Usage(calls=1, input_tokens=9, output_tokens=3)


def test_the_conversation_is_sent_as_it_is_and_nothing_beside_it():
    messages = [
        ChatMessage("system", "be brief"),
        ChatMessage("user", "one"),
        ChatMessage("assistant", "<think>hm</think>two"),
        ChatMessage("user", "three"),
    ]
    _, ((path, headers, body),) = talk((messages, answer(TEXT)), api_key="sk-spec")
    assert path == "/v1/messages"
    assert headers["authorization"] == "Bearer sk-spec"
    assert headers["anthropic-version"]
    assert body == {
        "model": "m",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "stream": False,
        "system": "be brief",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "<think>hm</think>two"}]},
            {"role": "user", "content": [{"type": "text", "text": "three"}]},
        ],
    }


@pytest.mark.parametrize("name", ["m", "claude-opus-4-8", "claude-sonnet-5", "claude-3-haiku-20240307"])
def test_parameters_are_sent_whatever_the_model_is_called(name):
    params = {"temperature": 0.0, "top_p": 0.9, "top_k": 5, "max_tokens": 200_000, "stop": "END"}

    async def run():
        async with endpoint(answer(TEXT)) as (address, came):
            extra = {"extra_body": {"metadata": {"user_id": "u"}}, "thinking_budget_tokens": 2048}
            model = open_model(ModelSpec(f"anthropic/{name}", base_url=address, params=params | extra))
            await model.complete(ASKED, [BASH])
            await model.close()
            return came[0][2]

    sent = asyncio.run(run())
    kept = {key: value for key, value in sent.items() if key not in ("messages", "stream", "tools", "tool_choice")}
    assert kept == {
        "model": name,
        "temperature": 0.0,
        "top_p": 0.9,
        "top_k": 5,
        "max_tokens": 200_000,
        "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "metadata": {"user_id": "u"},
    }
    assert sent["tools"] == [{"name": "bash", "description": BASH.description, "input_schema": BASH.parameters}]


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_in_v1_as_those_of_other_families_do(path):
    _, ((asked, _, _),) = talk((ASKED, answer(TEXT)), path=path)
    assert asked == "/v1/messages"


def test_the_key_is_the_specs_else_the_environments_else_a_placeholder(monkeypatch):
    def key(**more):
        headers = talk((ASKED, answer(TEXT)), **more)[1][0][1]
        assert headers["authorization"] == f"Bearer {headers['x-api-key']}"  # servers know the one or the other
        return headers["x-api-key"]

    assert key() == "unused"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
    assert key() == "sk-environment"
    assert key(api_key="sk-spec") == "sk-spec"


def test_what_else_the_environment_says_goes_nowhere(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-secret")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-own: header-secret")
    _, ((_, headers, _),) = talk((ASKED, answer(TEXT)))
    assert not [value for value in headers.values() if "secret" in value]


# -------------------------------------------------------------------------------------------------- tools


def test_calls_and_results_come_and_go():
    def second(said):
        (call,) = said[0].tool_calls
        return [*ASKED, ChatMessage("assistant", said[0].text, (call,)), ChatMessage("tool", "out", tool_call_id="t1")]

    turns = (ASKED, answer(TEXT, USE, stop_reason="tool_use")), (second, answer(TEXT))
    (first, _), (_, (_, _, sent)) = talk(*turns, tools=[BASH])
    assert first.tool_calls == (ToolCall("t1", "bash", '{"command":"echo hi"}'),)
    assert (first.text, first.stop_reason) == ("hi", "tool_use")
    assert sent["messages"][1:] == [
        {"role": "assistant", "content": [TEXT, USE]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "out"}],
                    "is_error": False,
                }
            ],
        },
    ]


def test_results_of_parallel_calls_go_back_in_one_message():
    def second(said):
        results = [ChatMessage("tool", call.id, tool_call_id=call.id) for call in said[0].tool_calls]
        return [*ASKED, ChatMessage("assistant", "", said[0].tool_calls), *results]

    both = answer(USE, USE | {"id": "t2", "name": "other"}, stop_reason="tool_use")
    (first, _), (_, (_, _, sent)) = talk((ASKED, both), (second, answer(TEXT)), tools=[BASH])
    assert [call.name for call in first.tool_calls] == ["bash", "other"]
    assert [block["tool_use_id"] for block in sent["messages"][2]["content"]] == ["t1", "t2"]


def test_thoughts_are_apart_and_go_back_signed_with_the_calls_that_they_led_to():
    def second(said):
        return [*ASKED, ChatMessage("assistant", "", said[0].tool_calls), ChatMessage("tool", "hi", (), "t1")]

    hidden = {"type": "redacted_thinking", "data": "aGlkZGVu"}
    turns = (ASKED, answer(THOUGHT, hidden, USE, stop_reason="tool_use")), (second, answer(TEXT))
    (first, _), (_, (_, _, sent)) = talk(*turns, tools=[BASH])
    assert (first.reasoning, first.text) == ("they want hi", "")
    assert sent["messages"][1]["content"] == [THOUGHT, hidden, USE]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (USE | {"name": "no_such_tool"}, ToolCall("t1", "no_such_tool", '{"command":"echo hi"}')),
        (USE | {"input": "no object"}, ToolCall("t1", "bash", "no object")),
        (USE | {"input": {}}, ToolCall("t1", "bash", "{}")),
        (USE | {"id": None}, ToolCall("call-2-1", "bash", '{"command":"echo hi"}')),
        ({"type": "tool_use"}, ToolCall("call-2-1", "", "")),
    ],
)
def test_no_call_is_dropped_whatever_it_looks_like(written, read):
    (said,), _ = talk((ASKED, answer(written, stop_reason="tool_use")), tools=[BASH])
    assert said.tool_calls == (read,)


# -------------------------------------------------------------------------------------------------- usage


def test_kinds_of_tokens_stay_apart():
    usage = {
        "input_tokens": 3,
        "output_tokens": 81,
        "cache_read_input_tokens": 500_000,
        "cache_creation_input_tokens": 109_075,
        "output_tokens_details": {"thinking_tokens": 64},
    }
    (said,), _ = talk((ASKED, answer(TEXT, usage=usage)))
    assert said.usage == Usage(
        calls=1,
        input_tokens=3,
        output_tokens=81,
        cache_read_tokens=500_000,
        cache_write_tokens=109_075,
        reasoning_tokens=64,
    )


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"input_tokens": 5},
        {"tokens": 7},
        {"input_tokens": -5, "output_tokens": 1},
        {"input_tokens": "many", "output_tokens": 1},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": "all"},
        "much",
        [],
    ],
)
def test_usage_that_is_missing_or_cannot_be_read_is_unknown_and_the_answer_is_kept(usage):
    (said,), _ = talk((ASKED, answer(TEXT) | {"usage": usage}))
    assert (said.text, said.usage) == ("hi", None)


def test_an_answer_without_usage_is_kept():
    body = answer(TEXT)
    del body["usage"]
    (said,), _ = talk((ASKED, body))
    assert (said.text, said.usage) == ("hi", None)


# -------------------------------------------------------------------------------------------------- faults


def error_body(kind, message):
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


@pytest.mark.parametrize(
    ("status", "kind", "code", "refused"),
    [
        (400, "invalid_request_error", "model.invalid_request", False),
        (401, "authentication_error", "model.refused_auth", False),
        (402, "billing_error", "model.payment", False),
        (403, "permission_error", "model.refused_auth", False),
        (404, "not_found_error", "model.not_found", False),
        (413, "request_too_large", "model.invalid_request", False),
        (429, "rate_limit_error", "model.rate_limited", True),
        (500, "api_error", "model.server", False),
        (503, "api_error", "model.overloaded", True),
        (529, "overloaded_error", "model.overloaded", True),
    ],
)
def test_spec_05_statuses_mean_what_they_mean_at_any_endpoint(status, kind, code, refused):
    found = fault(error_body(kind, "so it is"), status, headers={"Retry-After": "7"})
    assert (found.code, found.refused, found.retry_after) == (code, refused, "7")
    assert str(found).startswith("model `anthropic/m` at 127.0.0.1:")
    assert f"status {status}: so it is" in str(found)


def test_an_empty_account_is_a_matter_of_payment_though_it_comes_as_a_wrong_request():
    found = fault(error_body("invalid_request_error", "Your credit balance is too low to access the API"), 400)
    assert found.code == "model.payment"


def test_the_key_is_in_no_text():
    found = fault(
        error_body("authentication_error", "the key sk-ant-secret-1 is wrong"), 401, api_key="sk-ant-secret-1"
    )
    assert "sk-ant-secret-1" not in str(found)
    assert "[redacted]" in str(found)
    assert found.__cause__ is None
    assert found.__context__ is None


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"<html>", b"[]", b"null", b'"text"', {"type": "message"}, answer() | {"content": None}, b"\xff\xfe"],
)
def test_what_is_no_answer_cannot_be_understood(body):
    assert fault(body).code == "model.server"


def test_an_error_with_status_200_is_an_error():
    found = fault(error_body("overloaded_error", "busy"))
    assert found.code == "model.server"
    assert "an error with status 200: busy" in str(found)


def test_an_answer_may_be_empty_or_refused():
    (empty,), _ = talk((ASKED, answer()))
    assert (empty.text, empty.stop_reason) == ("", "end_turn")
    (refused,), _ = talk((ASKED, answer(stop_reason="refusal")))
    assert refused.stop_reason == "content_filter"


def test_an_answer_over_the_bound_is_refused(monkeypatch):
    monkeypatch.setattr("proctor.models._bounded_http.ANSWER_BYTES", 10_000)
    found = fault(answer({"type": "text", "text": "x" * 20_000}))
    assert found.code == "model.malformed"


def test_no_connection_was_never_taken_on():
    async def run():
        async with endpoint() as (address, _):
            pass
        model = open_model(ModelSpec("anthropic/m", base_url=address))
        try:
            await model.complete(ASKED)
        finally:
            await model.close()

    with pytest.raises(Fault) as caught:
        asyncio.run(run())
    assert (caught.value.code, caught.value.refused) == ("model.connection", True)


def test_anthropic_itself_wants_a_key(monkeypatch):
    from proctor.errors import UsageError

    with pytest.raises(UsageError, match="has no API key") as caught:
        open_model(ModelSpec("anthropic/claude"))
    assert caught.value.hint == "set model.api_key or ANTHROPIC_API_KEY"

    async def run():
        async with endpoint(answer(TEXT)) as (address, came):
            monkeypatch.setattr("proctor.models.anthropic.ANTHROPIC", replace(ANTHROPIC, base_url=address))
            model = open_model(ModelSpec("anthropic/claude", api_key="sk"))
            await model.complete(ASKED)
            await model.close()
            return came

    ((_, headers, body),) = asyncio.run(run())
    assert body["model"] == "claude"
    assert headers["authorization"] == "Bearer sk"
    assert "x-api-key" not in headers
