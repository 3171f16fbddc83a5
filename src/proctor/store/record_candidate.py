"""What the record tells of an attempt that may fill a slot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class CandidateIssue(NamedTuple):
    """An issue of a counted try."""

    code: str
    severity: str
    message: str


class CheckpointFile(NamedTuple):
    """A file of a checkpoint: its path below the directory of the try, and what its content has to be."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What grading needs, as it was saved by a try of an attempt."""

    try_number: int
    answer_sha256: str | None
    files: tuple[CheckpointFile, ...]


class Candidate(NamedTuple):
    """An attempt that may fill a slot.

    `task` and `ordinal` are those of its own slot, and `identity` that slot's. `verdict` is None when it was cut off,
    or still goes on. `agent_seconds` and `execution_seconds` are those of the work that counts; a phase or try that its
    limit ended counts as exactly that limit. `checkpoint` is there for an attempt that was saved and has no grade.
    Moments are texts in UTC. `cost_usd` is of all its tries here, None where a part of it is not known.
    `sub_scores` is the JSON object of them, None where there are none.
    """

    attempt_id: str
    run_key: int
    run_id: str | None
    run_dir: Path
    task: str | None
    ordinal: int | None
    identity: str | None
    verdict: str | None
    score: float | None
    tries: int
    agent_seconds: float | None
    execution_seconds: float | None
    started_at: str | None
    ended_at: str | None
    issues: tuple[CandidateIssue, ...]
    checkpoint: Checkpoint | None
    cost_usd: float | None = None
    sub_scores: str | None = None

    @property
    def sealed(self) -> bool:
        """Whether it has come to its end."""
        return self.verdict is not None
