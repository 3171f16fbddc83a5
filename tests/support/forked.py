"""Runs programs of this environment, each in a process of its own that begins where the imports are done.

A program of this package costs a second of imports, and what it does costs less. One process imports, and is forked for
each program: what is looked up while it runs, such as plugins, is looked up anew in each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn


class Ran(NamedTuple):
    """What came of a program."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """The process that is forked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *words: str | Path, folder: Path, env: Mapping[str, str]) -> Ran:
        """Run `proctor` or `pytest` in a folder, with these environment variables and no others."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"words": list(map(str, words)), "folder": str(folder), "env": dict(env)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ran(*json.loads(self._process.stdout.readline()))


@contextmanager
def forks() -> Iterator[Forks]:
    """Start the process, and end it with the block."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Forks(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # which ends it


def _program(words: Sequence[str]) -> NoReturn:
    """Run a program as its script in the environment does."""
    sys.argv = [str(Path(sys.executable).parent / words[0]), *words[1:]]
    if words[0] == "pytest":
        import pytest

        sys.exit(pytest.console_main())
    from proctor.cli.main import main

    main()


def _child(asked: dict[str, Any], out: int, err: int) -> None:
    """Be the program, and never return."""
    code = 70
    try:
        for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
            os.dup2(file, number)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["env"])
        more = asked["env"].get("PYTHONPATH")
        sys.path[0] = more or str(Path(sys.executable).parent)
        _program(asked["words"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve() -> None:
    import proctor.cli.commands.run
    import proctor.testing  # noqa: F401

    for line in sys.stdin:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                _child(json.loads(line), out.fileno(), err.fileno())
            _, status = os.waitpid(pid, 0)
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode("utf-8", "replace"))
        print(json.dumps([os.waitstatus_to_exitcode(status), *said]), flush=True)


if __name__ == "__main__":
    _serve()
