"""Options that commands share, and how their values are read."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import rich_click as click

from proctor.config.load import parse_assignment
from proctor.config.values import SECONDS_AT_MOST

F = TypeVar("F", bound=Callable[..., Any])


class ProviderLimit(click.ParamType[tuple[str, int]]):
    """`NAME=N`, as in `docker=8`; 0 is off."""

    name = "name=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return name and limit."""
        name, equals, number = str(value).partition("=")
        if not name or not equals or not number.isascii() or not number.isdigit():
            self.fail(
                f"`{value}` is not of the form NAME=N with a whole number (0 is off), such as local=8", param, ctx
            )
        return name, int(number)


class OpenRate(click.ParamType[tuple[str, float]]):
    """`NAME=RATE`, as in `modal=4`; 0 is off."""

    name = "name=rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Return name and rate."""
        name, _, number = str(value).partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not name or not 0 <= rate < math.inf:
            self.fail(f"`{value}` is not of the form NAME=RATE with a number (0 is off), such as local=4", param, ctx)
        return name, rate


class Amount(click.ParamType[float]):
    """A finite number above 0."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not 0 < amount < math.inf:
            self.fail(f"`{value}` is not a finite number above 0", param, ctx)
        return amount


class Count(click.ParamType[int]):
    """A whole number of at least 1."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            self.fail(f"`{value}` is not a whole number of at least 1", param, ctx)
        return int(text)


class Seconds(click.ParamType[float]):
    """A finite number of seconds above 0."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(f"`{value}` is not a finite number of seconds above 0", param, ctx)
        if seconds > SECONDS_AT_MOST:
            self.fail(f"`{value}` is above ten years, {SECONDS_AT_MOST:.0f} seconds", param, ctx)
        return seconds


class Rate(click.ParamType[float]):
    """A share from 0 to 1."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share."""
        try:
            rate = float(value)
        except ValueError:
            rate = math.nan
        if not 0 <= rate <= 1:
            self.fail(f"`{value}` is not a share from 0 to 1", param, ctx)
        return rate


def _task_ids(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    ids = tuple(part.strip() for value in values for part in value.split(","))
    if not all(ids):
        raise click.BadParameter("a task id is empty; write them as ID,ID", ctx, param)
    return ids


def _directory(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("it is empty; write `.` for this directory", ctx, param)
    return value


def _assignments(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Look at the form before click complains of a word that was meant for `--set` and may be a credential."""
    for value in values:
        parse_assignment(value)
    return values


COUNT = Count()
AMOUNT = Amount()
LEVELS = click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False)

_SHARED: list[Callable[[Any], Any]] = [
    click.option("--env", "provider", metavar="PROVIDER", help="Provider of the sandboxes (default: local)."),
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
    click.option(
        "--set", "assignments", multiple=True, callback=_assignments, metavar="KEY=VALUE",
        help="Set a field by its dotted path, such as model.base_url or benchmark.params.tasks. Repeatable.",
    ),
    click.option(
        "--progress", type=click.Choice(["auto", "plain", "none"]), default="auto",
        help="What the terminal shows; results are saved all the same (default: auto, which is plain for now).",
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
        "--file-log-level", type=LEVELS, default="DEBUG", metavar="LEVEL",
        help="What run.log keeps: DEBUG, INFO, WARNING, ERROR or CRITICAL (default: DEBUG).",
    ),
]  # fmt: skip


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
