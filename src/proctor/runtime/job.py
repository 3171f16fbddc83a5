"""What one try needs, made by whoever wires the program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from proctor.core.schedule import RetryPolicy
from proctor.model.attempt import GradingMode, Issue, Outcome, TryResult, Verdict, verdict_of
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import SavedFile
from proctor.model.spec import Artifact, Json, Task, TimeLimits
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider
from proctor.runtime.agent_box import SandboxHooks
from proctor.runtime.images import Images
from proctor.runtime.lanes import Lane
from proctor.runtime.pricing import Price, unpriced

Save = Callable[[str, bytes | Json], None]
"""Keeps evidence of a try under a name: bytes as they are, anything else as JSON."""


Keep = Literal["failed", "all"]
"""Of which tries sandboxes are kept for a person: of those that did not pass, or of all; never of cancelled ones."""


class TryFolder(Protocol):
    """The directory of a try, where `Save` writes: what else has to be known to put files there."""

    def path(self, name: str) -> Path:
        """Return where a file with a name of ours is; makes nothing."""
        ...

    def name_of(self, text: str) -> str:
        """Return a file name for a path or name that came from elsewhere, whatever is in it."""
        ...

    def is_plain(self, name: str) -> bool:
        """Say whether the name of a file that came from elsewhere can stay as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What an earlier try saved of the agent's part: the directory of that try, and the digests that the journal has.

    `issues` are the ERROR issues of that part: they are the attempt's, whoever grades it.
    """

    directory: Path
    answer_sha256: str | None
    files: tuple[SavedFile, ...]
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class TryJob:
    """Everything that one try needs; plugins are made and validated, nothing is looked up by name any more."""

    attempt: str
    try_number: int
    task: Task
    benchmark: Benchmark
    harness: Harness
    grader: Grader
    grading: GradingMode
    provider: Provider
    environment: EnvironmentSpec
    agent_sandbox: bool
    limits: TimeLimits
    model: Model | None = None
    judge: Model | None = None
    """What graders ask. Where there is one, grading in mode none asks for permits of its own."""
    flags: Mapping[str, Json] = field(default_factory=dict[str, Json])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    log_level: int = logging.DEBUG
    lane: Lane | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How long what is refused inside the try is waited for."""
    artifacts: tuple[Artifact, ...] = ()
    """What is taken out of the agent's sandbox: what the task declares, then what the experiment does."""
    folder: TryFolder | None = None
    """Where the try keeps files; needed where something is collected or saved as a file."""
    checkpoint: Checkpoint | None = None
    """Where the agent's part comes from in a try that only grades."""
    sandbox_hooks: tuple[SandboxHooks, ...] = ()
    """What sets up each sandbox of the agent, in this order, and undoes it: the experiment's, then the task group's."""
    images: Images | None = None
    """What makes the image of a sandbox ready before it is opened; without it nothing is made ready."""
    price: Price = unpriced
    """Says what calls cost."""
    grade_environment: EnvironmentSpec | None = None
    """What a sandbox for grading is made from, where that is not the environment of the agent's."""
    keep: Keep | None = None
    """Of which tries the sandboxes are kept; those of a lane never are."""

    def keeps(self, result: TryResult) -> bool:
        """Say whether the sandboxes of a try that ended so are kept."""
        passed = verdict_of(result) is Verdict.PASSED
        return self.keep is not None and result.outcome is not Outcome.CANCELLED and (self.keep == "all" or not passed)
