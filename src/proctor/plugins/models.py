"""The contract of models: what is sent, what comes back; part of `proctor.plugins.api`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation; `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered. `usage` is None when the endpoint reported none."""

    text: str
    usage: Usage | None
    model: str | None = None
    stop_reason: str | None = None


class Model(Protocol):
    """A model behind its endpoint."""

    spec: ModelSpec

    async def complete(self, messages: Sequence[ChatMessage]) -> Completion:
        """Make one call, never repeated in silence; raises `Fault` with a `model.*` code."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


OpenModel = Callable[[ModelSpec], Model]
"""A model family, as registered: makes a model from its specification."""
