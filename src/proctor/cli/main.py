"""`proctor`: finds the command, runs it, and turns what went wrong into a message and an exit code."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import rich_click as click
from click.exceptions import Abort, NoArgsIsHelpError, NoSuchOption
from click.exceptions import Exit as ClickExit

from proctor import __version__
from proctor.cli.command import TYPED, Command, saying
from proctor.cli.exits import Exit
from proctor.cli.output import fill_standard_streams, say
from proctor.errors import (
    CannotStart,
    InternalError,
    JournalLocked,
    NothingToRun,
    ProctorError,
    UsageError,
    describe,
    nearest,
)

if TYPE_CHECKING:
    from click import Command as AnyCommand
    from click import Context

COMPLETE_VARIABLE = "_PROCTOR_COMPLETE"
"""Set by the shell when it asks what a word may become."""

COMMANDS: dict[str, str] = {
    "run": "Run one experiment: a benchmark with a harness and a model.",
    "launch": "Run several experiments from one file, under one set of limits.",
    "exp": "Run experiments that are checked in as Python files, under experiments/ and evals/.",
    "plan": "Say what `run` would do, how long it would take and what it would cost.",
    "check": "Say whether a benchmark is gradeable, by running `oracle` and `nop` over it.",
    "init": "Make a project with one working experiment and two tasks.",
    "status": "Say what a running invocation is doing, from another terminal.",
    "show": "Print the results of a run from its journal.",
    "compare": "Compare runs task by task, with intervals and tests.",
    "view": "Show runs and attempts in a browser.",
    "accept": "Fill slots of a new run with reviewed attempts whose identity has changed.",
    "record": "Rebuild, check, export and clean the index over all journals.",
    "sandbox": "List, enter and remove sandboxes that were kept, or left behind.",
    "lease": "List, inspect and recover leases on shared state.",
    "list": "List what is installed, and the tasks and experiments of the project.",
    "config": "Show the configuration in force and where it came from; explain its fields.",
    "doctor": "Say what works on this machine: providers, limits, credentials, packages.",
}
"""Every command with its one line of help; its module is imported only when it is used."""


class LazyGroup(click.RichGroup):
    """A group that lists its commands without importing them."""

    def get_help_option(self, ctx: click.RichContext) -> click.Option | None:
        """Return the option that prints the help."""
        return saying(super().get_help_option(ctx))

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> AnyCommand | None:
        """Return a command for listing; only shell completion needs the real one here."""
        if cmd_name not in COMMANDS:
            return None
        if ctx.resilient_parsing:
            return _import(cmd_name)
        return Command(name=cmd_name, short_help=COMMANDS[cmd_name], help=COMMANDS[cmd_name])

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, AnyCommand | None, list[str]]:
        """Import the command that is to run; an unknown one names the nearest known."""
        name = args[0]
        if name not in COMMANDS:
            near = nearest(name, COMMANDS)
            middle = f"; did you mean `{near}`?" if near else ""
            raise UsageError(f"unknown command `{name}`{middle}", hint="`proctor --help` lists all")
        return name, _import(name), args[1:]


def _import(name: str) -> AnyCommand:
    from importlib import import_module  # noqa: PLC0415 - a start for --help imports no command

    return import_module(f"proctor.cli.commands.{name}").command


HELP = click.RichHelpConfiguration(
    options_table_column_types=["opt_all_metavar", "help"],
    commands_table_column_types=["name", "help"],
    style_options_table_row_styles=None,
)
"""Two columns: what to type, and what it does. Not given by `rich_config`, which imports rich for every start."""


def _print_version(ctx: Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        say(f"proctor, version {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "rich_help_config": HELP})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """Run agent evaluations: every slot accounted for, no limit exceeded, no sandbox left behind."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with `arguments` (default: those of the process) and exit."""
    fill_standard_streams()
    code = run(arguments)
    running = sys.modules.get("proctor.runtime.running")  # where nothing was run, it was not imported
    threads = any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate())
    if threads or (running is not None and running.LEFT):
        # A plugin's thread or task that cannot be cancelled: the interpreter would wait for it (spec 05 Time).
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, full or absent: there is nobody to tell
                stream.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    try:
        # Not by click's own `main`, which turns an EPIPE from wherever it comes into exit code 1.
        instruction = os.environ.get(COMPLETE_VARIABLE)
        if instruction:
            from click.shell_completion import shell_complete  # noqa: PLC0415 - only for completion

            return shell_complete(cli, {}, "proctor", COMPLETE_VARIABLE, instruction)
        typed = list(sys.argv[1:] if arguments is None else arguments)
        with cli.make_context("proctor", [*typed]) as context:
            context.meta[TYPED] = typed
            code = cli.invoke(context)
    except ClickExit as done:
        return done.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return _end_with(error)
    return int(code) if isinstance(code, int) else Exit.OK


