"""Clients of the model server's wires: each asks by the official library and reads what comes as it was scripted."""

from __future__ import annotations

import json
from contextlib import contextmanager

import anthropic
import openai
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from proctor.model.attempt import Usage
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer

RESPONSES_EVENT = TypeAdapter(ResponseStreamEvent)
MESSAGES_EVENT = TypeAdapter(RawMessageStreamEvent)

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = (Tool("bash", "runs a command", SCHEMA), Tool("submit", "ends", {"type": "object", "properties": {}}))
CONVERSATION = (
    ChatMessage("system", "be brief"),
    ChatMessage("user", "what is here?"),
    ChatMessage(
        "assistant",
        "I look",
        (ToolCall("c1", "bash", '{"command": "ls"}'), ToolCall("c2", "bash", '{"command": "pwd"}')),
    ),
    ChatMessage("tool", "a b", tool_call_id="c1"),
    ChatMessage("tool", "/work", tool_call_id="c2"),
    ChatMessage("assistant", "two files"),
    ChatMessage("user", "good"),
)


class Line:
    """A client of one wire, and the answer that the server gives to it next."""

    def __init__(self, stream):
        self.stream = stream
        self.next = Answer("nothing")
        self.server = None
        self.script = lambda request: self.next

    def reply_with(self, script):
        self.script = script

    def reply(self, request):
        return self.script(request)


class ChatLine(Line):
    def connect(self):
        self.client = openai.OpenAI(base_url=self.server.base_url, api_key="k", max_retries=0)

    def ask(self, messages=CONVERSATION, tools=TOOLS):
        """Return the completion as the library puts it together."""
        sent = {
            "model": "m",
            "messages": [self._message(each) for each in messages],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in tools
            ],
        }
        if not self.stream:
            return self.client.chat.completions.create(**sent)
        manager = self.client.chat.completions.stream(**sent, stream_options={"include_usage": True})
        with manager as stream:
            for event in stream:
                if event.type == "chunk":
                    ChatCompletionChunk.model_validate(event.chunk.model_dump(), strict=True)
            return stream.current_completion_snapshot

    def _message(self, message):
        said = {"role": message.role, "content": message.text}
        if message.tool_calls:
            said["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        return said | ({"tool_call_id": message.tool_call_id} if message.tool_call_id else {})

    def read(self, got):
        """Return what came as an answer, in the form in which it was scripted."""
        if not self.stream:
            ChatCompletion.model_validate(got.model_dump(), strict=True)
        (choice,) = got.choices
        message, used = choice.message, got.usage
        details, more = used.prompt_tokens_details, used.completion_tokens_details
        read, written = (details.cached_tokens, details.cache_write_tokens) if details else (0, 0)
        assert used.total_tokens == used.prompt_tokens + used.completion_tokens
        return Answer(
            message.content or "",
            Usage(
                calls=1,
                input_tokens=used.prompt_tokens - read - written,
                output_tokens=used.completion_tokens,
                cache_read_tokens=read,
                cache_write_tokens=written,
                reasoning_tokens=more.reasoning_tokens if more else 0,
            ),
            choice.finish_reason,
            got.model,
            tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()),
            getattr(message, "reasoning_content", None),
            message.refusal,
        )


class ResponsesLine(Line):
    def connect(self):
        self.client = openai.OpenAI(base_url=self.server.base_url, api_key="k", max_retries=0)

    def ask(self, messages=CONVERSATION, tools=TOOLS):
        sent = {
            "model": "m",
            "instructions": messages[0].text,
            "input": [item for each in messages[1:] for item in self._items(each)],
            "tools": [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                    "strict": False,
                }
                for t in tools
            ],
        }
        if not self.stream:
            return self.client.responses.create(**sent)
        events = list(self.client.responses.create(**sent, stream=True))
        for event in events:
            RESPONSES_EVENT.validate_python(event.model_dump(), strict=True)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        with self.client.responses.stream(**sent) as stream:  # again, for what the library makes of it
            return stream.get_final_response() if events[-1].type == "response.completed" else events[-1].response

    def _items(self, message):
        if message.role == "tool":
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
        said = [{"role": message.role, "content": message.text}] if message.text else []
        return said + [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]

    def read(self, got):
        Response.model_validate(got.model_dump(exclude={"output": {"__all__": {"parsed_arguments"}}}), strict=False)
        text, refusal, calls, reasoning = "", None, [], None
        for item in got.output:
            if item.type == "message":
                (part,) = item.content
                text = part.text if part.type == "output_text" else ""
                refusal = part.refusal if part.type == "refusal" else None
            elif item.type == "function_call":
                calls.append(ToolCall(item.call_id, item.name, item.arguments))
            else:
                reasoning = item.summary[0].text
        used = got.usage
        details = used.input_tokens_details
        assert used.total_tokens == used.input_tokens + used.output_tokens
        usage = Usage(
            calls=1,
            input_tokens=used.input_tokens - details.cached_tokens - details.cache_write_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=details.cached_tokens,
            cache_write_tokens=details.cache_write_tokens,
            reasoning_tokens=used.output_tokens_details.reasoning_tokens,
        )
        incomplete = got.incomplete_details and got.incomplete_details.reason
        reason = {"max_output_tokens": "length"}.get(incomplete, incomplete) or ("tool_calls" if calls else "stop")
        return Answer(text, usage, reason, got.model, tuple(calls), reasoning, refusal)


class MessagesLine(Line):
    def connect(self):
        self.client = anthropic.Anthropic(base_url=self.server.root_url, api_key="k", max_retries=0)

    def ask(self, messages=CONVERSATION, tools=TOOLS):
        sent = {
            "model": "m",
            "max_tokens": 1000,
            "system": messages[0].text,
            "messages": [self._message(each) for each in messages[1:]],
            "tools": [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in tools],
        }
        if not self.stream:
            return self.client.messages.create(**sent)
        for event in self.client.messages.create(**sent, stream=True):
            MESSAGES_EVENT.validate_python(event.model_dump(), strict=True)
        with self.client.messages.stream(**sent) as stream:  # again, for what the library makes of it
            return stream.get_final_message()

    def _message(self, message):
        if message.role == "tool":
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}
            return {"role": "user", "content": [result]}
        blocks = [{"type": "text", "text": message.text}] if message.text else []
        for call in message.tool_calls:
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)})
        return {"role": message.role, "content": blocks}

    def read(self, got):
        Message.model_validate(got.model_dump(exclude={"content": {"__all__": {"parsed_output"}}}), strict=False)
        text, calls, reasoning = "", [], None
        for block in got.content:
            if block.type == "text":
                text = block.text
            elif block.type == "tool_use":
                calls.append(ToolCall(block.id, block.name, json.dumps(block.input)))
            else:
                reasoning = block.thinking
        used = got.usage
        details = used.output_tokens_details
        usage = Usage(
            calls=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_input_tokens,
            cache_write_tokens=used.cache_creation_input_tokens,
            reasoning_tokens=details.thinking_tokens if details else 0,
        )
        reasons = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
        return Answer(text, usage, reasons[got.stop_reason], got.model, tuple(calls), reasoning)


LINES = {"chat": ChatLine, "responses": ResponsesLine, "messages": MessagesLine}


@contextmanager
def opened(name, stream):
    """Open a server and a client of one wire; `line.next` is what it answers next."""
    line = LINES[name](stream)
    with serve(line.reply) as line.server:
        line.connect()
        with line.client:
            yield line
