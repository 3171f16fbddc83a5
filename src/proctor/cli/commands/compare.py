"""`proctor compare`: runs side by side, paired by task."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.named_run import named_run
from proctor.cli.output import say
from proctor.core.aggregate import Missing
from proctor.errors import UsageError
from proctor.report.compare import Side, all_versus, side_data, versus_data
from proctor.report.compare_text import compare_lines, compare_markdown
from proctor.viewer.run_skim import compared

FORMAT = 1


@click.command("compare", cls=Command)
@click.argument("runs", metavar="RUN RUN [RUN ...]", nargs=-1)
@click.option("--results-dir", metavar="DIR", help="Where to look for ids (default: those of the project).")
@click.option("--all-pairs", is_flag=True, help="Compare each run with each, not only with the first.")
@click.option("--include-changed", is_flag=True, help="Compare tasks of the same id even if their content differs.")
@click.option(
    "--missing",
    type=click.Choice([policy.value for policy in Missing]),
    help="What slots without a score count as (default: they are left out, and how much they could change is said).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--md", "as_markdown", is_flag=True, help="Print Markdown.")
def command(
    runs: tuple[str, ...],
    *,
    results_dir: str | None,
    all_pairs: bool,
    include_changed: bool,
    missing: str | None,
    as_json: bool,
    as_markdown: bool,
) -> int:
    """Compare RUNs, directories or ids of runs, with the first of them: paired by task, with intervals and tests.

    What differs in their identities is named, so that a comparison of two things at once is seen. Tasks whose content
    or grading is not the same in both are left out.
    """
    if len(runs) < 2:
        raise UsageError("a comparison takes two runs or more", hint="write `proctor compare RUN RUN`")
    if as_json and as_markdown:
        raise UsageError("--json and --md are two ways to print one thing", hint="give one of them")
    directories = [named_run(each, results_dir) for each in runs]
    if len({directory.resolve() for directory in directories}) < len(directories):
        raise UsageError("a run is named twice", hint="name each run once: a run does not differ from itself")
    sides: list[Side] = []
    for directory in directories:
        side, wrong = compared(directory, Missing(missing) if missing else None)
        for each in wrong:
            say(f"warning: {each}", err=True)
        sides.append(side)
    found = all_versus(sides, every_pair=all_pairs, include_changed=include_changed)
    if as_json:
        data = {"format": FORMAT, "runs": list(map(side_data, sides)), "comparisons": list(map(versus_data, found))}
        say(json.dumps(data, allow_nan=False, indent=1))
    elif as_markdown:
        say(compare_markdown(sides, found).rstrip("\n"))
    else:
        say("\n".join(compare_lines(sides, found)))
    return 0
