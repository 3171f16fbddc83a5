"""Options that commands share."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from proctor.cli.option_types import AMOUNT, COUNT, LEVELS, MemorySize, OpenRate, ProviderLimit, Rate, Seconds
from proctor.cli.optional_values import LEFT_OUT
from proctor.config.assignments import parse_assignment

F = TypeVar("F", bound=Callable[..., Any])


def _task_ids(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    ids = tuple(part.strip() for value in values for part in value.split(","))
    if not all(ids):
        raise click.BadParameter("a task id is empty; write them as ID,ID", ctx, param)
    return ids


def _directory(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("it is empty; write `.` for this directory", ctx, param)
    return value


def _kept(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value not in (None, LEFT_OUT, "failed", "all"):
        raise click.BadParameter(f"`{value}` is neither `failed` nor `all`", ctx, param)
    return value


def _assignments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Look at the form before click complains of a word that was meant for `--set` and may be a credential."""
    for value in values:
        parse_assignment(value)
    return values


_CONFIG = click.option(
    "--config", multiple=True, metavar="FILE",
    help="A file like proctor.yaml, over that of the project. Repeatable, a later one wins.",
)  # fmt: skip
_SET = click.option(
    "--set", "assignments", multiple=True, callback=_assignments, metavar="KEY=VALUE",
    help="Set a field by its dotted path, such as model.base_url or benchmark.params.tasks. Repeatable.",
)  # fmt: skip

_SHARED: list[Callable[[Any], Any]] = [
    _CONFIG,
    click.option(
        "--dry", "--dry-run", "dry", is_flag=True,
        help="Only say what would be done, as `proctor plan` does; start and write nothing.",
    ),
    click.option(
        "--env", "provider", metavar="PROVIDER",
        help="Provider of the sandboxes (default: bwrap where it works, else local).",
    ),
    click.option(
        "--judge", metavar="MODEL",
        help="The model that graders ask, where they need one; more of it by `--set judge.base_url=...`.",
    ),
    click.option(
        "--task-concurrency", "--max-concurrency", type=COUNT, metavar="N",
        help="Attempts executing at once, over everything (default: 32). A limit set exactly at what a service "
        "allows is unstable: leave headroom.",
    ),
    click.option(
        "--provider-limit", type=ProviderLimit(), multiple=True, metavar="NAME=N",
        help="Attempts executing at once through a provider, such as local=8; 0 is off (default: 128). Repeatable.",
    ),
    click.option(
        "--env-open-qps", type=OpenRate(), multiple=True, metavar="NAME=RATE",
        help="Sandboxes opened per second at a provider, such as modal=4; 0 is off (default: the provider's own). "
        "Repeatable.",
    ),
    click.option(
        "--host-cpus", type=AMOUNT, metavar="N",
        help="CPUs that sandboxes on this machine may declare in all (default: those that proctor may use).",
    ),
    click.option(
        "--host-memory", type=MemorySize(), metavar="SIZE",
        help="Memory that they may declare in all, such as 16GiB (default: what this machine has).",
    ),
    click.option(
        "--max-build-concurrency", type=COUNT, metavar="N",
        help="Images that are built or fetched at once (default: 2).",
    ),
    click.option(
        "--keep-environment", callback=_kept, metavar="[failed|all]",
        help="Keep the sandboxes of tries that did not pass, or of all (standing alone: failed; default: none).",
    ),
    click.option(
        "--max-retries", type=click.IntRange(min=0), metavar="N",
        help="Tries of an attempt after the first, for failures that are not the agent's (default: 0).",
    ),
    click.option(
        "--retry-pattern", "retry_patterns", multiple=True, metavar="REGEX",
        help="Try again also where an ERROR matches, in its code or message. Repeatable.",
    ),
    click.option(
        "--lease-wait", type=Seconds(), metavar="SECONDS",
        help="How long to wait for shared state that another run holds (default: without end on a terminal, else 600).",
    ),
    click.option("--limit", type=COUNT, metavar="N", help="Only the first N tasks, after --tasks."),
    click.option(
        "--tasks", "task_ids", multiple=True, callback=_task_ids, metavar="ID,...",
        help="Only these tasks: whole ids, or last parts of ids where they are unique. Repeatable.",
    ),
    click.option(
        "--tag", "tags", multiple=True, metavar="TAG",
        help="Only tasks with this tag, and all tasks of experiments that have it. Repeatable: one of them is enough.",
    ),
    click.option(
        "--timeout", type=Seconds(), metavar="SECONDS",
        help="Limit of the agent phase of each try (default: none). Waiting is never counted. The whole try and the "
        "run have limits of their own: `--set timeout_seconds=...` and `--set runtime.timeout_seconds=...`.",
    ),
    click.option(
        "--timeout-multiplier", type=AMOUNT, metavar="X",
        help="Scale every limit of a try (default: 1).",
    ),
    click.option("--results-dir", metavar="DIR", callback=_directory, help="Where results go (default: results)."),
    click.option("--run-name", metavar="NAME", help="A level of directories of your own above the run; may hold `/`."),
    click.option("--run-id", metavar="ID", help="Name of the run's directory (default: start time, UTC)."),
    _SET,
    click.option(
        "--progress", type=click.Choice(["auto", "plain", "none"]), default="auto",
        help="What the terminal shows; results are saved all the same (default: auto: a live panel, or plain text "
        "where there is no terminal for it).",
    ),
    click.option(
        "--missing", type=click.Choice(["zero", "exclude", "fail"]),
        help="What the rate makes of slots without a score: they count as not passed, are left out, or leave none "
        "(default: they widen its range).",
    ),
    click.option(
        "--junit", type=click.Path(dir_okay=False), metavar="FILE",
        help="Write the results of all slots as JUnit XML, too, for continuous integration.",
    ),
    click.option(
        "--json", "as_json", is_flag=True,
        help="Write the plan, events and one receipt to standard output, as NDJSON.",
    ),
    click.option(
        "--no-attempt-files", is_flag=True,
        help="Leave out result.json per attempt; above 10,000 attempts by itself.",
    ),
    click.option(
        "--log-level", type=LEVELS, default="INFO", metavar="LEVEL",
        help="What of the log the terminal shows: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: INFO).",
    ),
    click.option(
        "--file-log-level", type=LEVELS, default="DEBUG", metavar="LEVEL",
        help="What run.log and try.log keep: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: DEBUG).",
    ),
]  # fmt: skip


def config_options(command: F) -> F:
    """Give a command the options about the configuration alone."""
    return _CONFIG(_SET(command))


def shared_options(command: F) -> F:
    """Give a command the options that `run` and `check` share."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


_REUSE: list[Callable[[Any], Any]] = [
    click.option(
        "--reuse", metavar="[RUN_ID]",
        help="Fill slots with attempts of earlier runs of the same kind whose identity is equal: of this run, or the "
        "newest of each slot. What is missing, errored or cut off is executed.",
    ),
    click.option(
        "--rerun", metavar="[failed|all]",
        help="With --reuse: execute again what failed, or everything (default: failed).",
    ),
    click.option(
        "--no-checkpoint-resume", is_flag=True,
        help="With --reuse: execute whole attempts also where saved work only lacks its grading.",
    ),
]  # fmt: skip


def reuse_options(command: F) -> F:
    """Give a command the options about earlier runs."""
    for option in reversed(_REUSE):
        command = option(command)
    return command


__all__ = ["AMOUNT", "COUNT", "Rate", "config_options", "reuse_options", "shared_options"]
