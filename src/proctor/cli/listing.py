"""What a project holds that can be listed: its experiments and tasks, and what is wrong with the files of others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from proctor.authoring.discover_tasks import found_tasks
from proctor.cli.planning import tasks_of
from proctor.cli.resolve import resolve
from proctor.cli.typed import argument_layer
from proctor.config.declare import declare
from proctor.config.declared import Declared
from proctor.config.discover import Discovered, Found
from proctor.config.in_python import in_python
from proctor.config.layers import Tree
from proctor.config.project import Project
from proctor.errors import ProctorError, UsageError


@dataclass(slots=True)
class Listing:
    """Rows, and what is wrong with what could not be listed."""

    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    errors: list[ProctorError] = field(default_factory=list[ProctorError])


def declared_of(found: Found, project: Project) -> Declared:
    """Return an experiment in Python with what holds in the project beneath it. Raises `UsageError`."""
    says = in_python(found.experiment, project.directory)
    return declare(
        project,
        found.id,
        [says.layer],
        directory=found.id,
        choose=says.choose,
        hooks=says.hooks,
    )


def list_experiments(discovered: Discovered, project: Project) -> Listing:
    """Return the experiments of a project, each as far as it can be resolved; nothing of them is run."""
    listing = Listing(errors=list(discovered.errors))
    for found in discovered.found:
        row: dict[str, Any] = {"id": found.id, "file": found.experiment.place()}
        row |= dict.fromkeys(("tasks", "attempts", "benchmark", "harness", "model"))
        row["tags"] = []
        try:
            declared = declared_of(found, project)
            row["tags"] = _tags(declared.fields.tree)
            row |= _named(declared.fields.tree)
            resolved = resolve(declared, f"experiment `{found.id}`", with_model=False)
            row |= _named({"model": resolved.experiment.model and resolved.experiment.model.id})
            row["tags"] = list(resolved.experiment.tags)
            row["attempts"] = resolved.experiment.attempts
            row["tasks"] = len(asyncio.run(tasks_of(resolved)))
        except ProctorError as error:
            listing.errors.append(_about(error, found))
        listing.rows.append(row)
    return listing


def list_tasks(project: Project) -> Listing:
    """Return the project's own tasks; nothing of them is run."""
    found = found_tasks(project.directory)
    rows: list[dict[str, Any]] = [
        {
            "id": one.id,
            "tags": list(one.tags),
            "file": one.place,
            "description": one.description or None,
            "group": one.group,
        }
        for one in found.tasks
    ]
    return Listing(rows, list(found.errors))


def list_tasks_of(benchmark: str, project: Project) -> Listing:
    """Return the tasks of a benchmark, with what the project says of it. Raises what it raises."""
    declared = declare(project, benchmark, [argument_layer(benchmark=benchmark, harness="nop")])
    resolved = resolve(declared, with_model=False)
    tasks = asyncio.run(tasks_of(resolved))
    rows: list[dict[str, Any]] = [
        {"id": task.id, "tags": list(task.tags), "file": None, "description": None, "group": task.group}
        for task in tasks
    ]
    return Listing(rows)


def list_models(project: Project) -> Listing:
    """Return the models that the files of the project name."""
    models = project.table("models")
    rows: list[dict[str, Any]] = [
        {"id": name, "model": cast("Tree", model).get("id"), "file": str(models.source_of((name,)))}
        for name, model in sorted(models.tree.items())
        if isinstance(model, dict)
    ]
    return Listing(rows)


def _named(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of the parts of an experiment."""
    parts: dict[str, Any] = {}
    for part in ("benchmark", "harness", "model"):
        value = tree.get(part)
        name: Any = cast("Tree", value).get("id") if isinstance(value, dict) else value
        if isinstance(name, str):
            parts[part] = str(name)
    return parts


def _tags(tree: Mapping[str, Any]) -> list[str]:
    """Return the tags of an experiment as they were written; none where they are no list."""
    tags: Any = tree.get("tags")
    return [str(one) for one in cast("list[Any]", tags)] if isinstance(tags, list) else []


def _about(error: ProctorError, found: Found) -> ProctorError:
    """Return an error that names the file of the experiment."""
    file = found.experiment.place().rpartition(":")[0]
    if file in error.message:
        return error
    return UsageError(f"{found.experiment.place()}: {error.message}", hint=error.hint)
