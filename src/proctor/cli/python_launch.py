"""From the arguments of a call in Python to the experiments of a launch, as from a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from proctor.cli.entry import open_project, own_reusing, resolve_declared
from proctor.cli.launching import of_file, of_mapping
from proctor.cli.python_arguments import call_options, checked_call, config_files, plain, section_layers
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.saved_work import reusing_of
from proctor.config.layers import Layer, Level, Source
from proctor.config.schema import ExecutionConfig, RuntimeConfig
from proctor.errors import UsageError

OVER = Source(Level.FLAG, "the call")
"""Where the arguments of a call come from, which hold over everything that the file says."""


def prepare_launch(
    launch: str | PathLike[str] | Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    execution: Mapping[str, Any],
    runtime: Mapping[str, Any],
    config: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
    **call: Any,
) -> tuple[list[Resolved], Options]:
    """Return the experiments of a launch file, or of a mapping like one, and what is asked for beside them.

    `fields` are set in every experiment. Raises `UsageError`, which lists what is wrong.
    """
    asked = checked_call(call)
    typed = {name: value for name, value in plain(fields).items() if value is not None}
    sections = {
        "execution": section_layers(ExecutionConfig, "execution", execution, OVER),
        "runtime": section_layers(RuntimeConfig, "runtime", runtime, OVER),
    }
    given: Any = launch
    if not isinstance(given, str | PathLike | Mapping):
        raise UsageError(f"a launch is a file or a mapping, not {given!r:.80}", hint="give the path of a launch file")
    project = open_project({"config": config_files(config)})
    project = project.with_typed([Layer(OVER, typed)] if typed else [], sections)
    resolved, controls = resolve_declared(
        project,
        lambda found: of_mapping(plain(launch), found) if isinstance(launch, Mapping) else of_file(Path(launch), found),
    )
    own = any(one.reuse for one in resolved) and asked.reuse is None
    reusing = None
    if not own:
        reusing = reusing_of(asked.reuse or False, asked.rerun, checkpoint_resume=controls.checkpoint_resume)
    options = call_options(asked, controls, reusing)
    said = {"reuse": asked.reuse, "rerun": asked.rerun}
    return resolved, replace(options, own_reusing=own_reusing(said, options, resolved))
