"""`proctor plan`: what a run would do, how long it would take and what it would cost; starts and writes nothing."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.commands import exp, launch, run
from proctor.cli.dry_run import dry_run
from proctor.cli.optional_values import OPTIONAL_VALUES
from proctor.cli.options import COUNT
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.report.plan_text import SLOTS_SHOWN

SETTINGS_AT_MOST = 20
"""So many settings may be compared in one plan."""

LAUNCH_FILES = (".yaml", ".yml")

Prepared = Callable[..., tuple[list[Resolved], Options]]

DOORS: dict[str, tuple[click.Command, Prepared]] = {
    "run": (run.command, run.prepared),
    "launch": (launch.command, launch.prepared),
    "exp": (exp.command, exp.prepared),
}
"""Commands of which a plan can be made, by the word that may stand in front."""


class Counts(click.ParamType[tuple[int, ...]]):
    """Whole numbers of at least 1, with commas between them; a number that comes twice counts once."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        numbers = [COUNT.convert(part.strip(), param, ctx) for part in str(value).split(",")]
        if len(numbers) > SETTINGS_AT_MOST:
            self.fail(f"{len(numbers)} settings are more than the {SETTINGS_AT_MOST} that can be compared", param, ctx)
        return tuple(dict.fromkeys(numbers))


class PlanCommand(Command):
    """Makes the plan of one of several commands, whose options and arguments it takes."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Find out which command is meant, and read the words as that one would."""
        place = _first_word(args, self.params)
        word = args[place] if place is not None else ""
        if word in DOORS:
            assert place is not None
            args = args[:place] + args[place + 1 :]
        door = word if word in DOORS else "launch" if word.endswith(LAUNCH_FILES) else "run"
        if door == "run":
            return super().make_context(info_name, args, parent, **extra)
        return _plan_of(door).make_context(info_name, args, parent, **extra)


def _first_word(args: Sequence[str], params: Sequence[click.Parameter]) -> int | None:
    """Return the place of the first word that is neither an option nor the value of one."""
    takes_value = {
        name for param in params if isinstance(param, click.Option) and not param.is_flag for name in param.opts
    }
    place = 0
    while place < len(args):
        if not args[place].startswith("-"):
            return place
        place += 2 if args[place] in takes_value - OPTIONAL_VALUES.keys() else 1
    return None


def _plan(prepared: Prepared, *, all_slots: bool, task_concurrency: tuple[int, ...] | None, **given: Any) -> int:
    given["task_concurrency"] = task_concurrency[0] if task_concurrency else None
    resolved, options = prepared(**given)
    return dry_run(resolved, options, all_slots=all_slots, concurrency=task_concurrency or ())


OURS: dict[str, click.Option] = {
    "task_concurrency": click.Option(
        ["--task-concurrency", "--max-concurrency"],
        type=Counts(),
        metavar="N,...",
        help="Attempts executing at once, over everything (default: 32). Several compare the expected wall times.",
    ),
    "as_json": click.Option(
        ["--json", "as_json"],
        is_flag=True,
        help="Write the plan, every slot and the forecasts to standard output, as NDJSON.",
    ),
}
"""Options that mean more or other things here."""


def _plan_of(door: str) -> Command:
    """Return the command that plans what another would do, with its parameters and our own."""
    planned, prepared = DOORS[door]
    params = [OURS.get(param.name or "", param) for param in planned.params]
    params.append(
        click.Option(["--all", "all_slots"], is_flag=True, help=f"List every slot (default: the first {SLOTS_SHOWN}).")
    )
    make = PlanCommand if door == "run" else Command
    return make(name="plan", params=params, callback=partial(_plan, prepared), help=HELP)


HELP = """Say what a command would do: every slot, the limits, expected time and cost.

Put `plan` in front of `run`, `launch` or `exp`, with their arguments and options; `run` may be left out, and
`launch` in front of a FILE.yaml. Starts nothing and writes nothing.
"""

command = _plan_of("run")
