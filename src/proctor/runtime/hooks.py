"""What the loop needs of others: of whoever decides, and of whoever looks after experiments as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from proctor.core.commands import AcquireLease, CloseLane, Command, OpenLane, ReleaseLease, RunSetup, RunTeardown
from proctor.errors import InternalError
from proctor.model.events import Event, Notice, RunEvent


class DecidesNext(Protocol):
    """The scheduler, as the loop sees it."""

    def start(self, *, now: float) -> list[Command]:
        """Return the first commands."""
        ...

    def handle(self, event: Event | Notice, *, now: float) -> list[Command]:
        """Return what is to be done because of `event`."""
        ...


HookCommand = AcquireLease | ReleaseLease | RunSetup | RunTeardown | OpenLane | CloseLane
"""Commands about an experiment as a whole; each but `OpenLane` is answered by one event."""


class CarriesOut(Protocol):
    """Carries out what concerns an experiment as a whole, and answers by events."""

    @property
    def pending(self) -> int:
        """How much of what it began has not ended, teardowns left out."""
        ...

    def carry_out(self, command: HookCommand, emit: Callable[[RunEvent], None]) -> None:
        """Begin; returns at once."""
        ...

    def interrupt(self) -> None:
        """Cut short what waits or runs, but no teardown."""
        ...

    def force(self, *, teardowns: bool) -> None:
        """Let nothing take longer than a hurry allows; with `teardowns` these neither: what is cut off is owed."""
        ...

    async def abandon(self) -> None:
        """After a bug: give up waiting, close lanes, run the teardowns that are owed, release leases."""
        ...

    async def close(self) -> None:
        """Wait for what still runs."""
        ...


class NoHooks:
    """For invocations without setup, teardown, leases and lanes: a command for one is a bug."""

    pending = 0

    def carry_out(self, command: HookCommand, emit: Callable[[RunEvent], None]) -> None:
        """Refuse."""
        raise InternalError(f"nothing here can carry out {command}")

    def interrupt(self) -> None:
        """Do nothing."""

    def force(self, *, teardowns: bool) -> None:
        """Do nothing."""

    async def abandon(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
