"""Whose code executes: that of a plugin, on behalf of a phase of an attempt, or proctor's own."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Protocol

from proctor.model.attempt import Phase

_PLUGIN_PACKAGES = ("proctor.benchmarks", "proctor.graders", "proctor.harnesses", "proctor.testing")
_CALLS_PLUGINS = ("proctor.runtime.", "proctor.authoring.")
"""What calls plugins, and the functions of Python tasks."""
_DEBUGGERS = {"bdb", "pdb", "pydevd", "_pydevd_bundle"}


class Holder(Protocol):
    """The phase of an attempt, as far as it concerns whoever watches the loop."""

    attempt: str
    phase: Phase
    held_seconds: float
    struck: str | None

    def ends_at(self) -> float | None:
        """Return when its limit will be reached, by the time of the loop."""
        ...


HOLDER: ContextVar[Holder | None] = ContextVar("HOLDER", default=None)
"""The phase on whose behalf code runs; tasks that it makes inherit it."""


def plugin_code(frame: FrameType) -> str | None:
    """Return file and line of the plugin's code that executes, or None where it is proctor's own, or is debugged.

    What the standard library executes counts as its caller's. What a library executes that only a plugin can have
    called counts as the plugin's, and both places are returned; one that proctor's models or providers called counts as
    proctor's.
    """
    inner: FrameType | None = None
    outer: FrameType | None = None
    step: FrameType | None = frame
    while step is not None:
        name = str(step.f_globals.get("__name__", ""))
        if name == "asyncio.events" and step.f_code.co_name == "_run":
            break  # below is the event loop
        top = name.partition(".")[0]
        if top in _DEBUGGERS:
            return None
        ours = top == "proctor"
        if (ours and name.startswith(_PLUGIN_PACKAGES)) or (not ours and top not in sys.stdlib_module_names):
            inner, outer = inner or step, step
        if ours:
            if not name.startswith((*_PLUGIN_PACKAGES, *_CALLS_PLUGINS)):
                return None
            break
        step = step.f_back
    if inner is None or outer is None:
        return None
    same = inner.f_code.co_filename == outer.f_code.co_filename
    return _place(inner) if same else f"{_place(outer)}, in {_place(inner)}"


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
