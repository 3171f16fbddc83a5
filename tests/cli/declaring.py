"""Experiments and limits as a command line makes them, without a project around."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proctor.cli.controls import Controls, resolve_controls
from proctor.cli.resolve import Resolved, resolve
from proctor.cli.typed import argument_layer, typed_layers
from proctor.config.declare import declare
from proctor.config.project import Project
from proctor.model.spec import Experiment


def project_of(**shared: Any) -> Project:
    fields, sections = typed_layers(shared)
    return Project(Path()).with_typed(fields, sections)


def resolved_of(benchmark: str, harness: str, model: str | None = None, **shared: Any) -> Resolved:
    layer = argument_layer(benchmark=benchmark, harness=harness, model=model)
    return resolve(declare(project_of(**shared), "e", [layer]))


def experiment_of(benchmark: str, harness: str, model: str | None = None, **shared: Any) -> Experiment:
    return resolved_of(benchmark, harness, model, **shared).experiment


def controls_of(**shared: Any) -> Controls:
    project = project_of(**shared)
    return resolve_controls(project.section("execution"), project.section("runtime"), providers=())
