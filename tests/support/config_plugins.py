"""A harness whose parameters may be anything."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from proctor.plugins.api import AttemptContext


class AnythingOptions(BaseModel):
    free: Any = None
    text: str = ""


class Anything:
    name = "anything"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = AnythingOptions

    def __init__(self, options: AnythingOptions) -> None:
        self.settings = options

    async def start(self, ctx: AttemptContext) -> Any:
        raise NotImplementedError
