"""The contract of sessions: what is sent to an agent, what comes back, what is kept; part of `proctor.plugins.api`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from proctor.model.attempt import Usage
from proctor.model.spec import Json


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent to the agent in one turn; `step` is the name of the step of its task that begins with it, if any."""

    text: str
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What came back from the agent in one turn.

    What it used and how many steps it took (calls of a model, commands: as the harness counts them) are None where the
    harness does not say; what the calls of the try used comes from `AttemptContext.usage` all the same.
    """

    answer: str | None
    usage: Usage | None = None
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What is kept of a session: the trajectory as a JSON value (ATIF), and files by name."""

    trajectory: Json | None = None
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class Session(Protocol):
    """A started harness."""

    async def send(self, message: Message) -> Turn:
        """Make one turn."""
        ...

    async def collect(self) -> Collected:
        """Return what is to be kept; called after failure and timeout too."""
        ...

    async def close(self) -> None:
        """Free what the session holds."""
        ...
