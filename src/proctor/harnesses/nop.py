"""Harness `nop`: does nothing. A task that it passes is passed for free."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from proctor.plugins.api import AttemptContext, Collected, Message, Turn


class NopOptions(BaseModel):
    """There are none."""

    model_config = ConfigDict(extra="forbid")


class NopHarness:
    """Gives no answer."""

    name = "nop"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    takes_tools = True
    options: type[BaseModel] = NopOptions

    def __init__(self, options: NopOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> NopSession:
        """Start at once."""
        return NopSession()


class NopSession:
    """A session in which nothing happens."""

    async def send(self, message: Message) -> Turn:
        """Answer nothing."""
        return Turn(answer=None)

    async def collect(self) -> Collected:
        """Return nothing."""
        return Collected()

    async def close(self) -> None:
        """Free nothing."""
