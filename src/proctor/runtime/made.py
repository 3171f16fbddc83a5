"""What plugins make for a try is looked at before it is used: a session, a sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.plugins.api import Sandbox, Session

_OF_SESSION = ("send", "collect", "close")
_OF_SANDBOX = ("id", "workdir", "exec", "upload", "download", "dispose")
"""What a try itself uses of every sandbox."""


def session_of(made: Any) -> Session:
    """Return what a harness started; raises `Fault` for what is no session."""
    if missing := _missing(made, _OF_SESSION):
        raise Fault("harness.crashed", f"the harness started {type(made).__name__}, which is no session: {missing}")
    return made


def sandbox_of(made: Any) -> tuple[Sandbox, str]:
    """Return what a provider opened, and its name; raises `Fault` for what is no sandbox."""
    if missing := _missing(made, _OF_SANDBOX):
        why = f"the provider opened {type(made).__name__}, which is no sandbox: {missing}"
        raise Fault("provider.open_failed", why, phase=Phase.OPEN)
    if not isinstance(made.workdir, str):
        why = f"the work directory of the sandbox is {type(made.workdir).__name__}, not a text"
        raise Fault("provider.open_failed", why, phase=Phase.OPEN)
    return made, str(made.id)


def _missing(made: Any, names: Iterable[str]) -> str | None:
    missing = ", ".join(name for name in names if not hasattr(made, name))
    return f"it has no {missing}" if missing else None
