"""From the arguments of a call in Python to an experiment that is made and validated, as from a command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from proctor.cli.controls import resolve_controls
from proctor.cli.resolve import Resolved, Typed, resolve_experiment
from proctor.cli.rooms import Options
from proctor.cli.saved_work import reusing_of
from proctor.config.load import validate
from proctor.config.schema import Config, ExecutionConfig, RuntimeConfig
from proctor.config.values import Count
from proctor.core.reuse import Rerun
from proctor.errors import NothingToRun, UsageError

Named = str | Mapping[str, Any]
"""A plugin by its id, or with its parameters as `{"id": ..., "params": {...}}`."""


class _Call(Config):
    """What a call asks for beside the experiment."""

    tasks: tuple[str, ...] | None
    limit: Count | None
    run_name: str | None
    run_id: str | None
    progress: Literal["auto", "plain", "none"]
    fail_under: Annotated[float, Field(ge=0, le=1)] | None
    reuse: bool | str = False
    rerun: Rerun | None = None


def prepare(
    benchmark: Named,
    harness: Named,
    model: Named | None,
    fields: Mapping[str, Any],
    *,
    execution: Mapping[str, Any],
    runtime: Mapping[str, Any],
    **call: Any,
) -> tuple[Resolved, Options]:
    """Return the experiment with its plugins, and what is asked for beside it; None stands for what was not given.

    Raises `UsageError`, which lists what is wrong.
    """
    asked = validate(_Call, call, what="arguments")
    if asked.tasks is not None and not asked.tasks:
        raise NothingToRun("`tasks` is empty: no task was named", hint="leave it out to run all of them")
    assignments = (
        *_assignments("execution", ExecutionConfig, execution),
        *_assignments("runtime", RuntimeConfig, runtime),
    )
    resolved = _resolve(benchmark, harness, model, fields, assignments)
    controls = resolve_controls(
        assignments,
        task_concurrency=execution.get("task_concurrency"),
        provider_limits=(),
        results_dir=None,
        models=[resolved.experiment.model] if resolved.experiment.model else [],
        providers=[resolved.provider],
    )
    options = Options(
        controls=controls,
        task_ids=asked.tasks or (),
        limit=asked.limit,
        run_name=asked.run_name,
        run_id=asked.run_id,
        progress=asked.progress,
        fail_under=asked.fail_under,
        reusing=reusing_of(asked.reuse, asked.rerun, checkpoint_resume=controls.checkpoint_resume),
    )
    return resolved, options


def _resolve(
    benchmark: Named, harness: Named, model: Named | None, fields: Mapping[str, Any], assignments: tuple[str, ...]
) -> Resolved:
    """Make the experiment and its plugins. Raises `UsageError`."""
    tree = dict(fields)
    ids: list[str | None] = []
    for name, given in (("benchmark", benchmark), ("harness", harness), ("model", model)):
        if given is None or isinstance(given, str):
            ids.append(given)
            continue
        named: Any = given.get("id")
        if not isinstance(named, str):
            raise UsageError(f"{name}: an `id` is missing", hint='give a text, or {"id": ..., "params": {...}}')
        ids.append(named)
        tree[name] = _plain(given)
    if isinstance(environment := tree.get("environment"), str):
        tree["environment"] = {"provider": environment}
    named_benchmark, named_harness, named_model = ids
    name = "/".join(filter(None, ids))
    typed = Typed(cast("str", named_benchmark), cast("str", named_harness), named_model, _plain(tree), assignments)
    return resolve_experiment(typed, name)


def _plain(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree whose mappings are dicts, whatever mappings they were: only those are merged."""
    return {name: _plain_value(value) for name, value in tree.items()}


def _assignments(section: str, schema: type[Config], values: Mapping[str, Any]) -> list[str]:
    """Return validated values of a section as they would be typed."""
    given = {name: _plain_value(value) for name, value in values.items() if value is not None}
    validate(schema, given, what=section)
    return [f"{section}.{name}={json.dumps(value)}" for name, value in given.items()]


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(cast("Mapping[str, Any]", value))
    return str(value) if isinstance(value, PurePath) else value