def _end_with(error: BaseException) -> Exit:
    """Say what went wrong, in one message with a hint, and return the exit code for it."""
    if isinstance(error, NoArgsIsHelpError):
        say(error.message, err=True, styled=True)
        return Exit.USAGE
    if isinstance(error, click.ClickException):
        return _say(*_of_click(error), Exit.USAGE)
    if isinstance(error, KeyboardInterrupt | Abort):
        interrupts = sys.modules.get("proctor.cli.interrupts")
        begun = interrupts is not None and interrupts.Interrupts.begun_here
        when = "at the very end: what was finished is kept" if begun else "before anything was started"
        return _say(f"interrupted {when}", None, Exit.SIGINT)
    if isinstance(error, ProctorError) and not isinstance(error, InternalError):
        code = next((code for kind, code in _EXIT_OF if isinstance(error, kind)), Exit.INCOMPLETE)
        return _say(error.message, error.hint, code)
    import traceback  # noqa: PLC0415 - only for our own bugs

    from proctor.model.secrets import secrets_in  # noqa: PLC0415 - likewise
    from proctor.runtime.redact import Redactor  # noqa: PLC0415 - likewise

    redacted = Redactor(secrets_in(os.environ)).text
    say(redacted("".join(traceback.format_exception(error)).rstrip("\n")), err=True)
    message = redacted(error.message if isinstance(error, InternalError) else describe(error))
    hint = error.hint if isinstance(error, InternalError) else None
    return _say(
        f"internal: {message}", hint or "this is a bug of proctor; please report the lines above", Exit.INTERNAL
    )


_EXIT_OF: tuple[tuple[type[ProctorError], Exit], ...] = (
    (UsageError, Exit.USAGE),
    (NothingToRun, Exit.NOTHING_TO_RUN),
    (CannotStart, Exit.USAGE),
    (JournalLocked, Exit.USAGE),
)


def _of_click(error: click.ClickException) -> tuple[str, str]:
    """Return message and hint of a usage error found by click, in our style."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "proctor"
    message = " ".join(error.format_message().split()).rstrip(".")  # choices stand in lines of their own
    if isinstance(error, NoSuchOption):
        if context and error.option_name.lstrip("-") in {
            each.name for each in context.command.params if isinstance(each, click.Argument)
        }:
            usage = " ".join([path, *context.command.collect_usage_pieces(context)[1:]])
            return (
                f"unknown option `{error.option_name}`; {error.option_name.lstrip('-').upper()} is an argument",
                f"write `{usage}`",
            )
        near = f"; did you mean `{error.possibilities[0]}`?" if error.possibilities else ""
        message = f"unknown option `{error.option_name}`{near}"
    return message[:1].lower() + message[1:], f"`{path} --help` lists what it takes"


def _say(message: str, hint: str | None, code: Exit) -> Exit:
    say(f"error: {message}", err=True)
    if hint:
        say(f"hint: {_with_own_pip(hint)}", err=True)
    return code


def _with_own_pip(hint: str) -> str:
    """Return a hint whose `pip install` installs where proctor looks, whichever `pip` the shell would find."""
    if "pip install " not in hint:
        return hint
    import shlex  # noqa: PLC0415 - only for a missing package
    import shutil  # noqa: PLC0415 - likewise

    found = shutil.which("pip")
    if found and os.path.dirname(found) == os.path.dirname(sys.executable):
        return hint
    return hint.replace("pip install ", f"{shlex.quote(sys.executable)} -m pip install ")


if __name__ == "__main__":
    main()
