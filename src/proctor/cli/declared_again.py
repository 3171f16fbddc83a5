"""The experiment of earlier runs, declared again: what it is today, with the plugins and tasks of today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from proctor.authoring.environment_spec import declared_as
from proctor.authoring.project_files import joined
from proctor.cli.entry import Declarations
from proctor.cli.listing import declared_of
from proctor.cli.typed import argument_layer
from proctor.config.declare import declare
from proctor.config.declared import Declared
from proctor.config.discover import FOLDER, discover
from proctor.config.layers import Layer, Level, Source, Tree
from proctor.config.project import Project
from proctor.config.schema import ModelConfig
from proctor.errors import UsageError
from proctor.runtime.redact import holds_mark
from proctor.store.plan_file import PlanFile

NO_CREDENTIAL = "no model is called to accept an attempt"
"""In place of a model's credential, which is nowhere written and is not needed here."""

_FIELDS = ("benchmark", "harness", "grading", "setup", "teardown", "sandbox_setup", "sandbox_teardown", "flags")
"""Fields that are called the same in a plan and where people declare them."""


def declared_again(project: Project, plans: Sequence[PlanFile], names: Sequence[str]) -> Declared:
    """Return the experiment of runs, by their plans, newest first; it keeps the directory that its runs are in.

    It is what `names` (benchmark, harness, model) say with what was typed; without them what its file in the project
    says today, where it is an experiment in Python, and else what its plans say. Raises `UsageError`.
    """
    experiment: Any = plans[0].experiment
    name, directory = str(experiment.get("name")), experiment.get("directory")
    if not names and directory is not None:
        found = _in_python(project, directory)
        if found is not None:
            return found
    layers = [fields_again(plans)] if not names else _layers_of(names)
    if names and directory is None:
        name = "/".join(names)
    words = {field: experiment[field] for field in ("tags", "labels") if experiment.get(field)}
    if words:
        layers = [Layer(Source(Level.DECLARED, name), words), *layers]
    return declare(project, name, layers, directory=directory)


def of_launch(launched: Declarations, file: str, plans: Sequence[PlanFile]) -> Declared:
    """Return the request of a launch file that made runs. Raises `UsageError` where there is none."""
    experiment: Any = plans[0].experiment
    for one in launched.declared:
        if one.directory is not None and one.directory == experiment.get("directory"):
            return one
    raise UsageError(
        f"no request of `{file}` made the run of these attempts: it was of `{experiment.get('name')}`",
        hint=f"its requests are {', '.join(f'`{one.name}`' for one in launched.declared)}",
    )


def _in_python(project: Project, directory: str) -> Declared | None:
    """Return the experiment in Python with an id, if there is one; of a file that cannot be read it is said why."""
    if not (project.directory / FOLDER).is_dir():
        return None
    found = discover(project.directory, lambda file: directory == file or directory.startswith(f"{file}/"))
    for one in found.found:
        if one.id == directory:
            return declared_of(one, project)
    if found.errors:
        raise joined(list(found.errors))
    return None


def _layers_of(names: Sequence[str]) -> list[Layer]:
    """Return layers of what was named; the credential of a model is not needed to accept an attempt."""
    benchmark, harness, *model = names
    named = argument_layer(benchmark=benchmark, harness=harness, model=model[0] if model else None)
    spared = Layer(Source(Level.DEFAULTS, "accept"), {"model": {"api_key": NO_CREDENTIAL}})
    return [named, spared] if model else [named]


def fields_again(plans: Sequence[PlanFile]) -> Layer:
    """Return the fields of an experiment that count in the identity of its slots, from the plans of runs, newest first.

    Limits and retries are left out: those of today hold. Raises `UsageError` where the runs differ in a field, and
    where a value that counts was not written because it holds a credential.
    """
    trees = [_fields(plan.experiment) for plan in plans]
    first = trees[0]
    differing = sorted(
        {name for tree in trees for name in first.keys() | tree.keys() if first.get(name) != tree.get(name)}
    )
    if differing:
        raise UsageError(
            f"the runs of these attempts were declared differently, in {', '.join(f'`{name}`' for name in differing)}; "
            "nothing was accepted",
            hint="say what holds today as for `run`: `proctor accept @ATTEMPT ... BENCHMARK HARNESS MODEL`",
        )
    for name in ("benchmark", "harness", "model", "judge", "flags", "artifacts", "environment"):
        if holds_mark(_that_counts(name, first.get(name))):
            raise UsageError(
                f"`{name}` of the run holds a credential, which is nowhere written; nothing was accepted",
                hint="say what it is as for `run`: `proctor accept @ATTEMPT ... BENCHMARK HARNESS MODEL`",
            )
    attempts = max((len(plan.ordinals) for plan in plans), default=1)
    return Layer(Source(Level.DECLARED, "the plan of its run"), {**first, "attempts": attempts})


def _that_counts(name: str, value: Any) -> Any:
    """Return a part without its values in which credentials count for nothing."""
    if name != "environment" or not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in cast("Tree", value).items() if key not in ("env", "build")}


def _fields(experiment: Any) -> Tree:
    """Return fields as they are declared, without those that say nothing."""
    plain = cast("Mapping[str, Any]", experiment)
    tree: Tree = {name: plain.get(name) for name in _FIELDS}
    for part in ("model", "judge"):
        model: Any = plain.get(part)
        if isinstance(model, Mapping):
            named = {name: cast("Tree", model).get(name) for name in ModelConfig.model_fields}
            written = {name: value for name, value in named.items() if value is not None}
            tree[part] = {**written, "api_key": NO_CREDENTIAL}
    environment: Any = plain.get("environment")
    if isinstance(environment, Mapping):
        tree["environment"] = declared_as(cast("Tree", environment))
    if plain.get("shared_state_key") is not None:
        tree["shared_state"] = {"key": plain["shared_state_key"]}
    if plain.get("sandbox_reuse"):
        tree["sandbox_reuse"] = True
    if plain.get("artifacts"):
        tree["artifacts"] = plain["artifacts"]
    return {name: value for name, value in tree.items() if value not in (None, {})}
