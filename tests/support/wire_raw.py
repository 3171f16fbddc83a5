"""Raw requests to the model server's wires, and what can be read of raw answers: for what no library would accept."""

from __future__ import annotations

import json
from dataclasses import dataclass

import aiohttp

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
ENDS = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def body_of(wire, stream, text="hi"):
    body = {"model": "m", "stream": stream}
    if wire == "responses":
        return body | {"input": text}
    return body | {"max_tokens": 10, "messages": [{"role": "user", "content": text}]}


@dataclass
class Raw:
    """What came: the status, the headers, all bytes, and whether the connection broke."""

    status: int
    headers: dict
    data: bytes
    broken: bool

    @property
    def events(self):
        """The data of each event."""
        lines = [line for line in self.data.split(b"\n") if line.startswith(b"data: ")]
        return [json.loads(line[6:]) for line in lines if line != b"data: [DONE]"]


async def ask(server, wire, stream, headers=HEADERS, body=None, path=None, method="POST"):
    """Send one request and take what comes."""
    address = f"{server.root_url}{path or PATHS[wire]}"
    sent = body_of(wire, stream) if body is None else body
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, address, json=sent, headers=headers) as response,
    ):
        data, broken = b"", False
        try:
            async for piece in response.content.iter_any():
                data += piece
        except aiohttp.ClientError:
            broken = True
        return Raw(response.status, dict(response.headers), data, broken)


def calls_of(wire, raw, stream):
    """Return the tool calls of an answer as they stand on the wire: (id or None, name, arguments) each."""
    if not stream:
        return _whole_calls(wire, json.loads(raw.data))
    if wire == "chat":
        calls = {}
        for event in raw.events:
            for delta in (call for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())):
                call = calls.setdefault(delta["index"], [None, None, ""])
                call[0] = delta.get("id", call[0])
                call[1] = delta["function"].get("name", call[1])
                call[2] += delta["function"]["arguments"]
        return [tuple(call) for call in calls.values()]
    if wire == "responses":
        (done,) = [event["response"] for event in raw.events if event["type"] == "response.completed"]
        return _whole_calls(wire, done)
    calls = {}
    for event in raw.events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = [event["content_block"].get("id"), event["content_block"]["name"], ""]
        elif event["type"] == "content_block_delta" and event["index"] in calls:
            calls[event["index"]][2] += event["delta"]["partial_json"]
    return [tuple(call) for call in calls.values()]


def _whole_calls(wire, body):
    if wire == "chat":
        calls = body["choices"][0]["message"]["tool_calls"]
        return [(call.get("id"), call["function"]["name"], call["function"]["arguments"]) for call in calls]
    if wire == "responses":
        calls = [item for item in body["output"] if item["type"] == "function_call"]
        return [(call.get("call_id"), call["name"], call["arguments"]) for call in calls]
    blocks = [block for block in body["content"] if block["type"] == "tool_use"]
    return [(block.get("id"), block["name"], block["input"]) for block in blocks]
