"""The contract of sandboxes, and what comes of a command in one; what makes them is in `plugins.providers`.

`plugins.api` has all of this as well; plugins import it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proctor.model.environment import Network

MEBIBYTE = 1024 * 1024
OUTPUT_LIMIT_BYTES = 10 * MEBIBYTE
"""What is kept of each output stream of a command unless asked otherwise: head and tail, the rest counted."""


@dataclass(frozen=True, slots=True)
class ExecLimits:
    """Limits on one command beyond its time; `None` is none.

    `memory_bytes` bounds each process (and all together where the host allows), `processes` all processes of the
    command together, `output_bytes` each stream: the command is killed when it prints more. `file_bytes` bounds each
    file that it writes.
    """

    memory_bytes: int | None = None
    processes: int | None = None
    output_bytes: int | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    `exit_code` is the status that the command itself returned, or None if it did not return: then `signal` names what
    ended it, or `timed_out`, `output_exceeded` or `lost` says why it was killed. Each stream holds head and tail of
    what was printed, with `*_dropped` bytes left out between them. `seconds` is by the clock, waiting included.
    """

    exit_code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    signal: int | None = None
    timed_out: bool = False
    output_exceeded: bool = False
    out_of_memory: bool = False
    lost: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the command returned 0."""
        return self.exit_code == 0

    @property
    def truncated(self) -> bool:
        """Whether output was left out."""
        return bool(self.stdout_dropped or self.stderr_dropped)

    @property
    def out(self) -> str:
        """Standard output as text, foreign bytes replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """Standard error as text, foreign bytes replaced."""
        return self.stderr.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What did not come along in a download: files, and the bytes in them as far as they are known."""

    files: int = 0
    size_bytes: int = 0

    def __bool__(self) -> bool:
        """Whether anything was left out."""
        return self.files > 0


OnOutput = Callable[[str, bytes], None]
"""Called with "stdout" or "stderr" and each piece of output as it comes."""


class Sandbox(Protocol):
    """The live machine made from an environment; must be disposed of, by whoever opened it.

    Paths are relative to the work directory, or absolute inside the sandbox. Every method raises `Fault`
    ("provider.lost") when the sandbox is gone.
    """

    @property
    def id(self) -> str:
        """The provider's name for it."""
        ...

    @property
    def workdir(self) -> str:
        """The work directory, as commands inside see it."""
        ...

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        on_output: OnOutput | None = None,
        limits: ExecLimits | None = None,
        keep_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> ExecResult:
        """Run a command (a string goes through `sh -c`) and wait for it.

        The environment is the sandbox's own plus `env`; nothing of the runner's is inherited. Standard input is
        `stdin`, else at its end. When `timeout_seconds` is over, the whole process tree gets SIGTERM, a grace, SIGKILL;
        the result has the output so far. Processes left in the background when the command returns live on until
        `dispose`, and do not hold the call.

        `timeout_seconds` counts execution: a provider that can tell takes off the time in which processes of the
        command were ready and waited for a processor, up to some generous multiple of the limit (local: 30 times).
        What only sleeps ends at the limit. Where nobody can tell, it counts time by the clock.
        """
        ...

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file, making its parent directories."""
        ...

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file; raises `FileNotFoundError` where there is none."""
        ...

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or directory of this machine into the sandbox."""
        ...

    async def download(
        self, source: str, target: Path, *, max_bytes: int | None = None, max_files: int | None = None
    ) -> LeftOut:
        """Copy a file or directory out of the sandbox to `target`; never outside of it. Returns what was left out.

        Links and device files in it do not come along and are not counted; where `source` itself is a link, what it
        leads to inside of the sandbox comes. Files come in the order of their names, those of a directory before those
        of the directories in it; one that is too much for `max_bytes` (in all) or `max_files` is left out whole. So is
        what this machine cannot hold, such as a path that is too long. Raises `FileNotFoundError` where there is
        nothing, `PermissionError` (EPERM) for a path that the provider does not read.
        """
        ...

    async def set_network(self, network: Network) -> None:
        """Change what commands may reach from now on; only where the provider switches networks.

        What still runs must not keep more than it may have now: it is ended where its reach cannot be changed.
        """
        ...

    async def snapshot(self) -> str:
        """Keep the whole file system as an image and return its name; only where the provider supports snapshots."""
        ...

    async def keep(self) -> None:
        """Let it live on when this process ends, marked as `kept` in what `list` returns; it is not used any more.

        Only where the provider can keep sandboxes. What a provider cannot keep of it, such as running processes, ends.
        """
        ...

    async def mark(self, *, keep_outside: bool = False) -> None:
        """Note the state of the work directory, for `reset`; only where the provider supports reuse.

        With `keep_outside`, `reset` leaves alone what is outside of it: the members of a group share that. Without, a
        provider may bring that back as well, so that attempts find less of each other.
        """
        ...

    async def reset(self) -> None:
        """End what runs and bring the work directory back to the state at `mark`.

        Raises where that cannot be done; the sandbox is then of no use.
        """
        ...

    async def dispose(self) -> None:
        """Remove the sandbox and everything that runs in it; a second call does nothing."""
        ...


class AgentSandbox(Sandbox, Protocol):
    """A sandbox of an agent as hooks, benchmarks, harnesses and tasks see it."""

    @property
    def state(self) -> dict[str, Any]:
        """What `sandbox_setup` left for whoever uses this sandbox: of this one alone, for as long as it lives."""
        ...


__all__ = [
    "MEBIBYTE", "OUTPUT_LIMIT_BYTES", "AgentSandbox", "ExecLimits", "ExecResult", "LeftOut", "OnOutput", "Sandbox",
]  # fmt: skip
