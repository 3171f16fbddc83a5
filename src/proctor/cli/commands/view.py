"""`proctor view`: runs and attempts in a browser."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.errors import UsageError
from proctor.report.wording import plural

REASONS_SAID = 5


@click.command("view", cls=Command)
@click.argument("runs", metavar="[RUN ...]", nargs=-1)
@click.option("--results-dir", metavar="DIR", help="What to show (default: the results of the project).")
@click.option("--host", default="127.0.0.1", metavar="HOST", help="Where to listen (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Port (default: 8377, or a free one).")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Answer under this name too; may be repeated.")
@click.option("--open/--no-open", "opens", default=False, help="Open the browser (default: no).")
@click.option("--out", metavar="DIR", help="Write the pages to DIR instead, as files that need no server.")
@click.option(
    "--attempt-pages", type=click.IntRange(min=0), metavar="N", help="With --out: pages of attempts (default: 2000)."
)
@click.option("--language", type=click.Choice(["en", "zh"]), help="With --out: the language of the pages.")
def command(
    runs: tuple[str, ...],
    *,
    results_dir: str | None,
    host: str,
    port: int | None,
    allow_host: tuple[str, ...],
    opens: bool,
    out: str | None,
    attempt_pages: int | None,
    language: str | None,
) -> int:
    """Show RUNs, directories or ids of runs, or all results, in a browser, until Ctrl-C.

    Everybody who can reach the port can read the results: there is no password. So only this machine can, unless
    --host says otherwise. With --out the same pages are written to a directory, to be opened or published from there.
    """
    if out is not None:
        return _write(runs, results_dir, out, attempt_pages, language)
    if attempt_pages is not None or language is not None:
        raise UsageError("--attempt-pages and --language are about pages that are written", hint="give --out DIR")
    with suppress(KeyboardInterrupt):  # that is how it is ended
        _serve(runs, results_dir, host, port, allow_host, opens=opens)
    return 0


def _serve(
    runs: tuple[str, ...], results_dir: str | None, host: str, port: int | None, more: tuple[str, ...], *, opens: bool
) -> None:
    from proctor.cli.shown_results import results_to_show  # noqa: PLC0415 - what it needs is slow to import

    results = results_to_show(runs, results_dir)
    from proctor.viewer.serve import address_of, is_reachable, listen, names_of, serve  # noqa: PLC0415 - likewise

    names = names_of(host, more)
    with listen(host, port) as listening:
        if is_reachable(listening):
            say(
                f"warning: whoever reaches `{host}` over the network can read these results; the viewer answers under "
                f"{', '.join(names)} (--allow-host adds a name)",
                err=True,
            )
        address = address_of(listening, host)
        say(address)
        if opens:
            _open(address)
        serve(results, listening, names)


def _write(
    runs: tuple[str, ...], results_dir: str | None, out: str, attempt_pages: int | None, language: str | None
) -> int:
    from proctor.cli.shown_results import results_to_show  # noqa: PLC0415 - what it needs is slow to import
    from proctor.viewer.site import MOST_ATTEMPTS, write_site  # noqa: PLC0415 - likewise

    most = MOST_ATTEMPTS if attempt_pages is None else attempt_pages
    found = write_site(results_to_show(runs, results_dir), Path(out), language=language or "en", most_attempts=most)
    if found.attempts_left_out:
        say(f"{found.attempts_left_out:,} attempts have no page of their own (--attempt-pages {most})", err=True)
    if found.files_left_out:
        say(f"{found.files_left_out:,} files are too large and were left out; their pages say so", err=True)
    for message, count in Counter(found.unreadable).most_common(REASONS_SAID):
        say(f"warning: {plural(count, 'page')} could not be filled: {message}", err=True)
    for trace in found.broken[:REASONS_SAID]:
        say(f"a bug of proctor: a page could not be made: {trace}", err=True)
    say(f"{found.pages:,} pages and {found.files:,} files of runs: {found.directory / 'index.html'}")
    return Exit.INTERNAL if found.broken else Exit.OK


def _open(address: str) -> None:
    """Open a browser beside: one that runs in the terminal comes back only when it is ended."""
    import threading  # noqa: PLC0415 - only for this
    import webbrowser  # noqa: PLC0415 - likewise

    def opening() -> None:
        if not webbrowser.open(address):
            say("warning: no browser was found that can be opened", err=True)

    threading.Thread(target=opening, daemon=True).start()
