"""`proctor list`: what is installed, without importing it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.output import say
from proctor.errors import UnknownName
from proctor.plugins.registry import Kind, names, origin

_WORDS = {kind.group.removeprefix("proctor."): kind for kind in Kind}


@click.command("list", cls=Command)
@click.argument("what", required=False, metavar="[KIND]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(what: str | None, as_json: bool) -> int:
    """List what is installed: all kinds, or one of harnesses, benchmarks, graders, providers, models."""
    if what is not None and what not in _WORDS:
        raise UnknownName("kind", what, _WORDS, list_with="proctor list")
    wanted = [what] if what else list(_WORDS)
    found = {word: {name: origin(_WORDS[word], name) for name in names(_WORDS[word])} for word in wanted}
    if as_json:
        say(json.dumps(found, indent=1))
        return 0
    lines: list[str] = []
    for word in wanted:
        if len(wanted) > 1:
            lines.append(f"{word}:")
        indent = "  " if len(wanted) > 1 else ""
        lines += [f"{indent}{name:<16} {distribution}" for name, distribution in found[word].items()]
    say("\n".join(lines))
    return 0
