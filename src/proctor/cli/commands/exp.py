"""`proctor exp`: experiments that are checked in as Python files."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from dataclasses import replace
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.entry import enter
from proctor.cli.optional_values import LEFT_OUT
from proctor.cli.options import AMOUNT, COUNT, Rate, shared_options
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.saved_work import Reusing
from proctor.cli.selection import narrow, select_experiments
from proctor.cli.session import execute
from proctor.config.declared import Declared
from proctor.config.project import Project
from proctor.runtime.running import run_to_end

GATE = 1.0
"""What share of the slots has to pass unless told otherwise: it is the command of continuous integration."""


@click.command("exp", cls=Command)
@click.argument("path_prefix", required=False, metavar="[PATH-PREFIX]")
@click.argument("task_prefixes", nargs=-1, metavar="[TASK-PREFIX ...]")
@click.option("--attempts", "--k", type=COUNT, metavar="N", help="Attempts per task (default: as they say).")
@click.option(
    "--fail-under",
    type=Rate(),
    metavar="RATE",
    default=GATE,
    help="Exit 1 when fewer than this share of the slots of an experiment passed (default: 1.0, which is all).",
)
@click.option(
    "--early-exit/--no-early-exit",
    default=None,
    help="Whether a task is done with its first passed attempt (default: as they say).",
)
@click.option(
    "--budget", type=AMOUNT, metavar="USD", help="US dollars that each experiment may spend (default: as they say)."
)
@click.option(
    "--reuse",
    metavar="[RUN_ID]",
    help="Reuse attempts of this run alone, written as `--reuse=RUN_ID` (default: the newest of each slot, whichever "
    "run it was in).",
)
@click.option(
    "--rerun", metavar="[failed|all]", help="Execute again what failed, or everything (standing alone: failed)."
)
@click.option(
    "--no-checkpoint-resume",
    is_flag=True,
    help="Execute whole attempts also where saved work only lacks its grading.",
)
@shared_options
def command(path_prefix: str | None, task_prefixes: tuple[str, ...], **given: Any) -> int:
    """Run the experiments of the project whose ids begin with PATH-PREFIX (default: all).

    An experiment is a file below `experiments/`, and its id the path of the file there; a path as the shell completes
    it (`experiments/naps.py`) works as well. Words behind it narrow the tasks, by the beginning of their ids.

    What passed or failed before is reused, whichever run it was in, as long as nothing that matters has changed.
    """
    resolved, options = prepared(path_prefix, task_prefixes, **given)
    if given["dry"]:
        from proctor.cli.dry_run import dry_run  # noqa: PLC0415 - a run needs none of what only forecasts

        return dry_run(resolved, options)
    return run_to_end(execute(resolved, options)).exit


def prepared(
    path_prefix: str | None, task_prefixes: tuple[str, ...], *, fail_under: float, **given: Any
) -> tuple[list[Resolved], Options]:
    """Return the experiments that the command line is about, resolved, and what is asked for beside them."""
    projects: list[Project] = []

    def declares(project: Project) -> list[Declared]:
        projects.append(project)
        return select_experiments(path_prefix, project)

    # Without a word about it everything that is saved may be reused; `--reuse RUN_ID` means that run alone.
    unsaid = given["reuse"] is None
    given["reuse"] = LEFT_OUT if unsaid else given["reuse"]
    resolved, options = enter(given, declares, fail_under=fail_under)
    wanted = unsaid and options.controls.keep_environment is not None  # a live sandbox of each slot (spec 04 C4)
    options = replace(
        options,
        reusing=_everywhere(options.reusing, wanted),
        own_reusing={name: _everywhere(reusing, wanted) for name, reusing in options.own_reusing.items()},
    )
    run_to_end(narrow(resolved, task_prefixes, projects[0].directory, options.controls.cleanup_grace_seconds))
    return resolved, options


def _everywhere(reusing: Reusing | None, sandbox_wanted: bool) -> Reusing | None:
    """Return what may be reused, looked for in the whole record where no run was named."""
    if reusing is None or reusing.run_id is not None:
        return reusing
    return replace(reusing, everything=True, sandbox_wanted=sandbox_wanted)
