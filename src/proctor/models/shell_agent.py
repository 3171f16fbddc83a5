"""An agent without a model behind it: runs given commands by whatever shell tool it is offered, then says its answer.

It keeps nothing between calls: which command is next is read from the conversation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from proctor.model.spec import Json
from proctor.models._counted import usage_of
from proctor.plugins.api import ChatMessage, Completion, Tool, ToolCall

_SHELL_NAMES = ("bash", "shell", "terminal", "command", "exec")
_SUBMIT_NAMES = ("submit", "final_answer", "finish", "answer", "done", "task_complete")
_COMMAND_FIELDS = ("command", "cmd", "script", "input", "code")
_ANSWER_FIELDS = ("answer", "result", "output", "text", "message")
_BLANKS: dict[str, Json] = {"string": "", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
"""What is written for a required argument that says nothing of the command."""


def shell_agent(
    commands: Sequence[str], answer: str, model: str | None = None
) -> Callable[[Sequence[ChatMessage], Sequence[Tool]], Completion]:
    """Return a script that makes one call for each command, in order, then submits `answer`, or says it.

    It submits once where a tool for that is offered. A conversation in which no shell tool is offered gets the answer.
    """

    def script(messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        shell, submit = _named(tools, _SHELL_NAMES, parts=True), _named(tools, _SUBMIT_NAMES)
        made = [call for message in messages for call in message.tool_calls]
        ran = 0 if shell is None else sum(call.name == shell.name for call in made)
        call_id = f"call-{len(made) + 1}"
        if shell is not None and ran < len(commands):
            arguments = _arguments(shell, _COMMAND_FIELDS, commands[ran])
            return _completion(messages, "", (ToolCall(call_id, shell.name, arguments),), model)
        if submit is not None and not any(call.name == submit.name for call in made):
            arguments = _arguments(submit, _ANSWER_FIELDS, answer)
            return _completion(messages, "", (ToolCall(call_id, submit.name, arguments),), model)
        return _completion(messages, answer, (), model)

    return script


def _completion(
    messages: Sequence[ChatMessage], text: str, calls: tuple[ToolCall, ...], model: str | None
) -> Completion:
    reason = "tool_calls" if calls else "stop"
    return Completion(text, usage_of(messages, text, calls), model, reason, tool_calls=calls)


def _named(tools: Sequence[Tool], names: Sequence[str], *, parts: bool = False) -> Tool | None:
    """Return the tool with one of the names, the first name first; with `parts` else one that has it in its name."""
    for fits in (str.__eq__, str.__contains__) if parts else (str.__eq__,):
        for name in names:
            for tool in tools:
                if fits(tool.name.lower(), name):
                    return tool
    return None


def _arguments(tool: Tool, fields: Sequence[str], value: str) -> str:
    """Return arguments that fit the tool's schema, with the value in the field that is meant for it."""
    schema = _object(tool.parameters)
    known = _object(schema.get("properties"))
    field = next((each for each in fields if each in known), next(iter(known), fields[0]))
    listed = schema.get("required")
    required = cast("list[str]", listed) if isinstance(listed, list) else []
    arguments: dict[str, Json] = {
        name: _BLANKS.get(str(_object(known.get(name)).get("type")), "") for name in required if name != field
    }
    # A shell tool that takes a program with its arguments gets a shell for it.
    takes_list = _object(known.get(field)).get("type") == "array"
    arguments[field] = ["bash", "-lc", value] if takes_list else value
    return json.dumps(arguments)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
