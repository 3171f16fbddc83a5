"""The contract of tools that a benchmark brings, with mails or accounts of a task's own; part of `plugins.api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from proctor.model.spec import Json
from proctor.plugins.models import Tool

if TYPE_CHECKING:
    from proctor.plugins.api import AttemptContext

TOOL_CALLS = "tool-calls.json"
"""The file of an attempt that has what was called, in order, for its grader: a list of `{"name", "arguments"}`."""


class Tools(Protocol):
    """The tools of one attempt, with a world of its own behind them."""

    @property
    def offered(self) -> Sequence[Tool]:
        """What a harness offers to its model, beside tools of its own."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Call one, and return what the model is shown; that a call was a wrong one is such a text too.

        Raises where the tool itself fails, which ends the try.
        """
        ...


class BringsTools(Protocol):
    """What a benchmark has beside the rest whose tasks have tools. Its harness has to have `takes_tools`."""

    async def tools(self, ctx: AttemptContext) -> Tools:
        """Return the tools of a try, in phase setup. Its grader finds what was called in the file `TOOL_CALLS`."""
        ...


class NoTools:
    """The tools of all other benchmarks."""

    offered: Sequence[Tool] = ()

    async def call(self, name: str, arguments: Mapping[str, Json]) -> str:
        """Raise `LookupError`: there is none."""
        raise LookupError(f"the benchmark has no tool `{name}`")


NO_TOOLS: Final = NoTools()
