"""Functions of a project that are called around attempts: how they are named, and what they count as.

A hook runs in a process of its own, or long after the file that names it was read: it has to be found again by its
path, `experiments/x.py:prepare` or `package.module:function`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from proctor.authoring.project_files import place_of
from proctor.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

ELSEWHERE = "define it with `def` at the top of a file, and name it"


def hook(*, identity: str | None = None, timeout_seconds: float | None = None) -> Callable[[F], F]:
    """Say what a hook stands for, in place of its source, and how long it may take.

    While `identity` stays, results stay comparable. `timeout_seconds` is for `setup` and `teardown` of experiments,
    which have 30 s otherwise; those of sandboxes are bound by the limits of phases.

    @hook(identity="fixtures-v2", timeout_seconds=300)
    def prepare(): ...
    """
    if identity is not None and (not identity or type(identity) is not str):
        raise UsageError(
            f"the identity of a hook is {identity!r}, not a text", hint='for example `@hook(identity="v1")`'
        )
    number = isinstance(timeout_seconds, int | float) and not isinstance(timeout_seconds, bool)
    if timeout_seconds is not None and not (number and 0 < timeout_seconds < float("inf")):
        raise UsageError(
            f"the limit of a hook is {timeout_seconds!r}, not a finite number of seconds above 0",
            hint="for example `@hook(timeout_seconds=120)`",
        )

    def mark(function: F) -> F:
        if identity is not None:
            cast("Any", function).identity = identity
        if timeout_seconds is not None:
            cast("Any", function).timeout_seconds = timeout_seconds
        return function

    return mark


def declared_identity(function: Callable[..., Any]) -> str | None:
    """Return the identity that a hook declares, if it does."""
    identity = getattr(function, "identity", None)
    return identity if isinstance(identity, str) and identity else None


def declared_timeout(function: Callable[..., Any]) -> float | None:
    """Return the limit in seconds that a hook declares, if it does."""
    seconds = getattr(function, "timeout_seconds", None)
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None


def hook_path(function: Callable[..., Any], project: Path) -> str:
    """Return the path of a function: by its file where that is the project's own, else by its module.

    Raises `UsageError` for what could not be found again by a path.
    """
    name = getattr(function, "__qualname__", None)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if not isinstance(name, str) or module is None or type(function).__name__ == "method":
        raise UsageError(f"{function!r} is no function", hint=ELSEWHERE)
    if "<lambda>" in name:
        raise UsageError("a lambda cannot be found again by a path", hint=ELSEWHERE)
    if "<locals>" in name:
        raise UsageError(f"`{name}` is defined inside a function and cannot be found again by a path", hint=ELSEWHERE)
    file = getattr(module, "__file__", None)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function:
        raise UsageError(
            f"`{name}` of `{place_of(file, project) if file else module.__name__}` is not this function any more",
            hint="give each function a name of its own, and use `functools.wraps` in decorators",
        )
    if module.__name__ == "__main__" or file is None:
        raise UsageError(f"`{name}` is defined in no file of a project", hint="put it into a file, and import it")
    path = Path(file).resolve()
    if path.is_relative_to(project.resolve()) and "site-packages" not in path.parts:
        return f"{place_of(path, project.resolve())}:{name}"
    return f"{module.__name__}:{name}"
