"""The validated fields of an experiment: everything that is wrong with them, in whichever layer, is found here."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from proctor.config.declared import Declared
from proctor.config.layers import BUILT_IN, FieldPath, Layered, Level, Source, Tree
from proctor.config.load import check, validate
from proctor.config.problems import Collected, placed
from proctor.config.scalars import refused_in
from proctor.config.schema import ExecutionConfig, ExperimentConfig
from proctor.plugins.registry import Kind, load


def configured(declared: Declared, what: str) -> tuple[ExperimentConfig, ExecutionConfig, list[str]]:
    """Return the validated fields of an experiment. Raises `UsageError`, which lists what is wrong in any layer."""
    wrong = Collected()
    for layer in declared.fields.layers:
        if layer.lines:  # what a weaker layer says is wrong also where a stronger one hides it
            wrong.add(check(ExperimentConfig, layer.tree, layer.source_of))
    wrong.add(refused_in(declared.fields.tree))
    tree, notes = dict(declared.fields.tree), cast("list[str]", [])
    with wrong.gather():
        notes = _without_unused_model(tree, declared.fields)
    config: ExperimentConfig | None = None
    execution: ExecutionConfig | None = None
    with wrong.gather():
        execution = validate(
            ExecutionConfig, declared.execution.tree, what="execution", at=declared.execution.source_of
        )
    with wrong.gather():
        config = validate(ExperimentConfig, tree, what=what, at=partial(_source_of, declared.fields))
    wrong.raise_any()
    assert config is not None
    assert execution is not None
    return config, execution, notes


def _source_of(fields: Layered, path: FieldPath) -> Source:
    """Return where a field was written; for one that nobody wrote it is where the experiment is."""
    source = fields.source_of(path)
    if source != BUILT_IN:
        return source
    return next(
        (layer.source_of(()) for layer in reversed(fields.layers) if layer.source.level is Level.DECLARED), source
    )


def _without_unused_model(tree: Tree, fields: Layered) -> list[str]:
    """Take the model out of an experiment whose harness needs none; return what is to be said of it."""
    harness: Any = tree.get("harness")
    name = cast("Tree", harness).get("id") if isinstance(harness, dict) else None
    if not isinstance(name, str):
        return []  # this is an error, and is said as one
    with placed(fields.source_of(("harness", "id"))):
        harness_class: Any = load(Kind.HARNESS, name)
    model: Any = tree.get("model")
    if model is None or harness_class.needs_model:
        return []
    tree.pop("model")
    unused = cast("Tree", model).get("id", "its settings") if isinstance(model, dict) else model
    return [f"harness `{name}` uses no model: `{unused}` is left out of account"]
