"""From the hooks that an experiment declares to functions: what is wrong with them is found here, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.authoring.hook_code import code_of, wrong_call
from proctor.authoring.hooks import declared_timeout
from proctor.authoring.project_files import make_importable
from proctor.cli.teardown import function_at
from proctor.config.layers import BUILT_IN, Source
from proctor.config.problems import Collected, placed
from proctor.errors import UsageError, describe
from proctor.runtime.agent_box import SandboxHooks
from proctor.store.lease_info import FUNCTION_FORMS, TEARDOWN_SECONDS, Teardown, names_function

OF_EXPERIMENT = ("setup", "teardown")
OF_SANDBOX = ("sandbox_setup", "sandbox_teardown")
HOOKS = OF_EXPERIMENT + OF_SANDBOX
COUNTED = ("setup", "sandbox_setup")
"""Those that can change a result."""

NO_SANDBOX_HOOKS = SandboxHooks("")


@dataclass(frozen=True, slots=True)
class ResolvedHooks:
    """The hooks of one experiment. `code` is what those stand for that count in the identity, by name."""

    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of all that are declared, by name: where each is found again."""
    setup: Teardown | None = None
    teardown: Teardown | None = None
    sandbox: SandboxHooks = NO_SANDBOX_HOOKS
    code: Mapping[str, str] = field(default_factory=dict[str, str])


def resolve_hooks(
    experiment: str,
    paths: Mapping[str, str | None],
    functions: Mapping[str, Callable[..., Any]],
    project: Path,
    at: Callable[[str], Source] = lambda _: BUILT_IN,
) -> ResolvedHooks:
    """Find the hooks of an experiment by their paths; `at` says where a field was written.

    Those that `functions` has, by path, are there already. The others are imported here, so that one that is not there
    is an error before anything starts. Raises `UsageError`, which lists everything that is wrong.
    """
    found: dict[str, tuple[str, Callable[..., Any]]] = {}
    wrong = Collected()
    for name in HOOKS:
        path = paths.get(name)
        if path is None:
            continue
        with wrong.gather(), placed(at(name)):
            found[name] = path, _found(name, path, functions.get(path), project.resolve())
    wrong.raise_any()
    runs = {
        name: Teardown(path, declared_timeout(function) or TEARDOWN_SECONDS)
        for name, (path, function) in found.items()
        if name in OF_EXPERIMENT
    }
    sandbox = {name: function for name, (_, function) in found.items()}
    return ResolvedHooks(
        paths={name: path for name, (path, _) in found.items()},
        setup=runs.get("setup"),
        teardown=runs.get("teardown"),
        sandbox=SandboxHooks(
            f"experiment `{experiment}`", sandbox.get("sandbox_setup"), sandbox.get("sandbox_teardown")
        ),
        code={
            name: code
            for name, (_, function) in found.items()
            if name in COUNTED and (code := code_of(function)) is not None
        },
    )


def _found(name: str, path: str, function: Callable[..., Any] | None, project: Path) -> Callable[..., Any]:
    """Return the function of a hook; raises `UsageError`."""
    if not names_function(path):
        raise UsageError(
            f"{name} `{path}` is not of the form {FUNCTION_FORMS}",
            hint="name a function that can be imported from the directory of the project, or one of a file in it",
        )
    if function is None:
        function = _load(name, path, project)
    if not callable(function):
        raise UsageError(f"{name} `{path}` is no function but {type(function).__name__}", hint="name a function")
    if (wrong := wrong_call(function, sandbox=name in OF_SANDBOX)) is not None:
        raise UsageError(f"{name} `{path}` {wrong}", hint="change its parameters")
    return function


def _load(name: str, path: str, project: Path) -> Callable[..., Any]:
    make_importable(project)
    try:
        return function_at(path, project)
    except UsageError as error:
        raise UsageError(f"{name} `{path}`: {error.message}", hint=error.hint) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{name} `{path}` cannot be imported: {describe(error)}",
            hint=f"it is looked for from the directory of the project, {project}",
        ) from error
