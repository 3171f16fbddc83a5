"""From the arguments of a call in Python to an experiment that is made and validated, as from a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Annotated, Any, Literal

from pydantic import Field

from proctor.cli.controls import Controls
from proctor.cli.entry import Declarations, open_project, resolve_declared
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.saved_work import Reusing, reusing_of
from proctor.config.declare import declare
from proctor.config.layers import Layer, Level, Source, plain_value
from proctor.config.load import validate
from proctor.config.project import Project
from proctor.config.schema import Config, ExecutionConfig, RuntimeConfig
from proctor.config.values import Count
from proctor.core.aggregate import Missing
from proctor.core.reuse import Rerun
from proctor.errors import NothingToRun, UsageError

Named = str | Mapping[str, Any]
"""A plugin by its id, or with its parameters as `{"id": ..., "params": {...}}`."""

CALL = Source(Level.DECLARED, "the call")
"""Where the arguments of a call come from."""


class Call(Config):
    """What a call asks for beside the experiment."""

    tasks: tuple[str, ...] | None = None
    limit: Count | None = None
    tag: tuple[str, ...] | None = None
    run_name: str | None = None
    run_id: str | None = None
    progress: Literal["auto", "plain", "none"] = "none"
    fail_under: Annotated[float, Field(ge=0, le=1)] | None = None
    missing: Missing | None = None
    reuse: bool | str | None = None
    rerun: Rerun | None = None


def prepare(
    benchmark: Named,
    harness: Named,
    model: Named | None,
    fields: Mapping[str, Any],
    *,
    execution: Mapping[str, Any],
    runtime: Mapping[str, Any],
    config: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    **call: Any,
) -> tuple[Resolved, Options]:
    """Return the experiment with its plugins, and what is asked for beside it; None stands for what was not given.

    It is declared in the project that the current directory is in, over the files of `config`. Raises `UsageError`,
    which lists what is wrong.
    """
    asked = checked_call(call)
    layer = fields_layer(benchmark, harness, model, fields)
    name = "/".join(str(layer.tree[part]["id"]) for part in ("benchmark", "harness", "model") if part in layer.tree)

    def declares(project: Project) -> Declarations:
        return Declarations(
            [declare(project, name, [layer])],
            section_layers(ExecutionConfig, "execution", execution),
            section_layers(RuntimeConfig, "runtime", runtime),
        )

    [resolved], controls = resolve_declared(open_project({"config": config_files(config)}), declares)
    reusing = reusing_of(asked.reuse or False, asked.rerun, checkpoint_resume=controls.checkpoint_resume)
    return resolved, call_options(asked, controls, reusing)


def checked_call(call: Mapping[str, Any]) -> Call:
    """Return what a call asks for beside experiments, validated. Raises `UsageError` or `NothingToRun`."""
    asked = validate(Call, call, what="arguments")
    if asked.tasks is not None and not asked.tasks:
        raise NothingToRun("`tasks` is empty: no task was named", hint="leave it out to run all of them")
    return asked


def call_options(asked: Call, controls: Controls, reusing: Reusing | None) -> Options:
    """Return what a call asks of the session."""
    return Options(
        controls=controls,
        task_ids=asked.tasks or (),
        limit=asked.limit,
        tags=asked.tag or (),
        run_name=asked.run_name,
        run_id=asked.run_id,
        progress=asked.progress,
        fail_under=asked.fail_under,
        missing=asked.missing,
        reusing=reusing,
    )


def config_files(config: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[str]:
    """Return the files that a call names, one or several. Raises `UsageError`."""
    try:
        return [fspath(path) for path in ((config,) if isinstance(config, str | PathLike) else config)]
    except TypeError as error:
        raise UsageError(f"`config` must name files, not {config!r:.80}", hint='such as config="more.yaml"') from error


def fields_layer(benchmark: Named, harness: Named, model: Named | None, fields: Mapping[str, Any]) -> Layer:
    """Return the fields of an experiment as a layer. Raises `UsageError` for a part that has no id."""
    tree = plain(fields)
    for name, given in (("benchmark", benchmark), ("harness", harness), ("model", model)):
        if given is None:
            continue
        named: Any = given.get("id") if isinstance(given, Mapping) else given
        if not isinstance(named, str):
            raise UsageError(f"{name}: an `id` is missing", hint='give a text, or {"id": ..., "params": {...}}')
        tree[name] = {"id": given} if isinstance(given, str) else plain(given)
    return Layer(CALL, tree)


def section_layers(schema: type[Config], section: str, values: Mapping[str, Any], source: Source = CALL) -> list[Layer]:
    """Return what a call says of a section as layers; None is as good as nothing. Raises `UsageError`."""
    given = {name: value for name, value in plain(values).items() if value is not None}
    validate(schema, given, what=section)
    return [Layer(source, given)] if given else []


def plain(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree as a file would hold it: only dicts are merged, whatever mappings they were."""
    return {name: plain_value(value) for name, value in tree.items()}
