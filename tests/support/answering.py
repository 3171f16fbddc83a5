"""A model that answers, or raises, what it is told to, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proctor.errors import Fault
from proctor.model.spec import ModelSpec
from proctor.plugins.api import ChatMessage, Completion


class Answering:
    """It is closed by whoever made it: a try must not."""

    def __init__(self, *replies: Completion | Fault) -> None:
        self.spec = ModelSpec("mock/m")
        self.replies = list(replies)

    async def complete(self, messages: Sequence[ChatMessage], tools: Any = ()) -> Completion:
        reply = self.replies.pop(0)
        if isinstance(reply, Fault):
            raise reply
        return reply

    async def close(self) -> None:
        raise AssertionError("it is not the try's to close")
