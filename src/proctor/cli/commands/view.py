"""`proctor view`: runs and attempts in a browser."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from pathlib import Path

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.output import say
from proctor.cli.results_place import results_and_record


@click.command("view", cls=Command)
@click.argument("runs", metavar="[RUN_DIR ...]", nargs=-1)
@click.option("--host", default="127.0.0.1", metavar="HOST", help="Where to listen (default: 127.0.0.1).")
@click.option("--port", default=0, type=click.IntRange(0, 65535), metavar="N", help="Port (default: a free one).")
@click.option("--results-dir", metavar="DIR", help="What to show (default: the results of the project).")
def command(runs: tuple[str, ...], host: str, port: int, results_dir: str | None) -> int:
    """Show one run, several, or all results, in a browser."""
    from proctor.viewer.results import Results  # noqa: PLC0415 - what it needs is slow to import
    from proctor.viewer.serve import listen, serve  # noqa: PLC0415 - likewise

    root = results_and_record(results_dir)[0]
    results = Results(root, tuple(map(Path, runs)))
    listening = listen(host, port)
    say(f"http://{host}:{listening.getsockname()[1]}/")
    serve(results, listening)
    return 0
