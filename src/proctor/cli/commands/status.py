"""`proctor status`: how the runs stand that go on, asked from another terminal."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.cli.results_place import DEFAULT_RESULTS, current_directory, run_directory, runtime_of
from proctor.cli.status_view import ROWS_SHOWN, Standing, State, standing_of, status_data, status_lines
from proctor.errors import UsageError
from proctor.model.project import project_directory
from proctor.report.wording import plural
from proctor.runtime.clock import SystemClock
from proctor.store.active_runs import Seen, runs_below, survey
from proctor.store.layout import RunLayout
from proctor.store.owner import owner_if_known

LOST_SHOWN = 5
"""Of the runs that did not come to their end so many are shown, the newest ones."""


@click.command("status", cls=Command)
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "--results-dir", metavar="DIR", help="Where runs are (default: runtime.results_dir, here and in the project)."
)
@click.option("--all", "all_rows", is_flag=True, help=f"Show every attempt in flight, not only {ROWS_SHOWN} of a run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: str | None, results_dir: str | None, all_rows: bool, as_json: bool) -> int:
    """Say how RUN stands, a directory or the id of a run; without it, all runs that go on.

    Of each attempt in flight: its phase and for how long, how long ago it last gave output, and which limit will end it
    and when. It answers within two seconds, whatever the runs do.
    """
    roots = [Path(results_dir)] if results_dir is not None else _roots()
    here = owner_if_known()  # without /proc the lock of a journal tells whether its writer lives
    now = SystemClock().wall
    if run is not None:
        directory = _directory_of(run, roots)
        found = survey([directory], here, list_runs=lambda each: [each])
        one = standing_of(next(iter(found.runs), Seen(directory, problem="it could not be looked at in time")), now())
        _print([one], whole=True, as_json=as_json, all_rows=all_rows)
        return Exit.OK if one.state in (State.RUNNING, State.ENDED) else Exit.INCOMPLETE
    found = survey(roots, here)
    moment = now()
    standings = [standing_of(seen, moment) for seen in found.runs]
    going_on = [one for one in standings if one.state is not State.ENDED]  # it ended while we looked
    _print(going_on, whole=found.whole, as_json=as_json, all_rows=all_rows)
    if not going_on and not as_json:
        say(f"no run goes on below {' and '.join(f'`{root}`' for root in roots)}", err=True)
    silent = any(one.state is State.NOT_ANSWERING for one in going_on) or not found.whole
    return Exit.INCOMPLETE if silent else Exit.OK


def _print(standings: Sequence[Standing], *, whole: bool, as_json: bool, all_rows: bool) -> None:
    if as_json:
        data = {"runs": [status_data(one) for one in standings], "whole": whole}
        say(json.dumps(data, allow_nan=False, indent=1))
        return
    lost = sorted((one for one in standings if one.state is State.LOST), key=lambda one: one.since or 0.0, reverse=True)
    shown = [one for one in standings if one.state is not State.LOST] + lost[:LOST_SHOWN]
    for one in shown:
        say("\n".join(status_lines(one, rows=None if all_rows else ROWS_SHOWN)))
    if len(lost) > LOST_SHOWN:
        say(f"and {plural(len(lost) - LOST_SHOWN, 'more run')} that did not come to their end")
    if lost:
        say(
            "hint: what a lost run finished is kept: `proctor show RUN` lists it, and `--reuse` runs what is missing",
            err=True,
        )
    if not whole:
        say("warning: not all directories could be listed in time; there may be more runs", err=True)


def _roots() -> list[Path]:
    """Return where results are: as the project says, below this directory and below its own."""
    here = current_directory()
    project = project_directory(here)
    configured = runtime_of(project, "results_dir")
    if configured:
        return [Path(configured["results_dir"])]
    roots = [Path(DEFAULT_RESULTS)]
    return roots if project == here.resolve() else [*roots, project / DEFAULT_RESULTS]


def _directory_of(given: str, roots: Sequence[Path]) -> Path:
    """Return the directory of a run, given that or the run's id. Raises `UsageError`."""
    directory = run_directory(given, roots, partial(runs_below, locked=False))
    if directory is None:
        raise UsageError(
            f"there is no run `{given}` below {' and '.join(f'`{root}`' for root in roots)}",
            hint="give the directory of a run; `proctor status` without it lists the runs that go on",
        )
    # One that was found by its id may be so young that there is no journal yet.
    if directory == Path(given) and not RunLayout(directory).journal.is_file():
        raise UsageError(
            f"`{given}` is not the directory of a run: it has no {RunLayout(directory).journal.name}",
            hint="give RESULTS/EXPERIMENT/RUN-ID; `proctor status` without it lists the runs that go on",
        )
    return directory
