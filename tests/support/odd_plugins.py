"""Plugins that are none, break when they are made, or do what a plugin should not."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from proctor.plugins.api import AttemptContext, Collected, Message, Turn


class Unmodelled:
    """Has options of a kind that nothing can be validated with."""

    needs_model = False
    options = dict

    async def start(self, ctx: Any) -> None:
        pass


class BreaksOptions(BaseModel):
    api_key: str = ""


class Breaks:
    """Cannot be made, and says its key."""

    needs_model = False
    options = BreaksOptions

    def __init__(self, options: BreaksOptions) -> None:
        raise RuntimeError(f"{options.api_key} is no good")

    async def start(self, ctx: Any) -> None:
        pass


class Looking:
    """Answers where the standard streams of the process lead to."""

    name = "looking"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = BreaksOptions

    def __init__(self, options: BreaksOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> Looking:
        return self

    async def send(self, message: Message) -> Turn:
        return Turn(" ".join(os.readlink(f"/proc/self/fd/{number}") for number in range(3)))

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass
