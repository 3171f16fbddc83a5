"""Coroutines that a task's function was given and has to await: which of them it forgot is found when it is over."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from inspect import CORO_CLOSED, CORO_CREATED, getcoroutinestate
from pathlib import Path
from typing import Any, TypeVar

from proctor.authoring.places import caller, place_of_frame

T = TypeVar("T")

LOOKED_THROUGH_AT = 200
"""Coroutines that are over are forgotten whenever there are so many."""


@dataclass(frozen=True, slots=True)
class _Given:
    coroutine: Coroutine[Any, Any, Any]
    what: str
    place: str | None


class Awaiting:
    """The coroutines that one try of a task handed out."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._given: list[_Given] = []

    def watch(self, coroutine: Coroutine[Any, Any, T], what: str) -> Coroutine[Any, Any, T]:
        """Return a coroutine whose being awaited is looked after; `what` is how it is written."""
        if len(self._given) >= LOOKED_THROUGH_AT:
            self._given = [one for one in self._given if getcoroutinestate(one.coroutine) != CORO_CLOSED]
        self._given.append(_Given(coroutine, what, place_of_frame(caller(2), self._project)))
        return coroutine

    def trouble(self) -> str | None:
        """Say what was not awaited, or not to its end, and end it where nobody can any more."""
        said: str | None = None
        for one in self._given:
            state = getcoroutinestate(one.coroutine)
            if state == CORO_CREATED:
                one.coroutine.close()
                why = f"`{one.what}` was never awaited, so that it did nothing: write `await {one.what}`"
            elif state != CORO_CLOSED:
                why = f"`{one.what}` was still going on when the function ended: await it to its end"
            else:
                continue
            said = said or (f"{one.place}: {why}" if one.place else why)
        self._given.clear()
        return said


__all__ = ["Awaiting"]
