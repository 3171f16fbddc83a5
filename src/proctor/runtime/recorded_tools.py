"""The tools of a benchmark in one try: every call is kept, in order, for the grader and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

from proctor.errors import boundary
from proctor.model.attempt import Phase
from proctor.model.bounds import shortened
from proctor.model.spec import Json
from proctor.plugins.api import TOOL_CALLS, AttemptContext, Collected, Message, Session, Tool, Tools, Turn
from proctor.runtime.notes import Notes

SHOWN_CHARACTERS = 200
DEPTH_AT_MOST = 100
"""How deep arguments may nest: what reads them again goes level by level, and not for ever."""


class RecordedTools:
    """Tools whose calls are kept. What they raise is the benchmark's trouble, not the harness's."""

    def __init__(self, tools: Tools, context: AttemptContext, notes: Notes) -> None:
        self._tools = tools
        self._context = context
        self._notes = notes
        self.calls: list[dict[str, Json]] = []

    @property
    def offered(self) -> Sequence[Tool]:
        """What there is to call."""
        return self._tools.offered

    async def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Call one. Raises `Fault` (tool.crashed). What nobody could apply again is no call, and the model is told."""
        if _nests_deeper(arguments, DEPTH_AT_MOST):
            return f"not run: the arguments nest deeper than {DEPTH_AT_MOST} levels"
        kept = deepcopy(dict(arguments))
        self.calls.append({"name": name, "arguments": kept})
        self._context.progress(f"{name} {shortened(json.dumps(kept), SHOWN_CHARACTERS)}")
        with boundary(self._notes.phase or Phase.AGENT, "tool.crashed"):
            shown: Any = await self._tools.call(name, arguments)
            if not isinstance(shown, str):
                raise TypeError(f"tool `{name}` returned {type(shown).__name__}, not text")
            return shown


def _nests_deeper(value: Any, levels: int) -> bool:
    """Say whether values are within more than so many others."""
    within: list[Any] = [value]
    while within and levels >= 0:
        levels -= 1
        parts: list[Any] = [one.values() if isinstance(one, Mapping) else one for one in within if not _is_plain(one)]
        within = list(chain.from_iterable(parts))
    return bool(within)


def _is_plain(value: Json) -> bool:
    return not isinstance(value, Mapping | list | tuple)


class RecordingSession:
    """A session of which the calls of tools are collected as well."""

    def __init__(self, session: Session, tools: RecordedTools) -> None:
        self._session = session
        self._tools = tools

    async def send(self, message: Message) -> Turn:
        """Make one turn."""
        return await self._session.send(message)

    async def collect(self) -> Collected:
        """Return what the session keeps, and the calls."""
        found: Any = await self._session.collect()
        if not isinstance(found, Collected):
            return found  # the runner refuses it
        return replace(found, files={**found.files, TOOL_CALLS: json.dumps(self._tools.calls, indent=1).encode()})

    async def close(self) -> None:
        """Free what the session holds."""
        await self._session.close()


__all__ = ["RecordedTools", "RecordingSession"]
