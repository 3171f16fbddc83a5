"""The grade phase of a try: what the agent left is put where the grader looks for it, what it planted is taken away."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from posixpath import normpath

from proctor.errors import Fault, boundary
from proctor.model.attempt import Grade, GradingMode, InvalidGrade, Phase
from proctor.model.events import GradingQueued, Purpose, TryEvent
from proctor.plugins.api import Sandbox
from proctor.plugins.own_tree import places_of_this_machine
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.backoff import Backoff
from proctor.runtime.checkpoint import Work
from proctor.runtime.collecting import is_inside, place_of
from proctor.runtime.contexts import GradingContext, Patience
from proctor.runtime.job import TryJob
from proctor.runtime.judge import JudgeModel
from proctor.runtime.kept import own_grade
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.phases import Phases
from proctor.runtime.try_sandboxes import TrySandboxes

REMOVE = """\
for path do
    if [ -e "$path" ] || [ -L "$path" ]; then
        printf '%s\\n' "$path"
        if [ -d "$path" ] && [ ! -L "$path" ]; then chmod -R u+rwX -- "$path"; fi
        rm -rf -- "$path"
        if [ -e "$path" ] || [ -L "$path" ]; then exit 1; fi
    fi
done
"""
"""Removes each path that is there, a link as a link, and looks whether it is gone; prints what was there."""


class Grading:
    """Grades the work of one try."""

    def __init__(
        self,
        job: TryJob,
        *,
        emit: Callable[[TryEvent], None],
        notes: Notes,
        log: TryLog,
        phases: Phases,
        backoff: Backoff,
        patience: Patience,
        boxes: TrySandboxes,
    ) -> None:
        self._job = job
        self._emit = emit
        self._notes = notes
        self._log = log
        self._phases = phases
        self._backoff = backoff
        self._patience = patience
        self._boxes = boxes
        self._granted = asyncio.Event()
        if job.checkpoint is not None:  # it was started under the permits of grading
            self._granted.set()

    def grant(self) -> None:
        """Let grading go on: its permits are held."""
        self._granted.set()

    async def grade(self, work: Work) -> Grade:
        """Return the grade; raises `Fault`."""
        job = self._job
        box: AgentBox | None = None
        if job.grading is GradingMode.REUSE:
            box = self._boxes.of_agent
        elif job.grading is GradingMode.FRESH or job.judge is not None:
            if not self._granted.is_set():
                self._emit(GradingQueued(job.attempt))
                await self._granted.wait()
            if job.grading is GradingMode.FRESH:
                self._backoff.reopen()
                box = await self._boxes.open(Purpose.GRADE)
                await self._backoff.close()
        handed_over = work.without(job.grader.reward_files)
        context = GradingContext(
            task=job.task,
            answer=handed_over.answer,
            files=handed_over.files,
            artifacts=handed_over.artifacts,
            sandbox=None if box is None else box.sandbox,
            judge=None if job.judge is None else JudgeModel(job.judge, self._patience, self._notes),
            notes=self._notes,
            log=self._log,
            activity=self._backoff.activity,
            time_factor=job.limits.task_factor,
        )
        if job.judge is not None:
            self._backoff.reopen()
        try:
            return await self._phases.run(
                Phase.GRADE, job.limits.grade_seconds, lambda: self._prepare_and_ask(context, handed_over, box)
            )
        finally:
            await self._backoff.close()

    async def _prepare_and_ask(self, context: GradingContext, work: Work, box: AgentBox | None) -> Grade:
        if box is not None:
            if self._job.grading is GradingMode.FRESH:
                await self._put_artifacts(work, box.sandbox)
            else:
                await box.use_network(self._job.environment.network_of(Phase.GRADE), Phase.GRADE)
            await self._remove_rewards(box.sandbox, [path.rstrip("/") for path in self._job.grader.reward_files])
        return await self._ask_grader(context)

    async def _put_artifacts(self, work: Work, sandbox: Sandbox) -> None:
        """Put what the task declares into the sandbox, at the same paths: what a user keeps beside it is no input."""
        declared = [place_of(one.path, work.workdir) for one in self._job.task.artifacts]
        for path in sorted(work.artifacts, key=normpath):  # a directory before what is put into it
            if any(is_inside(place_of(path, work.workdir), place) for place in declared):
                try:
                    with boundary(Phase.GRADE, "provider.open_failed"):
                        await sandbox.upload(work.artifacts[path], path)
                except Fault as fault:
                    if fault.code != "provider.open_failed":
                        raise
                    why = f"artifact `{path}` could not be put into the sandbox of grading: {fault}"
                    raise Fault(fault.code, why, phase=Phase.GRADE) from fault.__cause__

    async def _remove_rewards(self, sandbox: Sandbox, paths: Sequence[str]) -> None:
        """Remove what means success and is there before anything was graded; raises `Fault` where it cannot be."""
        with boundary(Phase.GRADE):
            foreign = await places_of_this_machine(sandbox, paths)
        paths = [path for path in paths if path not in foreign]
        if not paths:
            return
        with boundary(Phase.GRADE):
            done = await sandbox.exec(["sh", "-c", REMOVE, "sh", *paths])
            found = done.out.splitlines()
        if not done.ok:
            last = (done.lost or done.err.strip() or f"status {done.exit_code}, signal {done.signal}").splitlines()[-1]
            raise Fault("grader.crashed", f"a planted reward file could not be removed: {found[-1:]}: {last}")
        for path in paths:
            with boundary(Phase.GRADE):
                gone = await _is_gone(sandbox, path)
            if not gone:
                raise Fault("grader.crashed", f"a planted reward file could not be removed: {path} is still there")
        if found:
            self._log.logger.warning("removed before grading, as the agent must have planted it: %s", ", ".join(found))

    async def _ask_grader(self, context: GradingContext) -> Grade:
        try:
            with boundary(Phase.GRADE):
                return own_grade(await self._job.grader.grade(context))
        except Fault as fault:
            # What is not a score is refused where the grader makes it, or here; any other ValueError is a crash.
            if isinstance(fault.__cause__, InvalidGrade) and fault.code == "grader.crashed":
                raise Fault("grader.invalid_score", str(fault.__cause__), phase=Phase.GRADE) from fault.__cause__
            raise


async def _is_gone(sandbox: Sandbox, path: str) -> bool:
    """Say whether the provider finds nothing at a path: what runs inside could have been made to say so."""
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        try:
            await sandbox.download(path, Path(folder, "found"), max_bytes=0, max_files=0)
        except FileNotFoundError:
            return True
        except PermissionError as error:
            return error.errno == errno.EPERM  # the provider reads the work directory only
    return False
