"""The command of `python -m proctor.testing.model_server`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

import click

from proctor.errors import ProctorError, UsageError
from proctor.model.spec import ModelSpec
from proctor.models.mock import script_of
from proctor.testing.model_server import HOST, ModelServer
from proctor.testing.replies import Delay, Failure, Reply, Request, answering, failing_first
from proctor.testing.shell_script import shell_script


async def run_until_signal(server: ModelServer, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM comes; `started` gets the base URL once the server listens."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with server:
        started(server.base_url)
        await ended.wait()


def _script_from_options(
    script: str | None, answers: str | None, text: str | None, share: str | None, commands: Sequence[str]
) -> Callable[[Request], Reply]:
    if script == "agent":
        return shell_script(commands, answer="done" if text is None else text)
    if commands:
        raise UsageError("--command is for `--script agent`")
    name = script or ("answers" if answers else "fixed" if text is not None else "echo")
    given = {"file": answers, "text": text, "share": share, "script": name if ":" in name else None}
    params = {key: value for key, value in given.items() if value is not None}
    return answering(script_of(ModelSpec(id=f"mock/{'script' if ':' in name else name}", params=params)))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--host", default=HOST, show_default=True, help="Address to listen on")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0 is any")
@click.option("--script", help="Who answers: agent, echo, fixed, answers, humaneval or package.module:function")
@click.option("--command", "commands", multiple=True, help="What --script agent runs by its shell tool (repeatable)")
@click.option("--share", help="Share of HumanEval that is solved, such as 0.5 (for --script humaneval)")
@click.option("--answers", metavar="FILE", help="Answer from this file of JSON lines")
@click.option("--text", help="Answer this text to everything; with --script agent, at its end")
@click.option("--status", type=click.IntRange(400, 599), help="Answer with this status instead")
@click.option("--times", type=click.IntRange(0), help="Answer so many requests with --status (default: all)")
@click.option("--retry-after", metavar="VALUE", help="Retry-After header of --status: seconds or a date")
@click.option("--message", default="scripted failure", show_default=True, help="Message of --status")
@click.option(
    "--delay-seconds", type=click.FloatRange(0), default=0.0, show_default=True, help="Wait before each reply"
)
@click.option("--model", "models", multiple=True, default=("scripted",), help="Model to list (repeatable)")
def _main(  # noqa: PLR0917 - one per option, passed by name
    host: str,
    port: int,
    script: str | None,
    commands: tuple[str, ...],
    share: str | None,
    answers: str | None,
    text: str | None,
    status: int | None,
    times: int | None,
    retry_after: str | None,
    message: str,
    delay_seconds: float,
    models: tuple[str, ...],
) -> None:
    """Serve a scripted model over HTTP, print its base URL, and stop on SIGINT or SIGTERM."""
    reply = _script_from_options(script, answers, text, share, commands)
    if status is not None:
        reply = failing_first(reply, Failure(status, message, retry_after=retry_after), times)
    elif times is not None or retry_after is not None:
        raise UsageError("--times and --retry-after say something of --status, which is not given")
    inner = reply

    def delayed(request: Request) -> Reply:
        answer = inner(request)
        return answer if isinstance(answer, Delay) else Delay(delay_seconds, answer)

    server = ModelServer(delayed if delay_seconds else reply, host=host, port=port, models=models)
    asyncio.run(run_until_signal(server, click.echo))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 for wrong options and a port that is taken."""
    try:
        _main.main(args=arguments, prog_name="python -m proctor.testing.model_server", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ProctorError as error:
        click.echo(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""), err=True)
        return 2
    except OSError as error:
        click.echo(f"error: cannot listen: {error}", err=True)
        return 2
    return 0
