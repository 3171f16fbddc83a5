"""`proctor init`: a project with one working experiment and two tasks."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import os
import shlex
from importlib.resources import files
from pathlib import Path

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.errors import UsageError
from proctor.report.wording import printable

FILES = {
    "proctor.yaml": "proctor.yaml.txt",
    "evals/hello.py": "hello.py.txt",
    "experiments/first.py": "first.py.txt",
    "mock_model.py": "mock_model.py.txt",
    ".env.example": "env.example.txt",
    ".gitignore": "gitignore.txt",
    "README.md": "README.md.txt",
}
"""The files of a new project, and the names of their contents among our own."""


@click.command("init", cls=Command)
@click.argument("directory", required=False, default=".", metavar="[DIR]")
def command(directory: str) -> int:
    """Make a project in DIR (default: here) with one working experiment and two tasks.

    Its experiment passes at once, with a mock model. A file that is there already is kept as it is, and named.
    """
    root = Path(directory)
    made: list[str] = []
    kept: list[str] = []
    for name, source in FILES.items():
        content = files("proctor.data").joinpath("project", source).read_bytes()
        (made if _write(root / name, content) else kept).append(name)
    for name in made:
        say(f"made {printable(str(root / name))}")
    for name in kept:
        content = files("proctor.data").joinpath("project", FILES[name]).read_bytes()
        say(f"kept {printable(str(root / name))}: {_compared(root / name, content)}")
    say("\n".join(_next(root)))
    return Exit.OK


def _write(path: Path, content: bytes) -> bool:
    """Make a file, whole, or return False where something of that name is there. Raises `UsageError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        if path.parent.is_dir():
            return False
        raise UsageError(
            f"cannot make `{path}`: `{path.parent}` is no directory", hint="name another directory for the project"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot make `{path}`: {error.strerror}", hint="name a directory that you may write"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"cannot write `{path}`: {error.strerror}", hint="make room, and say it again") from None
    return True


def _compared(path: Path, content: bytes) -> str:
    """Return how what is there differs from what would have been made."""
    try:
        there = path.read_bytes()
    except OSError:  # such as a directory
        return "it is there, and is no file that can be read"
    if there == content:
        return "it is the same"
    missing = set(content.decode().splitlines()) - set(there.decode(errors="replace").splitlines())
    if path.name == ".gitignore":
        return f"add these lines to it: {', '.join(sorted(missing))}" if missing else "it has what it needs"
    return "it was there, and differs"


def _next(root: Path) -> list[str]:
    """Return what to do now."""
    here = [] if root.resolve() == Path.cwd().resolve() else [f"  cd {shlex.quote(str(root))}"]
    return [
        "",
        "now:",
        *here,
        "  proctor exp          run it: it passes at once, with a mock model",
        "  proctor exp --dry    say what would be done, and start nothing",
        "",
        "for a real model:",
        "  proctor.yaml         name it under `models: main:`, where the lines are that are commented out",
        "  .env                 copy .env.example to it, and put the key there",
        "then write tasks like those of evals/hello.py; README.md says what each file is",
    ]
