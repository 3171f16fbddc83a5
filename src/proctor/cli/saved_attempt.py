"""An attempt of the record as others need it: for the decision on a slot, and for a try that only grades."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proctor.core.reuse import SavedAttempt
from proctor.errors import Fault
from proctor.model.attempt import GradingMode, Issue, Verdict
from proctor.model.codes import CODES, Owner, Severity
from proctor.model.events import SavedFile
from proctor.runtime.checkpoint import load_checkpoint
from proctor.runtime.job import Checkpoint
from proctor.store.layout import RunLayout

if TYPE_CHECKING:
    from proctor.store.record import Candidate
    from proctor.store.record_candidate import CandidateIssue


def saved_attempt(candidate: Candidate, grading: GradingMode) -> SavedAttempt:
    """Return an attempt as the decision on a slot sees it; whether its checkpoint is intact is asked later."""
    return SavedAttempt(
        attempt=candidate.attempt_id,
        verdict=Verdict(candidate.verdict) if candidate.verdict else None,
        issues=tuple(map(_issue, candidate.issues)),
        agent_seconds=candidate.agent_seconds or 0.0,
        try_seconds=candidate.execution_seconds or 0.0,
        gradable=candidate.checkpoint is not None and grading is not GradingMode.REUSE,
    )


def _issue(saved: CandidateIssue) -> Issue:
    """Return an issue as it was recorded; that of a code which is no longer known is taken for the runner's."""
    owner = CODES[saved.code].owner if saved.code in CODES else Owner.RUNNER
    return Issue(saved.code, saved.message, Severity(saved.severity), owner)


def try_directory(candidate: Candidate) -> Path:
    """Return the directory of the try that saved the checkpoint of an attempt."""
    assert candidate.checkpoint is not None
    assert candidate.task is not None
    assert candidate.ordinal is not None
    layout = RunLayout(candidate.run_dir)
    return layout.try_dir(candidate.task, candidate.ordinal, candidate.checkpoint.try_number)


def is_intact(candidate: Candidate) -> bool:
    """Say whether everything that grading needs is there and unchanged, by the reader of the try that will grade it."""
    try:
        load_checkpoint(checkpoint_in(candidate))
    except Fault:
        return False
    return True


def checkpoint_in(source: Candidate) -> Checkpoint:
    """Return what an attempt of another run saved for grading, as a try here takes it."""
    assert source.checkpoint is not None
    files = tuple(SavedFile(one.name, one.sha256, one.size_bytes) for one in source.checkpoint.files)
    issues = tuple(issue for issue in map(_issue, source.issues) if _is_of_the_work(issue))
    return Checkpoint(try_directory(source), source.checkpoint.answer_sha256, files, issues)


def _is_of_the_work(issue: Issue) -> bool:
    """Say whether an issue stays when the work is graded again: one of the agent's part that is not fatal."""
    return issue.severity is Severity.ERROR and not issue.code.startswith("grade")
