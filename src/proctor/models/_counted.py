"""What mock models say that a call used: a stated rule in place of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from proctor.model.attempt import Usage
from proctor.plugins.api import ChatMessage, ToolCall

BYTES_PER_TOKEN = 4


def tokens_of(text: str) -> int:
    """Return the number of tokens that a mock model counts in `text`."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def usage_of(messages: Sequence[ChatMessage], answer: str, tool_calls: Sequence[ToolCall] = ()) -> Usage:
    """Return what a mock model says one call used: names and arguments of tool calls count like texts."""
    said = sum(tokens_of(each.text) + _tokens_of_calls(each.tool_calls) for each in messages)
    return Usage(calls=1, input_tokens=said, output_tokens=tokens_of(answer) + _tokens_of_calls(tool_calls))


def _tokens_of_calls(calls: Sequence[ToolCall]) -> int:
    return sum(tokens_of(call.name) + tokens_of(call.arguments) for call in calls)
