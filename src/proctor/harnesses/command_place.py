"""Where a program runs: its sandbox, its directories there, its variables. Nothing here knows what it prints."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proctor.errors import Fault
from proctor.harnesses.command_declaration import Declaration, filled
from proctor.harnesses.command_endpoint import Endpoint
from proctor.model.bounds import shortened, with_gap
from proctor.plugins.api import MEBIBYTE, ExecResult, OnOutput, Sandbox
from proctor.plugins.exits import exit_words

STREAM_BYTES = 32 * MEBIBYTE
"""What is kept of each stream of a turn: its beginning and its end."""
FILE_BYTES = 32 * MEBIBYTE
"""Of each file that is read."""
FILES_AT_MOST = 50
READ_SECONDS = 60.0

# Not below the directory for temporary files where that can be had: some programs put nothing there that they start.
_DIRECTORIES = """
base=${HOME:-/tmp}/.proctor
if ! { mkdir -p "$base" && state=$(mktemp -d "$base/session.XXXXXX"); }; then
    base=$(mktemp -d) && state=$base/session && mkdir "$state"
fi
printf '%s\\n%s\\n' "$base" "$state"
"""
_WRITE = 'mkdir -p "${1%/*}" && cat > "$1"'
_FOUND = 'IFS=; for file in $1; do if [ -f "$file" ] && [ ! -L "$file" ]; then printf "%s\\n" "$file"; fi; done'
_WITH_PATH = 'if [ -n "$1" ]; then PATH="$1:$PATH"; export PATH; fi; shift; exec "$@"'


class Kept:
    """The beginning and the end of a stream, as it comes."""

    def __init__(self, most: int = STREAM_BYTES) -> None:
        self._most = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._gone = 0

    def add(self, data: bytes) -> None:
        """Take more of it."""
        room = self._most - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._most:  # not with each piece: what is left is copied
            self._trim()

    def _trim(self) -> None:
        over = max(0, len(self._tail) - self._most)
        self._gone += over
        del self._tail[:over]

    @property
    def dropped(self) -> int:
        """How many bytes were left out."""
        self._trim()
        return self._gone

    @property
    def content(self) -> bytes:
        """What was kept, with a mark where something was left out."""
        dropped = self.dropped
        return with_gap(bytes(self._head + self._tail), dropped)


@dataclass(slots=True)
class Place:
    """The sandbox of one session, and what placeholders stand for in it."""

    sandbox: Sandbox
    declared: Declaration
    values: dict[str, str]

    async def run(
        self, words: Sequence[str], *, stdin: bytes | None = None, on_output: OnOutput | None = None
    ) -> ExecResult:
        """Run a command of the program, of which placeholders are filled already, with all of its variables."""
        env = {name: filled(text, self.values) for name, text in self.declared.env.items()}
        return await self.sandbox.exec(
            self._with_path(words), env=env, stdin=stdin, on_output=on_output, keep_bytes=MEBIBYTE
        )

    async def ask(self, words: Sequence[str], seconds: float) -> ExecResult:
        """Run a command that takes no more than some seconds and sees no credential."""
        hidden = {**self.values, "key": ""}
        env = {name: filled(text, hidden) for name, text in self.declared.env.items()}
        return await self.sandbox.exec(self._with_path(words), env=env, timeout_seconds=seconds)

    async def script(self, text: str) -> ExecResult:
        """Run a script for the installation, in the directory of tools."""
        tools, version = self.values["tools"], self.values["version"]
        env = {"PROCTOR_TOOLS": tools, "PROCTOR_VERSION": version}
        inside = 'mkdir -p "$PROCTOR_TOOLS" && cd "$PROCTOR_TOOLS" && eval "$1"'
        return await self.sandbox.exec(self._with_path(("sh", "-c", inside, "sh", text)), env=env)

    def _with_path(self, words: Sequence[str]) -> list[str]:
        path = ":".join(filled(text, self.values) for text in self.declared.path)
        return ["sh", "-c", _WITH_PATH, "sh", path, *words]

    async def write(self, path: str, content: str) -> None:
        """Write a file anywhere in the sandbox. Raises `Fault`."""
        data = content.encode("utf-8", "surrogatepass")
        done = await self.sandbox.exec(["sh", "-c", _WRITE, "sh", path], stdin=data)
        if not done.ok:
            raise Fault("harness.crashed", f"{path} could not be written: {said(done)}")

    async def read(self, patterns: Sequence[str]) -> tuple[dict[str, bytes], int]:
        """Return the files that match patterns, and how many bytes were left out in the middle of them.

        Links are passed over, and so is what is more than `FILES_AT_MOST`.
        """
        found: dict[str, bytes] = {}
        left_out = 0
        for pattern in patterns:
            listed = await self.sandbox.exec(["sh", "-c", _FOUND, "sh", pattern], timeout_seconds=READ_SECONDS)
            for path in listed.out.splitlines()[: FILES_AT_MOST - len(found)]:
                content = await self.sandbox.exec(
                    ["cat", "--", path], timeout_seconds=READ_SECONDS, keep_bytes=FILE_BYTES
                )
                if content.ok:
                    found[path] = with_gap(content.stdout, content.stdout_dropped)
                    left_out += content.stdout_dropped
        return found, left_out

    async def clear(self) -> None:
        """Remove the directory of the session: a sandbox may be used again."""
        await self.sandbox.exec(["rm", "-rf", "--", self.values["state"]], timeout_seconds=READ_SECONDS)


async def place_of(sandbox: Sandbox, declared: Declaration, endpoint: Endpoint | None) -> Place:
    """Make the directories of a session, and write the files of the program. Raises `Fault`."""
    made = await sandbox.exec(["sh", "-c", _DIRECTORIES])
    directories = made.out.splitlines()
    if not made.ok or len(directories) != 2:
        raise Fault("harness.crashed", f"no directory for {declared.name} could be made: {said(made)}")
    base, state = directories
    values: Mapping[str, str] = {
        "prompt": "",
        "prompt_file": f"{state}/prompt.txt",
        "model": endpoint.model if endpoint else "",
        "base_url": endpoint.base_url if endpoint else "",
        "root_url": endpoint.root_url if endpoint else "",
        "key": endpoint.key if endpoint else "",
        "workdir": sandbox.workdir,
        "state": state,
        "tools": f"{base}/{declared.name}",
        "version": declared.version or "",
        "session": str(uuid.uuid4()),
    }
    place = Place(sandbox, declared, dict(values))
    for path, content in declared.files.items():
        await place.write(filled(path, values), filled(content, values))
    return place


def said(result: ExecResult) -> str:
    """Return how a command ended, and the last line that it printed."""
    lines = (result.err.strip() or result.out.strip()).splitlines()
    return f"{exit_words(result)}: {shortened(lines[-1].strip(), 500)}" if lines else exit_words(result)
