"""The library's model of OpenAI's responses, less strict; imported only when one is opened."""

from __future__ import annotations

from typing import Any

from openai.types import responses
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIResponsesModel

from proctor.models._conversation import NO_ID, arguments_of
from proctor.models._endpoint import ErrorInAnswer, is_count, text_or_none


class ResponsesModel(OpenAIResponsesModel):
    """An answer is not thrown away for a count or a call that cannot be read."""

    def _process_response(self, response: responses.Response, *arguments: Any, **options: Any) -> ModelResponse:
        error: Any = getattr(response, "error", None)
        if error is not None:
            raise ErrorInAnswer({"message": text_or_none(getattr(error, "message", None))})
        items: Any = getattr(response, "output", None)
        if not isinstance(items, list):
            raise ValueError("the answer has no output")
        for item in response.output:
            if isinstance(item, responses.ResponseFunctionToolCall):
                item.call_id = text_or_none(item.call_id) or NO_ID
                item.name, item.arguments = text_or_none(item.name) or "", text_or_none(item.arguments) or ""
        if not _is_readable(response.usage):
            response.usage = None
        return super()._process_response(response, *arguments, **options)

    def _map_function_call(self, item: ToolCallPart, *arguments: Any, **options: Any) -> Any:
        # The library writes the model's arguments anew, and wraps those that are no JSON.
        return {**super()._map_function_call(item, *arguments, **options), "arguments": arguments_of(item)}

    def _map_response_thinking_part(self, *arguments: Any, should_send_item_id: bool, **options: Any) -> None:
        # A thought without its id would go back as a text that the model never wrote.
        if should_send_item_id:
            super()._map_response_thinking_part(*arguments, should_send_item_id=should_send_item_id, **options)


def _is_readable(usage: responses.ResponseUsage | None) -> bool:
    needed = [getattr(usage, name, None) for name in ("input_tokens", "output_tokens", "total_tokens")]
    read = getattr(getattr(usage, "input_tokens_details", None), "cached_tokens", None)
    thought = getattr(getattr(usage, "output_tokens_details", None), "reasoning_tokens", None)
    return all(is_count(each) for each in needed) and all(each is None or is_count(each) for each in (read, thought))
