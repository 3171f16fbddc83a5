"""One script, three protocols: whatever family a model is of, harnesses see the same."""

from __future__ import annotations

import asyncio
import json
from functools import cache

import pytest

from proctor.cli.resolve_parts import open_model
from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.shell_agent import shell_agent
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Answer, Cut, Failure, Garbage, Hang, answering, not_utf_8

FAMILIES = {
    "chat": ("openai/m", {}),
    "responses": ("openai/m", {"api": "responses"}),
    "messages": ("anthropic/m", {}),
}
BASH = Tool(
    "bash", "Run it.", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
)
SUBMIT = Tool("submit", "End.", {"type": "object", "properties": {"answer": {"type": "string"}}})
ASKED = [ChatMessage("system", "be brief"), ChatMessage("user", "say hi")]
USAGE = Usage(calls=1, input_tokens=3, output_tokens=81, cache_read_tokens=500, reasoning_tokens=64)


@pytest.fixture(params=FAMILIES)
def family(request, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return request.param


def ask(family, script, tools=(), messages=ASKED, **more):
    async def run():
        name, params = FAMILIES[family]
        async with ModelServer(script) as server:
            spec = ModelSpec(name, base_url=server.base_url, params=params | more.pop("params", {}), **more)
            model = open_model(spec)
            try:
                return await model.complete(messages, tools)
            finally:
                await model.close()

    return asyncio.run(run())


def fault(family, reply, **more):
    with pytest.raises(Fault) as caught:
        ask(family, [reply], **more)
    return caught.value


@cache
def text_of(size):
    return "".join(chr(0x20 + number % 0x2000) for number in range(size))


def test_text_thoughts_calls_and_every_kind_of_token(family):
    calls = (ToolCall("a", "bash", '{"command":"x"}'), ToolCall("b", "submit", "{}"))
    found = ask(family, [Answer("I look.", USAGE, tool_calls=calls, reasoning="hm")], [BASH, SUBMIT])
    assert (found.text, found.tool_calls, found.reasoning, found.usage) == ("I look.", calls, "hm", USAGE)


def test_an_agent_works_through_its_commands(family):
    async def run():
        name, params = FAMILIES[family]
        async with ModelServer(answering(shell_agent(["echo a", "echo b"], "42"))) as server:
            model = open_model(ModelSpec(name, base_url=server.base_url, params=params))
            conversation, ran = list(ASKED), []
            try:
                while True:
                    said = await model.complete(conversation, [BASH, SUBMIT])
                    (call,) = said.tool_calls
                    ran.append((call.name, json.loads(call.arguments)))
                    if call.name == "submit":
                        return ran
                    conversation.append(ChatMessage("assistant", said.text, said.tool_calls))
                    conversation.append(ChatMessage("tool", "done", tool_call_id=call.id))
            finally:
                await model.close()

    assert asyncio.run(run()) == [
        ("bash", {"command": "echo a"}),
        ("bash", {"command": "echo b"}),
        ("submit", {"answer": "42"}),
    ]


@pytest.mark.parametrize(
    ("status", "code", "refused"),
    [
        (400, "model.invalid_request", False),
        (401, "model.refused_auth", False),
        (403, "model.refused_auth", False),
        (404, "model.not_found", False),
        (429, "model.rate_limited", True),
        (500, "model.server", False),
        (503, "model.overloaded", True),
        (529, "model.overloaded", True),
    ],
)
def test_spec_05_a_status_means_the_same_for_every_family(family, status, code, refused):
    found = fault(family, Failure(status, "so it is", retry_after="7"))
    assert (found.code, found.refused, found.retry_after) == (code, refused, "7")
    assert f"status {status}: so it is" in str(found)


def test_a_key_is_in_no_text(family):
    found = fault(family, Failure(401, "wrong", echo_authorization=True), api_key="sk-very-secret")
    assert "sk-very-secret" not in str(found)
    assert "[redacted]" in str(found)


@pytest.mark.parametrize("where", ["start", "half"])
def test_a_connection_that_breaks_is_not_a_refusal(family, where):
    found = fault(family, Cut(where))
    assert (found.code, found.refused) == ("model.connection", False)


def test_a_call_that_hangs_ends_at_its_limit(family):
    assert fault(family, Hang(), params={"timeout_seconds": 0.3}).code == "model.timeout"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"<html>", b"{}"])
def test_what_is_no_answer_cannot_be_understood(family, body):
    assert fault(family, Garbage(body)).code == "model.server"


def test_a_body_that_is_no_utf_8_is_an_answer_or_a_fault_and_never_a_crash(family):
    try:
        said = ask(family, [not_utf_8()]).text
    except Fault as error:
        said = error.code
    assert said == "model.server" or said.startswith("caf")


@pytest.mark.parametrize(
    "text", ["", "half a pair: \ud83d", text_of(1_000_000)], ids=["empty", "surrogate", "megabyte"]
)
def test_any_text_comes_whole(family, text):
    assert ask(family, [Answer(text)]).text == text


def test_a_refusal_is_a_content_filter(family):
    assert ask(family, [Answer(refusal="I will not")]).stop_reason == "content_filter"


@pytest.mark.parametrize("arguments", ["no json", '{"command": "ec', "[1]", ""])
def test_malformed_arguments_are_passed_on(family, arguments):
    found = ask(family, [Answer(tool_calls=(ToolCall("a", "bash", arguments),))], [BASH])
    (call,) = found.tool_calls
    assert (call.id, call.name) == ("a", "bash")
    if family != "messages" or arguments.startswith("["):  # the server has its own way to put what is no JSON there
        assert call.arguments == arguments


def test_calls_without_an_id_or_with_the_same_one_stay_apart(family):
    calls = tuple(ToolCall(each, "bash", "{}") for each in ("", "", "x", "x"))
    found = ask(family, [Answer(tool_calls=calls)], [BASH])
    assert [call.id for call in found.tool_calls] == ["call-3-1", "call-3-2", "x", "x"]
