"""From a launch file, or a mapping like one, to the experiments that it declares in a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proctor.cli.entry import Declarations
from proctor.cli.resolve import resolve_all
from proctor.config.declare import declare
from proctor.config.declared import Declared
from proctor.config.launch import Launch, Request, read_launch
from proctor.config.layers import Layer, Level, Source
from proctor.config.problems import Collected, Problem, redact
from proctor.config.project import Project
from proctor.config.scalars import hidden_in, substituted_in
from proctor.errors import UsageError
from proctor.runtime.redact import Redactor

MAPPING = Source(Level.DEFAULTS, "the launch")
"""Where values come from that stand in no file."""


def of_file(path: Path, project: Project) -> Declarations:
    """Return what a launch file declares. Raises one `UsageError` that lists everything wrong with it."""
    from proctor.config.yaml_file import read_yaml  # noqa: PLC0415 - slow to import, and for such files only

    file = read_yaml(path, Level.DEFAULTS, project.environ)
    try:
        launch = None if not file.layer.tree and file.problems else read_launch(file.layer)
        return _declarations(launch, file.layer, file.problems, project)
    except UsageError as error:
        redact(error, Redactor(substituted_in(file.layer.tree)).text)
        raise


def of_mapping(tree: Mapping[str, Any], project: Project) -> Declarations:
    """Return what a mapping declares that is like a launch file. Raises as `of_file`."""
    layer = Layer(MAPPING, tree)
    return _declarations(read_launch(layer), layer, (), project)


def _declarations(launch: Launch | None, file: Layer, problems: Sequence[Problem], project: Project) -> Declarations:
    secrets = frozenset(hidden_in(file.tree))
    wrong = Collected()
    wrong.add([*problems, *(launch.problems if launch is not None else ())])
    declared: list[Declared] = []
    for one in launch.requests if launch is not None else ():
        made = _declared(one, project, secrets)
        missing = [part for part in ("benchmark", "harness") if made.fields.tree.get(part) is None]
        wrong.add(
            Problem(
                f"request `{one.name}` names no {part}", f"write `{part}: ...` in it, or in the defaults", one.source
            )
            for part in missing
        )
        if not missing:
            declared.append(made)
    if wrong.problems:
        with wrong.gather():
            resolve_all(declared)  # so that what is wrong with the sound ones is said at once
        wrong.raise_any()
    assert launch is not None
    return Declarations(declared, [launch.execution], [launch.runtime])


def _declared(one: Request, project: Project, secrets: frozenset[str]) -> Declared:
    declared = declare(
        project,
        one.name,
        one.fields,
        directory=one.name,
        reuse=one.reuse,
        checkpoint_resume=one.checkpoint_resume,
        execution=one.execution,
    )
    return replace(declared, secrets=declared.secrets | secrets)
