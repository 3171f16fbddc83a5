"""What is known of one try of an attempt, and how result.json shows it (see `store.fold`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from proctor.model.attempt import Grade, Issue, Phase
from proctor.model.codes import Severity
from proctor.model.events import SavedFile, TryEnded, WorkCheckpointed
from proctor.store.codec import plain_part


class SavedWork(NamedTuple):
    """What a try saved of the agent's part, and the ERROR issues of that part."""

    try_number: int
    answer_sha256: str | None
    files: tuple[SavedFile, ...]
    issues: tuple[Issue, ...]


class FoldedTry:
    """What is known of one try."""

    __slots__ = ("ended", "grading_only", "number", "phases", "raised", "sandboxes", "work")

    def __init__(self, number: int, *, grading_only: bool) -> None:
        self.number = number
        self.grading_only = grading_only
        self.work: SavedWork | None = None
        self.phases: dict[Phase, float | None] = {}
        self.raised: list[Issue] = []
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.ended: TryEnded | None = None

    @property
    def grade(self) -> Grade | None:
        """The grade, if the try ended with one."""
        return None if self.ended is None else self.ended.result.grade

    def plain(self, *, counted: bool) -> dict[str, Any]:
        """Return the try as result.json holds it."""
        plain: dict[str, Any] = {"number": self.number}
        if self.grading_only:
            plain["grading_only"] = True
        if self.ended is not None:
            plain["outcome"] = self.ended.result.outcome.value
        if self.grade is not None and not counted:
            plain["solved"], plain["score"] = self.grade.solved, float(self.grade.score)
        if self.phases:
            plain["phases"] = {
                phase.value: None if seconds is None else round(seconds, 6) for phase, seconds in self.phases.items()
            }
        if issues := self._issues():
            plain["issues"] = [plain_part(issue, "issue") for issue in issues]
        if self.ended is not None:
            for name in ("usage", "grader_usage"):
                if usage := plain_part(getattr(self.ended.result, name), name):
                    plain[name] = usage
        if self.work is not None and self.work.answer_sha256 is not None:
            plain["answer_sha256"] = self.work.answer_sha256
        if self.work is not None and self.work.files:
            plain["files"] = [plain_part(file, "file") for file in self.work.files]
        if self.sandboxes:
            plain["sandboxes"] = list(self.sandboxes.values())
        return plain

    def _issues(self) -> list[Issue]:
        """Return the issues of the result, after those that were raised on the way and are not among them."""
        final = [] if self.ended is None else list(self.ended.result.issues)
        return [issue for issue in self.raised if issue not in final] + final

    def checkpointed(self, event: WorkCheckpointed) -> None:
        """Take a checkpoint: the ERROR issues so far are those of the agent's part."""
        errors = tuple(issue for issue in self.raised if issue.severity is Severity.ERROR)
        self.work = SavedWork(event.try_number, event.answer_sha256, event.files, errors)
