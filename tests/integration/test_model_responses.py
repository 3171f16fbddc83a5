"""`openai/...` with `api: responses`, over real HTTP against fixed bodies."""

from __future__ import annotations

import asyncio

import pytest

from proctor.errors import Fault, UsageError
from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.openai import open_model
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from support.endpoints import endpoint

BASH = Tool("bash", "Run it.", {"type": "object", "properties": {"command": {"type": "string", "title": "C"}}})
ASKED = [ChatMessage("system", "be brief"), ChatMessage("user", "say hi")]
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 40},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 109,
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "they want hi"}]}


def said(text="hi"):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def call(**more):
    fields = {"id": "fc_1", "call_id": "c1", "name": "bash", "arguments": '{ "command":"x" }', "status": "completed"}
    return {"type": "function_call", **fields, **more}


def answer(*items, **more):
    fields = {"id": "resp_1", "object": "response", "created_at": 0, "model": "m-1", "status": "completed"}
    return {**fields, "output": list(items), "usage": USAGE, "error": None, "incomplete_details": None, **more}


def talk(*turns, tools=(), **params):
    async def run():
        async with endpoint(*(body for _, body in turns)) as (address, came):
            model = open_model(ModelSpec("openai/m", base_url=f"{address}/v1", params={"api": "responses", **params}))
            completions = []
            try:
                for messages, _ in turns:
                    conversation = messages(completions) if callable(messages) else messages
                    completions.append(await model.complete(conversation, tools))
            finally:
                await model.close()
            return completions, came

    return asyncio.run(run())


def test_an_answer_with_its_thoughts_and_every_kind_of_token():
    (found,), ((path, _, sent),) = talk((ASKED, answer(THOUGHT, said())), max_tokens=7, temperature=0.5)
    assert (found.text, found.reasoning, found.model, found.stop_reason) == ("hi", "they want hi", "m-1", "completed")
    assert found.usage == Usage(calls=1, input_tokens=60, output_tokens=9, cache_read_tokens=40, reasoning_tokens=5)
    assert path == "/v1/responses"
    assert sent == {
        "model": "m",
        "input": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "say hi"}],
        "max_output_tokens": 7,
        "temperature": 0.5,
        "stream": False,
    }


@pytest.mark.parametrize("arguments", ['{ "command":"x" }', "no json", "", "[1]"])
def test_calls_and_results_come_and_go_as_they_are(arguments):
    def second(completions):
        calls = completions[0].tool_calls
        return [*ASKED, ChatMessage("assistant", "", calls), ChatMessage("tool", "out", tool_call_id="c1")]

    turns = (ASKED, answer(THOUGHT, call(arguments=arguments))), (second, answer(said()))
    (first, _), ((_, _, asked), (_, _, sent)) = talk(*turns, tools=[BASH])
    assert first.tool_calls == (ToolCall("c1", "bash", arguments),)
    (offered,) = asked["tools"]
    assert {key: offered[key] for key in ("type", "name", "description", "parameters")} == {
        "type": "function",
        "name": "bash",
        "description": "Run it.",
        "parameters": BASH.parameters,
    }
    assert sent["input"][2:] == [
        {"type": "function_call", "name": "bash", "arguments": arguments, "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "out"},
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (call(call_id=None), ToolCall("call-3-1", "bash", '{ "command":"x" }')),
        (call(name=None, arguments=None), ToolCall("c1", "", "")),
    ],
)
def test_no_call_is_dropped_whatever_it_looks_like(written, read):
    (found,), _ = talk((ASKED, answer(written)), tools=[BASH])
    assert found.tool_calls == (read,)


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "many"}, {"input_tokens": -1, "output_tokens": 1}])
def test_usage_that_cannot_be_read_is_unknown_and_the_answer_is_kept(usage):
    (found,), _ = talk((ASKED, answer(said(), usage=usage)))
    assert (found.text, found.usage) == ("hi", None)


def test_an_answer_that_was_cut_or_refused_says_so():
    cut = answer(said(), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    refusal = said() | {"content": [{"type": "refusal", "refusal": "no"}]}
    (first, second), _ = talk((ASKED, cut), (ASKED, answer(refusal)))
    assert (first.text, first.stop_reason) == ("hi", "max_output_tokens")
    assert (second.text, second.stop_reason) == ("no", "content_filter")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", {"output": None}, answer(error={"code": "server_error", "message": "broken"})]
)
def test_what_is_no_answer_is_a_fault(body):
    with pytest.raises(Fault) as caught:
        talk((ASKED, body))
    assert caught.value.code == "model.server"


@pytest.mark.parametrize("params", [{"seed": 1}, {"stop": "x"}])
def test_a_parameter_that_would_be_dropped_is_refused(params):
    with pytest.raises(UsageError, match="does not exist with `api: responses`"):
        open_model(ModelSpec("openai/m", api_key="k", params={"api": "responses", **params}))
