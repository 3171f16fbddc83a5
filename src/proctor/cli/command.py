"""Commands as click knows them, whose help goes the way of everything that is printed."""

from __future__ import annotations

import rich_click as click

from proctor.cli.output import say


def print_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the help of a command and end; the callback of `--help`."""
    if value and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()


def saying(option: click.Option | None) -> click.Option | None:
    """Return the option `--help`, made to print by `print_help`."""
    if option is not None:
        option.callback = print_help
    return option


class Command(click.RichCommand):
    """A command of proctor."""

    def get_help_option(self, ctx: click.RichContext) -> click.Option | None:
        """Return the option that prints the help."""
        return saying(super().get_help_option(ctx))
