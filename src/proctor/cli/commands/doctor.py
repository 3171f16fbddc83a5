"""`proctor doctor`: what works on this machine, and what is missing."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.doctor_engines import engines, programs
from proctor.cli.doctor_machine import cgroup_limits, credentials, disk_space, extras, open_files, versions
from proctor.cli.doctor_providers import default_row, providers
from proctor.cli.doctor_view import doctor_lines
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.cli.results_place import current_directory, results_and_record
from proctor.model.project import project_directory
from proctor.runtime.cgroup import find_roots
from proctor.runtime.running import run_to_end


@click.command("doctor", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> int:
    """Say what works on this machine: providers, limits, space, credentials, optional packages.

    Nothing is started or changed. Credentials are named, with whether they are there; their values are never shown.
    Exits 1 when no provider works.
    """
    found = run_to_end(_examine())
    if as_json:
        say(json.dumps(found, allow_nan=False, indent=1))
    else:
        for line in doctor_lines(found):
            say(line)
    if any(row["works"] is not False for row in found["providers"]):
        return Exit.OK
    say("error: no provider works here: nothing that needs a sandbox can run", err=True)
    return Exit.GATE_NOT_MET


async def _examine() -> dict[str, Any]:
    """Return all findings; what may take a moment is done at once."""
    project = project_directory(current_directory())
    results, _ = results_and_record(None)
    rows, default, found_engines = await asyncio.gather(
        providers(), default_row(), asyncio.to_thread(engines, dict(os.environ))
    )
    found_programs = await asyncio.to_thread(programs)  # which one is used is known after the provider tried it
    return {
        "versions": versions(),
        "providers": rows,
        "default_provider": default,
        "engines": found_engines,
        "programs": found_programs,
        "cgroups": cgroup_limits(find_roots()),
        "open_files": open_files(),
        "disk": disk_space({"results": results, "temporary files": Path(tempfile.gettempdir())}),
        "credentials": credentials(project, os.environ),
        "extras": extras(),
    }
