"""The compose program: the plugin of docker, or `docker-compose`; both are called by themselves."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.model.environment import Compose
from proctor.plugins.api import Say
from proctor.runtime.process import Processes

INSTALL = "needs docker compose: install the package `docker-compose-plugin`, `docker-compose-v2` or `docker-compose`"

READ_SECONDS = 60.0
"""How long the program may take to read a file."""

_PLUGIN_FOLDERS = ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
_PASSED_ON = ("PATH", "HOME", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "SSH_AUTH_SOCK", "TMPDIR")
_LAST_LINES = 20


class ComposeFailed(Exception):
    """The program ended with an error; the text has what it said last."""


def find_program() -> str | None:
    """Return the path of a compose program, or None. One of version 2 is preferred."""
    config = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    folders = [f"{config}/cli-plugins", *(f"{folder}/docker/cli-plugins" for folder in _PLUGIN_FOLDERS)]
    return shutil.which("docker-compose", path=os.pathsep.join(folders)) or shutil.which("docker-compose")


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the program; paths are absolute, and those in `file` relative to `folder`."""

    project: str
    file: Path
    folder: Path
    words: Sequence[str]
    limit_seconds: float
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


class ComposeProgram:
    """Calls of the compose program against one engine; `host` is the engine's address, as DOCKER_HOST has it."""

    def __init__(self, host: str | None) -> None:
        self._host = host

    async def resolved(self, compose: Compose, variables: Mapping[str, str]) -> Any:
        """Return a compose file with everything filled in: variables, other files that it names, absolute paths.

        Only `variables` are there to be filled in. Raises `ComposeFailed`.
        """
        file, lines = absolute(compose.file), list[str]()
        call = _Call("proctor-read", file, file.parent, ("config",), READ_SECONDS, variables)
        await self._run(call, lines.append)
        return parsed("\n".join(lines))

    async def up(self, content: Mapping[str, Any], compose: Compose, project: str, limit_seconds: float) -> None:
        """Start all services of a file, in the order of what they wait for. Raises `ComposeFailed`."""
        with tempfile.TemporaryDirectory(prefix="proctor-compose-") as folder:
            path = Path(folder) / "compose.yaml"
            path.write_text(written(content), "utf-8", "surrogateescape")
            words = ("up", "-d", "--no-build")
            await self._run(_Call(project, path, absolute(compose.file).parent, words, limit_seconds), None)

    async def _run(self, call: _Call, say: Say | None) -> None:
        program = find_program()
        if program is None:
            raise ComposeFailed(INSTALL)
        argv = [program, "-p", call.project, "-f", str(call.file), "--project-directory", str(call.folder)]
        env = {name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None}
        env |= {**call.variables, "PATH": os.environ.get("PATH", os.defpath)}
        if self._host is not None:
            env["DOCKER_HOST"] = self._host
        last: deque[str] = deque(maxlen=_LAST_LINES)
        streams = {"stdout": _Lines(say or last.append), "stderr": _Lines(last.append)}
        processes = Processes(call.project)
        try:
            result = await processes.run(
                [*argv, *call.words],
                cwd=str(call.folder),
                env=env,
                timeout_seconds=call.limit_seconds,
                on_output=lambda stream, piece: streams[stream].feed(piece),
            )
        finally:
            await processes.kill()
        for one in streams.values():
            one.end()
        if result.timed_out:
            raise ComposeFailed("\n".join([f"it did not come up within {call.limit_seconds:g} s", *last]))
        if not result.ok:
            status = result.lost or (f"signal {result.signal}" if result.signal else f"status {result.exit_code}")
            raise ComposeFailed("\n".join([f"compose ended with {status}", *last]))


class _Lines:
    """Cuts output into lines."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._say(line.decode("utf-8", "replace").rstrip("\r"))

    def end(self) -> None:
        if self._rest:
            self._say(self._rest.decode("utf-8", "replace"))


def absolute(path: str) -> Path:
    """Return a path with what it is relative to."""
    return Path(path).absolute()


def parsed(text: str) -> Any:
    """Return the content of a compose file; raises `ComposeFailed` where it is no YAML."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - heavy: only where there are services
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - likewise

    try:
        return YAML(typ="safe", pure=True).load(text)  # pyright: ignore[reportUnknownMemberType] - it has no types
    except YAMLError as error:
        raise ComposeFailed(f"it is no YAML: {error}") from error


def written(content: Mapping[str, Any]) -> str:
    """Return a compose file as text. JSON is YAML, and leaves no doubt what is a text and what a number."""
    import json  # noqa: PLC0415 - beside `parsed`

    return json.dumps(content, default=str)


__all__ = ["INSTALL", "ComposeFailed", "ComposeProgram", "absolute", "find_program", "parsed", "written"]
