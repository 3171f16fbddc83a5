"""`mock/agent` and scripts that call tools: commands in order through whatever shell is offered, then the answer."""

from __future__ import annotations

import asyncio
import json

import pytest

from proctor.errors import UsageError
from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.mock import open_model, usage_of
from proctor.plugins.api import ChatMessage, Completion, Tool, ToolCall


def tool(name, *required, **properties):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return Tool(name, "", schema | {"required": list(required)})


BASH = tool("bash", "command", command="string", timeout_seconds="number")
SUBMIT = tool("submit", "answer", answer="string")


def play(spec, tools, turns=10):
    """Let the model call tools until it calls none, or submits; return all its completions."""
    model = open_model(spec)
    messages, said = [ChatMessage("user", "do it")], []
    for _ in range(turns):
        said.append(asyncio.run(model.complete(messages, tools)))
        messages.append(ChatMessage("assistant", said[-1].text, said[-1].tool_calls))
        messages += [ChatMessage("tool", "done", tool_call_id=each.id) for each in said[-1].tool_calls]
        if not said[-1].tool_calls or said[-1].tool_calls[0].name == "submit":
            return said
    raise AssertionError("it never ends")


def agent(**params):
    return ModelSpec(id="mock/agent", params=params)


def test_it_runs_the_commands_in_order_and_submits():
    said = play(agent(commands=["echo a", "echo b"], answer="42"), [SUBMIT, BASH])
    calls = [call for each in said for call in each.tool_calls]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("bash", {"command": "echo a"}),
        ("bash", {"command": "echo b"}),
        ("submit", {"answer": "42"}),
    ]
    assert len({call.id for call in calls}) == 3
    assert [each.stop_reason for each in said] == ["tool_calls"] * 3


def test_without_a_tool_to_submit_it_says_its_answer():
    *_, last = play(agent(commands=["ls"], answer="42"), [BASH])
    assert (last.text, last.tool_calls, last.stop_reason) == ("42", (), "stop")


def test_without_a_shell_it_says_its_answer_at_once():
    (only,) = play(agent(commands=["ls"]), [])
    assert (only.text, only.model) == ("done", "mock/agent")


@pytest.mark.parametrize(
    ("shell", "arguments"),
    [
        (tool("Bash", "command", command="string", description="string"), {"command": "ls"}),
        (tool("shell", "command", command="array"), {"command": ["bash", "-lc", "ls"]}),
        (tool("exec_command", "cmd", cmd="string", workdir="string"), {"cmd": "ls"}),
        (tool("run_in_terminal", "input", "wait", input="string", wait="boolean"), {"wait": False, "input": "ls"}),
        (tool("bash", line="string"), {"line": "ls"}),
        (Tool("bash", "", {}), {"command": "ls"}),
        (Tool("bash", "", None), {"command": "ls"}),
    ],
)
def test_the_command_is_written_as_the_tool_wants_it(shell, arguments):
    others = [tool("read_file", "path", path="string"), tool("finish_line")]
    first, *_ = play(agent(commands=["ls"]), [*others, shell])
    assert first.tool_calls[0].name == shell.name
    assert json.loads(first.tool_calls[0].arguments) == arguments


def test_conversations_do_not_know_of_each_other():
    model = open_model(agent(commands=["a", "b"]))
    for _ in range(2):
        said = asyncio.run(model.complete([ChatMessage("user", "q")], [BASH]))
        assert json.loads(said.tool_calls[0].arguments) == {"command": "a"}


@pytest.mark.parametrize("params", [{"commands": "ls"}, {"commands": [1]}, {"answer": 1}, {"command": ["ls"]}])
def test_parameters_of_a_wrong_form_are_refused(params):
    with pytest.raises(UsageError, match="mock/agent"):
        open_model(agent(**params))


def test_usage_counts_tool_calls_of_both_sides():
    call = ToolCall("any-id", "bash", '{"command": "x"}')  # 1 and 4 tokens
    asked = [
        ChatMessage("user", "1234"),
        ChatMessage("assistant", "", (call,)),
        ChatMessage("tool", "12345678", (), "1"),
    ]
    assert usage_of(asked, "12", (call, call)) == Usage(calls=1, input_tokens=1 + 5 + 2, output_tokens=1 + 5 + 5)


def offered(messages, tools):
    return f"{len(messages)} {','.join(each.name for each in tools)}"


def calling(messages):
    call = ToolCall("1", "bash", "{")
    return Completion("", usage_of(messages, "", (call,)), tool_calls=(call,))


def test_a_script_may_see_the_tools_and_call_them():
    seen = ModelSpec(id="mock/script", params={"script": f"{__name__}:offered"})
    assert asyncio.run(open_model(seen).complete([ChatMessage("user", "q")], [BASH, SUBMIT])).text == "1 bash,submit"
    calls = ModelSpec(id="mock/script", params={"script": f"{__name__}:calling"})
    said = asyncio.run(open_model(calls).complete([ChatMessage("user", "q")], [BASH]))
    assert said.tool_calls == (ToolCall("1", "bash", "{"),)
    assert said.usage == Usage(calls=1, input_tokens=1, output_tokens=2)
