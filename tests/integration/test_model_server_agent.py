"""The script `agent` of the model server: an agent's model that uses whatever shell tool there is, on any wire."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from proctor.model.attempt import Usage
from proctor.plugins.api import ChatMessage, Tool
from proctor.testing.model_server import ModelServer
from proctor.testing.shell_script import SUBMIT_MARK, shell_script
from support.wire_lines import LINES, opened
from support.wire_raw import HEADERS, ask

START = (ChatMessage("system", "you are an agent"), ChatMessage("user", "make the file"))


def tool(name, **properties):
    return Tool(name, f"the tool {name}", {"type": "object", "properties": properties, "required": [*properties]})


TEXT = {"type": "string"}
READ = tool("Read", file_path=TEXT)
SHELLS = [
    tool("Bash", command=TEXT, description=TEXT, timeout={"type": "number"}, run_in_background={"type": "boolean"}),
    tool("bash", command=TEXT),
    tool("shell", command={"type": "array", "items": TEXT}, workdir=TEXT),
    tool("exec_command", cmd=TEXT, yield_time_ms={"type": "integer"}),
    tool("run_terminal_cmd", command=TEXT, explanation=TEXT),
]


def run(call, folder):
    """Do what a shell tool does with its arguments."""
    arguments = json.loads(call.arguments)
    command = arguments.get("command", arguments.get("cmd"))
    command = ["bash", "-c", command] if isinstance(command, str) else command
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}"


def work(line, tools, folder, start=START):
    """Be a small agent: call the tools until there is an answer or a submission; return the end and all usage."""
    messages, used = [*start], []
    while len(used) < 10:
        answer = line.read(line.ask(messages, tools))
        used.append(answer.usage)
        messages.append(ChatMessage("assistant", answer.text, answer.tool_calls))
        if not answer.tool_calls:
            return answer, used
        for call in answer.tool_calls:
            (offered,) = [each for each in tools if each.name == call.name]
            assert set(offered.parameters["required"]) <= json.loads(call.arguments).keys()
            if call.name == "submit":
                return answer, used
            said = run(call, folder)
            if SUBMIT_MARK in said:
                return answer, used
            messages.append(ChatMessage("tool", said, tool_call_id=call.id))
    raise AssertionError("the script does not end")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", LINES)
def test_the_agent_makes_its_file_on_any_wire_with_any_shell(wire, stream, tmp_path):
    usage = Usage(1, 100, 20, 30, 7, 5)
    script = shell_script(["echo hi > hello.txt", "cat hello.txt > copy.txt"], usage=usage, reasoning="hm")
    with opened(wire, stream) as line:
        line.reply_with(script)
        for shell in SHELLS if (wire, stream) == ("chat", False) else SHELLS[2:4]:
            folder = tmp_path / shell.name
            folder.mkdir()
            end, used = work(line, (READ, shell), folder)
            assert (folder / "copy.txt").read_text() == "hi\n"
            assert (end.text, end.reasoning) == ("done", "hm")
            assert used == [usage] * 3
            assert [message.role for message in line.server.requests[-1].messages[-4:]] == ["assistant", "tool"] * 2


def test_it_submits_by_a_tool_where_there_is_one(tmp_path):
    with opened("chat", False) as line:
        line.reply_with(shell_script(["echo hi > hello.txt"], answer="42"))
        end, _ = work(line, (SHELLS[1], tool("submit", answer=TEXT)), tmp_path)
    assert json.loads(end.tool_calls[0].arguments) == {"answer": "42"}
    assert (tmp_path / "hello.txt").exists()


def test_it_submits_by_a_command_where_the_prompt_demands_that(tmp_path):
    start = (*START, ChatMessage("user", f"end with `echo {SUBMIT_MARK}`"))
    with opened("chat", False) as line:
        line.reply_with(shell_script(["echo hi > hello.txt"]))
        end, used = work(line, (SHELLS[1],), tmp_path, start)
    assert json.loads(end.tool_calls[0].arguments)["command"] == f"echo {SUBMIT_MARK}"
    assert len(used) == 2


@pytest.mark.parametrize("tools", [(), (READ,)])
def test_a_side_question_gets_the_text(tools):
    with opened("chat", True) as line:
        line.reply_with(shell_script(["exit 1"], answer="a title"))
        assert line.read(line.ask(START, tools)).text == "a title"


LOCAL_SHELL = {"type": "local_shell"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_shell_that_openai_describes_by_itself_is_called_in_its_form(stream):
    async def run():
        async with ModelServer(shell_script(["pwd"])) as server:
            body = {"model": "m", "input": "hi", "tools": [LOCAL_SHELL], "stream": stream}
            return await ask(server, "responses", stream, HEADERS, body)

    got = asyncio.run(run())
    body = got.events[-1]["response"] if stream else json.loads(got.data)
    (item,) = body["output"]
    assert item["type"] == "local_shell_call"
    assert item["action"]["type"] == "exec"
    assert item["action"]["command"] == ["bash", "-lc", "pwd"]
