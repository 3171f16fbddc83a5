"""The contracts of plugins: harnesses, benchmarks, graders, providers, models.

One calling convention: async. Plugins raise plain exceptions (or `errors.Fault` to choose the code); the boundary gives
them an owner. Parameters are a pydantic model in `options`, validated before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Usage
from proctor.model.spec import EnvironmentSpec, Json, ModelSpec, Task

if TYPE_CHECKING:
    import logging

    from pydantic import BaseModel

API_VERSION = 1
"""Version of these contracts."""

MEBIBYTE = 1024 * 1024
OUTPUT_LIMIT_BYTES = 10 * MEBIBYTE
"""What is kept of each output stream of a command unless asked otherwise: head and tail, the rest counted."""


# ---------------------------------------------------------------------------------------------------- providers


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

    async def download(self, source: str, target: Path) -> None:
        """Copy a file or directory out of the sandbox to `target`; never outside of it.

        Links and device files are left out. Raises `FileNotFoundError` where there is nothing.
        """
        ...

    async def mark(self) -> None:
        """Note the state of the work directory, for `reset`; only where the provider supports reuse."""
        ...

    async def reset(self) -> None:
        """End what runs and bring the work directory back to the state at `mark`; what is outside of it stays.

        Raises where that cannot be done; the sandbox is then of no use.
        """
        ...

    async def dispose(self) -> None:
        """Remove the sandbox and everything that runs in it; a second call does nothing."""
        ...


class Provider(Protocol):
    """Makes sandboxes. One object per provider and invocation."""

    name: str
    remote: bool
    recommended_concurrency: int | None
    default_limit: int | None
    default_open_per_second: float
    """Sandboxes opened per second unless told otherwise; 0 is off."""
    exclusive: bool
    """Whether it is correct only with one attempt at a time."""
    supports_reuse: bool
    """Whether its sandboxes can be marked and reset."""
    lifetime_seconds: float | None
    """How long a sandbox lives, or None for ever."""
    warning: str | None
    """One line that a user should read before trusting it, or None."""

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return why this provider cannot make such an environment, or None if it can."""
        ...

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Sandbox:
        """Make a sandbox that carries `labels` where `list` finds them."""
        ...

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels (with `sandbox` = its id) of the live sandboxes that carry all of `labels`."""
        ...

    async def finalize(self) -> None:
        """Remove what is left of the invocation after its last sandbox."""
        ...


# ------------------------------------------------------------------------------------------------------- models


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation; `role` is system, user or assistant."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered. `usage` is None when the endpoint reported none."""

    text: str
    usage: Usage | None
    model: str | None = None
    stop_reason: str | None = None


class Model(Protocol):
    """A model behind its endpoint."""

    spec: ModelSpec

    async def complete(self, messages: Sequence[ChatMessage]) -> Completion:
        """Make one call, never repeated in silence; raises `Fault` with a `model.*` code."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


OpenModel = Callable[[ModelSpec], Model]
"""A model family, as registered: makes a model from its specification."""


# ---------------------------------------------------------------------------------------------------- harnesses


class AttemptContext(Protocol):
    """What a benchmark and a harness see of one try."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def attempt(self) -> str:
        """The id of the attempt."""
        ...

    @property
    def flags(self) -> Mapping[str, Json]:
        """Free values of the experiment."""
        ...

    @property
    def log(self) -> logging.Logger:
        """The log of this try, kept in `try.log`."""
        ...

    @property
    def sandbox(self) -> Sandbox:
        """The agent's sandbox; raises `RuntimeError` where neither harness nor task asked for one."""
        ...

    @property
    def model(self) -> Model:
        """The model; raises `RuntimeError` where the experiment names none."""
        ...

    async def backoff(self, seconds: float, code: str) -> None:
        """Wait because of something that refused for now (an issue code), holding no global permit and no model permit.

        Returns when the permits are held again. Nothing else of the attempt may execute meanwhile. No time limit of the
        try runs while it waits. Calls through `ctx.model` do this by themselves.
        """
        ...

    def progress(self, text: str) -> None:
        """Say what is going on, for the log and the display."""
        ...

    def issue(self, code: str, message: str) -> None:
        """Record a problem that does not end the try."""
        ...

    def usage(self, usage: Usage) -> None:
        """Report what model calls used, as soon as it is known; it counts even if the try fails later."""
        ...


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent to the agent in one turn."""

    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """What came back from the agent in one turn."""

    answer: str | None


@dataclass(frozen=True, slots=True)
class Collected:
    """What is kept of a session: the trajectory as a JSON value (ATIF), and files by name."""

    trajectory: Json | None = None
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


class Session(Protocol):
    """A started harness."""

    async def send(self, message: Message) -> Turn:
        """Make one turn."""
        ...

    async def collect(self) -> Collected:
        """Return what is to be kept; called after failure and timeout too."""
        ...

    async def close(self) -> None:
        """Free what the session holds."""
        ...


class Harness(Protocol):
    """The program that drives a model to solve a task."""

    name: str
    version: str
    isolated_attempts: bool
    needs_model: bool
    needs_sandbox: bool
    options: type[BaseModel]

    async def start(self, ctx: AttemptContext) -> Session:
        """Install and configure; phase setup."""
        ...


# --------------------------------------------------------------------------------------- benchmarks and graders


class Benchmark(Protocol):
    """A named, versioned set of tasks and how they are graded."""

    name: str
    version: str
    isolated_attempts: bool
    grading: GradingMode
    options: type[BaseModel]

    async def tasks(self) -> Iterable[Task]:
        """Return all tasks in the benchmark's order; ids are unique."""
        ...

    async def setup(self, ctx: AttemptContext) -> None:
        """Put the task's material into the agent's sandbox; called only where there is one."""
        ...


class GradeContext(Protocol):
    """What a grader sees of one try."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def answer(self) -> str | None:
        """What the harness returned as its result, if anything."""
        ...

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files that the harness collected, by name."""
        ...

    @property
    def log(self) -> logging.Logger:
        """The log of this try, kept in `try.log`."""
        ...

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of grading (fresh, or the agent's); raises `RuntimeError` in mode none."""
        ...

    def issue(self, code: str, message: str) -> None:
        """Record a problem, such as `grade.time`."""
        ...


class Grader(Protocol):
    """Turns what an attempt left behind into a grade. `options` validates the parameters that tasks give it."""

    name: str
    version: str
    options: type[BaseModel]

    async def grade(self, ctx: GradeContext) -> Grade:
        """Grade one attempt; a wrong answer is a grade, never an exception."""
        ...


__all__ = [
    "API_VERSION", "MEBIBYTE", "NO_USAGE", "OUTPUT_LIMIT_BYTES", "AttemptContext", "Benchmark", "ChatMessage",
    "Collected", "Completion", "ExecLimits", "ExecResult", "GradeContext", "Grader", "Harness", "Message", "Model",
    "OnOutput", "OpenModel", "Provider", "Sandbox", "Session", "Turn",
]  # fmt: skip
