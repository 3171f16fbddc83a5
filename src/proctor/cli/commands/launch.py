"""`proctor launch`: several experiments from one file."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.entry import enter
from proctor.cli.launching import of_file
from proctor.cli.options import AMOUNT, COUNT, Rate, reuse_options, shared_options
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.session import execute
from proctor.runtime.running import run_to_end


@click.command("launch", cls=Command)
@click.argument("file", metavar="FILE.yaml", type=click.Path(path_type=Path))
@click.option("--attempts", "--k", type=COUNT, metavar="N", help="Attempts per task (default: as the file says).")
@click.option(
    "--fail-under",
    type=Rate(),
    metavar="RATE",
    help="Exit 1 when fewer than this share of the slots of one of the experiments passed (default: no gate).",
)
@click.option(
    "--early-exit/--no-early-exit",
    default=None,
    help="Whether a task is done with its first passed attempt (default: as the file says).",
)
@click.option(
    "--budget",
    type=AMOUNT,
    metavar="USD",
    help="US dollars that each experiment may spend (default: as the file says).",
)
@reuse_options
@shared_options
def command(file: Path, **given: Any) -> int:
    """Run the experiments of FILE.yaml: one scheduler, one set of limits, one exit code.

    Each request has run directories of its own. Options hold for every request, over what the file says.
    """
    resolved, options = prepared(file, **given)
    if given["dry"]:
        from proctor.cli.dry_run import dry_run  # noqa: PLC0415 - a run needs none of what only forecasts

        return dry_run(resolved, options)
    return run_to_end(execute(resolved, options)).exit


def prepared(file: Path, *, fail_under: float | None, **given: Any) -> tuple[list[Resolved], Options]:
    """Return the experiments of a launch file, resolved, and what is asked for beside them."""
    return enter(given, partial(of_file, file), fail_under=fail_under)
