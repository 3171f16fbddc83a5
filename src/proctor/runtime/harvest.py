"""What the agent's part of a try yields: collected, bounded, and saved so that grading can be repeated from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from proctor.authoring.recorded_checks import GRADER_NAME, RECORD_NAME
from proctor.errors import Fault, SkipTask, boundary, go_on
from proctor.model.attempt import GradingMode, Phase, issue_of
from proctor.model.events import SavedFile, WorkCheckpointed
from proctor.model.spec import ARTIFACT_LIMIT_BYTES, Json
from proctor.plugins.api import Collected, Sandbox, Session
from proctor.runtime.checkpoint import Work, Writing
from proctor.runtime.collecting import FILES_AT_MOST, Collecting, Kept, merged
from proctor.runtime.job import Save, TryJob
from proctor.runtime.kept import kept_tree
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.redact import Redactor

T = TypeVar("T")

LIGHT_VALUES = 2_000
LIGHT_CHARACTERS = 64 * 1024
LIGHT_FILES = 2
"""What is no more than this is dealt with at once; more is left to a thread, so that it holds up nobody."""


class Harvest:
    """Collects, and saves, what one try is graded on."""

    def __init__(self, job: TryJob, *, save: Save, notes: Notes, log: TryLog, redactor: Redactor) -> None:
        self._job = job
        self._save = save
        self._notes = notes
        self._log = log
        self._redactor = redactor
        self._files: Mapping[str, bytes] = {}
        self._kept: list[Kept] = []
        self._workdir = "/"

    def work(self, answer: str | None) -> Work:
        """Return what grading gets."""
        folder = self._job.folder
        copies = {} if folder is None else {one.path: folder.path(one.name) for one in self._kept}
        return Work(answer, self._files, copies, self._workdir)

    # ----------------------------------------------------------------------------------------------- phase collect

    async def gather(self, session: Session, sandbox: Sandbox | None) -> None:
        """Collect from the session and from the sandbox; from the latter also where the session fails."""
        try:
            with boundary(Phase.COLLECT):
                await self._from_session(session)
        except (Fault, SkipTask):
            try:
                await self._from_sandbox(sandbox)
            except Fault as fault:  # the first failure is what counts
                self._log.logger.error("the artifacts could not be taken out either: %s", fault)
            raise
        await self._from_sandbox(sandbox)

    async def _from_session(self, session: Session) -> None:
        found: Any = await session.collect()
        go_on()
        if not isinstance(found, Collected):
            raise Fault("harness.crashed", f"the harness collected {type(found).__name__}, not a Collected")
        files: Any = found.files
        if not isinstance(files, Mapping) or not all(
            isinstance(name, str) and isinstance(content, bytes)
            for name, content in cast("Mapping[Any, Any]", files).items()
        ):
            raise Fault("harness.crashed", "the files that the harness collected are not bytes by name")
        self._files = dict(cast("Mapping[str, bytes]", files))
        if found.trajectory is not None:
            await self._keep_trajectory(found.trajectory)

    async def _keep_trajectory(self, trajectory: Json) -> None:
        def keep() -> str | None:
            kept, cut = kept_tree(trajectory, self._redactor.text)
            self._save("trajectory.json", kept)
            return cut

        cut = await _done(keep, light=_is_light(trajectory))
        if cut is not None:
            self._notes.cut(cut)

    async def _from_sandbox(self, sandbox: Sandbox | None) -> None:
        job = self._job
        if not job.artifacts:
            return
        if sandbox is None:  # the experiment asks for what is there: for nothing, where there is no sandbox
            for one in merged(job.artifacts):
                if one.required:
                    self._notes.raise_issue("collect.required_missing", f"`{one.path}`: there was no sandbox")
            return
        assert job.folder is not None, "a try that keeps artifacts has a folder"
        self._workdir = sandbox.workdir
        collecting = Collecting(sandbox, job.folder, self._notes, apart=job.grader.reward_files)
        self._kept = await collecting.take(job.artifacts, {one.path for one in job.task.artifacts})

    # -------------------------------------------------------------------------------------------------- checkpoint

    async def saved(self, answer: str | None, *, failed: bool) -> WorkCheckpointed | None:
        """Save what grading needs; return the event that makes it count, or None where grading is not to be repeated.

        That is so where the work failed, where grading happens in the agent's sandbox, and where there is nothing to
        lose. The files are evidence then. Raises `Fault` where something cannot be saved, unless the work failed.
        """
        apart = self._job.grading is not GradingMode.REUSE and not failed
        if not self._files and not self._kept and (answer is None or not apart):
            # Nothing was produced; what was paid for is not to be paid again.
            return self._event(None, ()) if apart and self._notes.usage.calls else None
        of_checks = self._job.grader.name == GRADER_NAME and set(self._files) == {RECORD_NAME}
        if of_checks and not self._kept and not apart and not failed:
            return None  # the grade has all that is in it
        size = len(answer or "") + sum(map(len, self._files.values()))
        light = len(self._files) <= LIGHT_FILES and not self._kept and size <= LIGHT_CHARACTERS
        files = self._fitting()
        writing = Writing(self._save, self._job.folder)
        try:
            digest, same = await _done(lambda: self._write(writing, answer if apart else None, files), light=light)
        except Fault as fault:
            if not failed:
                raise
            self._notes.add(fault.issue)
            return None
        if not same and apart:  # what a grader made of the rest would not be the grade of this work
            self._log.logger.info("what was saved lacks credentials or large files: grading is not repeated from it")
        return self._event(digest, writing.saved) if same and apart else None

    def _event(self, digest: str | None, files: tuple[SavedFile, ...]) -> WorkCheckpointed:
        return WorkCheckpointed(self._job.attempt, self._job.try_number, digest, self._notes.usage, files)

    def _write(self, writing: Writing, answer: str | None, files: Mapping[str, bytes]) -> tuple[str | None, bool]:
        """Write everything; return the digest of the answer, and whether all of it is as the grader gets it."""
        digest, same = None, len(files) == len(self._files)
        if answer is not None:
            clean = self._redactor.text(answer)
            digest = writing.answer(clean.encode("utf-8", "surrogatepass"))
            same = same and clean == answer
        if files or self._kept:
            cleaned = {name: self._clean(content) for name, content in files.items()}
            writing.files(cleaned, self._kept, self._workdir)
            same = same and cleaned == files
        return digest, same

    def _fitting(self) -> dict[str, bytes]:
        """Return the files of the harness that are saved; what is left out is a warning."""
        room, fitting = ARTIFACT_LIMIT_BYTES, dict[str, bytes]()
        for name, content in self._files.items():
            if len(content) <= room and len(fitting) < FILES_AT_MOST:
                fitting[name] = content
                room -= len(content)
        if missing := len(self._files) - len(fitting):
            limit = f"at most {FILES_AT_MOST:,} files and {ARTIFACT_LIMIT_BYTES:,} bytes are kept"
            message = f"{missing:,} of {len(self._files):,} files of the harness are left out; {limit}"
            self._notes.add(issue_of("artifact.too_large", message, Phase.COLLECT))
        return fitting

    def _clean(self, content: bytes) -> bytes:
        """Return a file without credentials."""
        if self._redactor.idle:
            return content
        return self._redactor.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


async def _done(work: Callable[[], T], *, light: bool) -> T:
    return work() if light else await asyncio.to_thread(work)


def _is_light(value: Json) -> bool:
    """Say whether a value is small; looks at no more of it than a small one has."""
    waiting, values, characters = [value], LIGHT_VALUES, LIGHT_CHARACTERS
    while waiting and values > 0 and characters > 0:
        one: Any = waiting.pop()
        values -= 1
        if isinstance(one, str):
            characters -= len(one)
        elif isinstance(one, Mapping | list | tuple):
            inner = cast("Any", one)
            if len(inner) > values:
                return False
            waiting += [*inner.keys(), *inner.values()] if isinstance(one, Mapping) else inner
    return not waiting
