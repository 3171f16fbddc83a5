"""How every door enters: the project is read, experiments are declared in it, and all of it is resolved at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proctor.authoring.project_files import make_importable
from proctor.cli.controls import Controls, resolve_controls
from proctor.cli.junit_file import checked_junit
from proctor.cli.model_limits import endpoints_of
from proctor.cli.optional_values import LEFT_OUT
from proctor.cli.resolve import Resolved, resolve_all
from proctor.cli.results_place import current_directory
from proctor.cli.rooms import Options
from proctor.cli.saved_work import Reusing, reusing_of
from proctor.cli.typed import typed_layers
from proctor.config.declared import Declared
from proctor.config.layers import Layer, layered
from proctor.config.problems import Collected, redact
from proctor.config.project import PROJECT_FILE, Project, load_project
from proctor.config.scalars import substituted_in
from proctor.core.aggregate import Missing
from proctor.core.reuse import Rerun
from proctor.errors import UsageError
from proctor.model.secrets import secrets_in
from proctor.runtime.redact import Redactor


@dataclass(frozen=True, slots=True)
class Declarations:
    """Experiments, and what was declared for the whole invocation beside them: layers of its sections."""

    declared: Sequence[Declared]
    execution: Sequence[Layer] = ()
    runtime: Sequence[Layer] = ()


Declares = Callable[[Project], "Sequence[Declared] | Declarations"]


def open_project(shared: Mapping[str, Any], start: Path | None = None) -> Project:
    """Read the project that a command is given in, with what was typed, and put what `.env` adds into the environment.

    Raises `UsageError`, which lists what is wrong with its files.
    """
    fields, sections = typed_layers(shared)
    files = [Path(name) for name in shared.get("config") or ()]
    project = load_project(start or current_directory(), files, os.environ)
    for name, value in project.environ.items():
        os.environ.setdefault(name, value)
    # What is named as `package.module:function` may be the project's own; any other directory may hold anything.
    make_importable(project.directory, first=(project.directory / PROJECT_FILE).is_file())
    return project.with_typed(fields, sections)


def enter(shared: Mapping[str, Any], declares: Declares, **more: Any) -> tuple[list[Resolved], Options]:
    """Return the experiments that are declared in the project, resolved, and what is asked for beside them.

    `shared` are the options that commands share, by their parameters; `more` are fields of `Options`. Raises one
    `UsageError` that lists everything wrong; nothing was started then.
    """
    resolved, controls = resolve_declared(open_project(shared), declares)
    own = any(one.reuse for one in resolved)
    options = options_of(shared, controls, own=own, **more)
    return resolved, replace(options, own_reusing=own_reusing(shared, options, resolved))


def resolve_declared(project: Project, declares: Declares) -> tuple[list[Resolved], Controls]:
    """Return the experiments that are declared in a project, resolved, and the limits of the invocation.

    Raises one `UsageError` that lists everything wrong.
    """
    known = set(project.secrets)
    try:
        found = declares(project)
        declarations = found if isinstance(found, Declarations) else Declarations(found)
        known |= secrets_declared(declarations.declared)
        resolved: list[Resolved] = []
        wrong = Collected()
        with wrong.gather():
            resolved = resolve_all([_over(declarations.execution, one) for one in declarations.declared])
        controls: Controls | None = None
        with wrong.gather():
            controls = controls_of(project, declarations, resolved)
        wrong.raise_any()
    except UsageError as error:
        redact(error, Redactor(known).text)
        raise
    assert controls is not None
    return resolved, controls


def _over(execution: Sequence[Layer], declared: Declared) -> Declared:
    """Return an experiment over what was declared of its section `execution` for all of them."""
    return replace(declared, execution=layered([*execution, *declared.execution.layers])) if execution else declared


def secrets_declared(declared: Sequence[Declared]) -> set[str]:
    """Return the credentials that experiments were declared with, which no error may repeat."""
    trees = [layer.tree for one in declared for layer in one.fields.layers]
    return {*substituted_in(trees), *secrets_in(trees), *(text for one in declared for text in one.secrets)}


def controls_of(project: Project, declarations: Declarations, resolved: Sequence[Resolved]) -> Controls:
    """Return the limits of an invocation. Raises `UsageError`."""
    return resolve_controls(
        project.section("execution", declarations.execution),
        project.section("runtime", declarations.runtime),
        models=[model for one in resolved for model in endpoints_of(one.experiment)],
        providers=[one.provider for one in resolved],
    )


def options_of(shared: Mapping[str, Any], controls: Controls, *, own: bool = False, **more: Any) -> Options:
    """Return what the command line asks of the session; `own` is as for `reusing_typed`. Raises `UsageError`."""
    asked: dict[str, Any] = {
        "controls": controls,
        "task_ids": shared["task_ids"],
        "limit": shared["limit"],
        "tags": shared.get("tags", ()),
        "run_name": shared["run_name"],
        "run_id": shared["run_id"],
        "progress": shared["progress"],
        "as_json": shared["as_json"],
        "attempt_files": not shared["no_attempt_files"],
        "log_level": shared.get("log_level", "INFO"),
        "file_log_level": shared["file_log_level"],
        "missing": Missing(shared["missing"]) if shared.get("missing") else None,
        "junit": checked_junit(shared.get("junit")),
        "reusing": reusing_typed(shared, checkpoint_resume=controls.checkpoint_resume, own=own),
    }
    return Options(**{**asked, **more})


def own_reusing(shared: Mapping[str, Any], options: Options, resolved: Sequence[Resolved]) -> dict[str, Reusing | None]:
    """Return what experiments say themselves of earlier runs, where the command says nothing."""
    own: dict[str, Reusing | None] = {}
    for one in resolved:
        resume = options.controls.checkpoint_resume if one.checkpoint_resume is None else one.checkpoint_resume
        resume = resume and not shared.get("no_checkpoint_resume")
        if shared.get("reuse") is None and one.reuse is not None:
            again = _rerun(shared) if one.reuse else None
            own[one.experiment.name] = reusing_of(one.reuse, again, checkpoint_resume=resume)
        elif options.reusing is not None:
            own[one.experiment.name] = replace(options.reusing, checkpoint_resume=resume)
    return own


def reusing_typed(shared: Mapping[str, Any], *, checkpoint_resume: bool, own: bool = False) -> Reusing | None:
    """Return what the command line says about earlier runs. Raises `UsageError`.

    `own` says that experiments say themselves that they reuse.
    """
    reuse, rerun = shared.get("reuse"), shared.get("rerun")
    for option, value in (("--reuse", reuse), ("--rerun", rerun)):
        if value == "":
            raise UsageError(f"the value of `{option}=` is empty", hint=f"leave the `=` out, or write `{option}=VALUE`")
    if reuse is None:
        for option in ("rerun", "no_checkpoint_resume"):
            if shared.get(option) and not own:
                name = "--" + option.replace("_", "-")
                raise UsageError(
                    f"`{name}` needs a command that reuses what is saved, and this one executes everything",
                    hint=f"add `--reuse`, or leave `{name}` out",
                )
        return None
    resume = checkpoint_resume and not shared.get("no_checkpoint_resume")
    return reusing_of(True if reuse == LEFT_OUT else reuse, _rerun(shared), checkpoint_resume=resume)


def _rerun(shared: Mapping[str, Any]) -> Rerun | None:
    rerun = shared.get("rerun")
    if rerun not in (None, LEFT_OUT, *Rerun):
        raise UsageError(f"`{rerun}` is nothing to run again", hint="write `--rerun failed` or `--rerun all`")
    return None if rerun is None else Rerun.FAILED if rerun == LEFT_OUT else Rerun(rerun)
