"""Commands as click knows them, whose help goes the way of everything that is printed."""

from __future__ import annotations

import rich_click as click

from proctor.cli.optional_values import settle
from proctor.cli.output import say
from proctor.errors import UsageError, nearest

TYPED = "proctor.arguments"
"""Under this name the context of the program keeps the words that were typed."""


def print_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the help of a command and end; the callback of `--help`."""
    if value and not ctx.resilient_parsing:
        say(ctx.get_help(), styled=True)
        ctx.exit()


def saying(option: click.Option | None) -> click.Option | None:
    """Return the option `--help`, made to print by `print_help`."""
    if option is not None:
        option.callback = print_help
    return option


class Command(click.RichCommand):
    """A command of proctor."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        return super().parse_args(ctx, settle(args, self.params))

    def get_help_option(self, ctx: click.RichContext) -> click.Option | None:
        """Return the option that prints the help."""
        return saying(super().get_help_option(ctx))


class Group(click.RichGroup):
    """A command with commands of its own; one that is unknown is named with the nearest known."""

    command_class = Command

    def get_help_option(self, ctx: click.RichContext) -> click.Option | None:
        """Return the option that prints the help."""
        return saying(super().get_help_option(ctx))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant. Raises `UsageError`."""
        if args[0] not in self.commands:
            near = nearest(args[0], self.commands)
            middle = f"; did you mean `{self.name} {near}`?" if near else ""
            raise UsageError(
                f"unknown command `{self.name} {args[0]}`{middle}", hint=f"`proctor {self.name} --help` lists all"
            )
        return super().resolve_command(ctx, args)
