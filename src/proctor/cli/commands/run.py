"""`proctor run`: one experiment, ad hoc."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from functools import partial
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.entry import enter
from proctor.cli.options import AMOUNT, COUNT, Rate, reuse_options, shared_options
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.session import execute
from proctor.cli.typed import argument_layer
from proctor.config.declare import declare
from proctor.config.declared import Declared
from proctor.config.project import Project
from proctor.runtime.running import run_to_end


@click.command("run", cls=Command)
@click.argument("benchmark")
@click.argument("harness")
@click.argument("model", required=False)
@click.option("--attempts", "--k", type=COUNT, metavar="N", help="Attempts per task (default: 1).")
@click.option(
    "--fail-under",
    type=Rate(),
    metavar="RATE",
    help="Exit 1 when fewer than this share of the slots passed (default: no gate).",
)
@click.option(
    "--early-exit/--no-early-exit",
    default=None,
    help="Whether a task is done with its first passed attempt (default: no).",
)
@click.option(
    "--budget", type=AMOUNT, metavar="USD", help="US dollars that the experiment may spend (default: no limit)."
)
@reuse_options
@shared_options
def command(benchmark: str, harness: str, model: str | None, **given: Any) -> int:
    """Run one experiment: BENCHMARK with HARNESS and MODEL.

    MODEL may be left out where the harness needs none, as in `proctor run humaneval oracle`.
    """
    resolved, options = prepared(benchmark, harness, model, **given)
    if given["dry"]:
        from proctor.cli.dry_run import dry_run  # noqa: PLC0415 - a run needs none of what only forecasts

        return dry_run(resolved, options)
    return run_to_end(execute(resolved, options)).exit


def prepared(
    benchmark: str, harness: str, model: str | None, *, fail_under: float | None, **given: Any
) -> tuple[list[Resolved], Options]:
    """Return the experiment, resolved, and what is asked for beside it."""
    return enter(given, partial(declared, benchmark, harness, model), fail_under=fail_under)


def declared(benchmark: str, harness: str, model: str | None, project: Project) -> list[Declared]:
    """Return the one experiment that the command line names."""
    name = "/".join(filter(None, [benchmark, harness, model]))
    return [declare(project, name, [argument_layer(benchmark=benchmark, harness=harness, model=model)])]
