"""Tools through the `openai` models: what is offered, what is called, and how results go back, over real HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from proctor.errors import Fault
from proctor.model.spec import ModelSpec
from proctor.models.openai import open_model
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from support.endpoints import endpoint

BASH = Tool(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string", "title": "Command"}}, "required": ["command"]},
)
ASKED = [ChatMessage("user", "say hi")]


def answer(message, finish_reason="tool_calls", **more):
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        **more,
    }


def call(name="bash", arguments='{"command": "echo hi"}', call_id="c1", **more):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def talk(*turns, tools=(BASH,), **params):
    """Make a call for each (messages, body of the answer); return the completions and the bodies that were sent."""

    async def run():
        async with endpoint(*(body for _, body in turns)) as (address, came):
            model = open_model(ModelSpec("openai/m", base_url=f"{address}/v1", params=params))
            said = []
            try:
                for messages, _ in turns:
                    conversation = messages(said) if callable(messages) else messages
                    said.append(await model.complete(conversation, tools))
            finally:
                await model.close()
            return said, [body for _, _, body in came]

    return asyncio.run(run())


def test_tools_are_offered_with_their_schema_as_it_is_and_their_calls_come_back():
    (said,), (sent,) = talk((ASKED, answer({"content": None, "tool_calls": [call(), call("submit", "{}", "c2")]})))
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {"name": "bash", "description": BASH.description, "parameters": BASH.parameters},
        }
    ]
    assert said.tool_calls == (ToolCall("c1", "bash", '{"command": "echo hi"}'), ToolCall("c2", "submit", "{}"))
    assert (said.text, said.stop_reason, said.reasoning) == ("", "tool_calls", None)
    assert (said.usage.input_tokens, said.usage.output_tokens) == (9, 3)


def test_without_tools_nothing_is_said_of_them():
    _, (sent,) = talk((ASKED, answer({"content": "hi"}, "stop")), tools=())
    assert sent.keys() == {"model", "messages", "stream"}


def test_calls_and_their_results_are_sent_as_they_are_in_their_order():
    calls = (ToolCall("a", "bash", '{ "command":"x" }'), ToolCall("b", "bash", '{"command": "y"}'))
    messages = [
        ChatMessage("system", "be brief"),
        *ASKED,
        ChatMessage("assistant", "I look.", calls),
        ChatMessage("tool", "out of x", tool_call_id="a"),
        ChatMessage("tool", "", tool_call_id="b"),
        ChatMessage("user", "go on"),
    ]
    _, (sent,) = talk((messages, answer({"content": "ok"}, "stop")))
    assert sent["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "say hi"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                call(arguments='{ "command":"x" }', call_id="a"),
                call(arguments='{"command": "y"}', call_id="b"),
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "out of x"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.parametrize("arguments", ["", "no json", '{"command": "echo', "[1, 2]", "null", '{"a": 1, "a": 2}', '"x"'])
def test_malformed_arguments_come_and_go_as_the_model_wrote_them(arguments):
    def second(said):
        (wrong,) = said[0].tool_calls
        return [*ASKED, ChatMessage("assistant", "", (wrong,)), ChatMessage("tool", "not JSON", tool_call_id=wrong.id)]

    wrong = answer({"content": None, "tool_calls": [call(arguments=arguments)]})
    (first, _), (_, sent) = talk((ASKED, wrong), (second, answer({"content": "sorry"}, "stop")))
    assert first.tool_calls == (ToolCall("c1", "bash", arguments),)
    assert sent["messages"][1]["tool_calls"] == [call(arguments=arguments)]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (call("no_such_tool"), ToolCall("c1", "no_such_tool", '{"command": "echo hi"}')),
        (call(arguments={"command": "ls"}), ToolCall("c1", "bash", '{"command": "ls"}')),
        (call(arguments=None), ToolCall("c1", "bash", "")),
        (call(call_id=None), ToolCall("call-2-1", "bash", '{"command": "echo hi"}')),
        (call(call_id=""), ToolCall("call-2-1", "bash", '{"command": "echo hi"}')),
        ({"function": {}}, ToolCall("call-2-1", "", "")),
        ({"id": "c1"}, ToolCall("c1", "", "")),
    ],
)
def test_no_call_is_dropped_whatever_it_looks_like(written, read):
    (said,), _ = talk((ASKED, answer({"content": None, "tool_calls": [written]})))
    assert said.tool_calls == (read,)


def test_ids_that_come_twice_stay_and_missing_ones_differ_within_a_conversation():
    def second(said):
        calls = said[0].tool_calls
        results = [ChatMessage("tool", str(number), tool_call_id=each.id) for number, each in enumerate(calls)]
        return [*ASKED, ChatMessage("assistant", "", calls), *results]

    nameless = answer({"content": None, "tool_calls": [call(call_id=None), call(call_id=None), call(), call()]})
    (first, again), (_, sent) = talk((ASKED, nameless), (second, nameless))
    assert [each.id for each in first.tool_calls] == ["call-2-1", "call-2-2", "c1", "c1"]
    assert [each.id for each in again.tool_calls] == ["call-7-1", "call-7-2", "c1", "c1"]
    assert [each["id"] for each in sent["messages"][1]["tool_calls"]] == ["call-2-1", "call-2-2", "c1", "c1"]
    assert [each["tool_call_id"] for each in sent["messages"][2:]] == ["call-2-1", "call-2-2", "c1", "c1"]


@pytest.mark.parametrize("calls", [{}, "bash", [3], ["bash"], 7])
def test_what_is_no_list_of_calls_is_an_answer_that_cannot_be_understood(calls):
    with pytest.raises(Fault) as caught:
        talk((ASKED, answer({"content": "x", "tool_calls": calls})))
    assert caught.value.code == "model.server"


@pytest.mark.parametrize("calls", [None, []])
def test_an_empty_list_of_calls_is_none(calls):
    (said,), _ = talk((ASKED, answer({"content": "x", "tool_calls": calls}, "stop")))
    assert (said.text, said.tool_calls) == ("x", ())


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_apart_and_goes_back_with_the_calls_that_it_led_to(field):
    def second(said):
        return [*ASKED, ChatMessage("assistant", said[0].text, said[0].tool_calls), ChatMessage("tool", "hi", (), "c1")]

    thought = answer({"content": "Let me see.", field: "they want hi", "tool_calls": [call()]})
    (first, last), (_, sent) = talk((ASKED, thought), (second, answer({"content": "hi", field: "done"}, "stop")))
    assert (first.reasoning, first.text) == ("they want hi", "Let me see.")
    assert (last.reasoning, last.text) == ("done", "hi")
    assert sent["messages"][1] == {
        "role": "assistant",
        "content": "Let me see.",
        field: "they want hi",
        "tool_calls": [call()],
    }


def test_what_was_changed_since_is_sent_as_it_was_changed():
    def second(said):
        return [*ASKED, ChatMessage("assistant", "other", said[0].tool_calls), ChatMessage("tool", "hi", (), "c1")]

    thought = answer({"content": "Let me see.", "reasoning_content": "hm", "tool_calls": [call()]})
    _, (_, sent) = talk((ASKED, thought), (second, answer({"content": "hi"}, "stop")))
    assert sent["messages"][1] == {"role": "assistant", "content": "other", "tool_calls": [call()]}


def test_tags_in_the_answer_are_the_answer():
    (said,), _ = talk((ASKED, answer({"content": "<think>hm</think>hi"}, "stop")))
    assert (said.text, said.reasoning) == ("<think>hm</think>hi", None)


def test_a_result_of_no_call_is_refused_before_anything_is_sent():
    with pytest.raises(ValueError, match="does not say which call it answers"):
        talk(([*ASKED, ChatMessage("tool", "x")], None))
    with pytest.raises(ValueError, match="has the role 'developer'"):
        talk(([ChatMessage("developer", "x")], None))


def test_a_call_is_the_same_whoever_made_it():
    (said,), _ = talk((ASKED, answer({"content": None, "tool_calls": [call()]})))
    plain = ToolCall("c1", "bash", '{"command": "echo hi"}')
    assert said.tool_calls[0] == plain
    assert plain == said.tool_calls[0]
    assert hash(plain) == hash(said.tool_calls[0])
    assert said.tool_calls[0] != ToolCall("c2", "bash", '{"command": "echo hi"}')
    assert "answer" not in repr(said.tool_calls[0])
    assert json.loads(plain.arguments) == {"command": "echo hi"}
