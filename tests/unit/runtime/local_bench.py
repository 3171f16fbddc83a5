"""A try in a real sandbox of provider `local`, whose files are kept in a real directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from test_try_runner import Bench

from proctor.cli.run_writer import TryDirectory
from proctor.model.attempt import TryResult
from proctor.model.events import WorkCheckpointed
from proctor.model.ids import SlotKey
from proctor.model.spec import Artifact
from proctor.plugins.api import Collected, Sandbox
from proctor.providers.local import LocalProvider
from proctor.runtime.job import Checkpoint
from proctor.store.layout import RunLayout
from proctor.testing.fakes import FakeHarness, fake_task


class Agent(FakeHarness):
    """Runs shell commands in its sandbox and answers "ok"; `files` is what it collects, `also` what it does besides."""

    def __init__(
        self,
        *commands: str,
        files: dict[str, bytes] | None = None,
        also: Callable[[Sandbox], Awaitable[Any]] | None = None,
    ) -> None:
        super().__init__(on_send=self._work, on_collect=self._collect)
        self._commands = commands
        self._files = files or {}
        self._also = also
        self.turns_made = 0

    async def _work(self) -> str:
        self.turns_made += 1
        sandbox = self.contexts[-1].sandbox
        for command in self._commands:
            done = await sandbox.exec(command)
            assert done.ok, done
        if self._also is not None:
            await self._also(sandbox)
        return "ok"

    async def _collect(self) -> Collected:
        return Collected(files=self._files)


class LocalBench(Bench):
    """One try; `artifacts` are those of its task, `extras` those of the experiment."""

    def __init__(
        self,
        folder: Path,
        harness: FakeHarness,
        *artifacts: Artifact | str,
        extras: tuple[Artifact, ...] = (),
        number: int = 1,
        **changes: Any,
    ) -> None:
        self.directory = TryDirectory(RunLayout(folder / "run"), SlotKey("e", "t", 0), number)
        declared = tuple(Artifact(one) if isinstance(one, str) else one for one in artifacts)
        self.local = LocalProvider(folder / "base")
        super().__init__(
            harness=harness,
            provider=changes.pop("provider", self.local),
            save=self.directory.save,
            task=replace(fake_task(needs_sandbox=True), artifacts=declared),
            artifacts=declared + extras,
            folder=self.directory,
            try_number=number,
            **changes,
        )

    def graded_again(self, folder: Path, **changes: Any) -> LocalBench:
        """Return the next try, which only grades what this one saved."""
        [event] = [event for event in self.events if isinstance(event, WorkCheckpointed)]
        issues = tuple(issue for issue in self.result.issues if issue.severity == "ERROR")
        checkpoint = Checkpoint(self.directory.directory, event.answer_sha256, event.files, issues)
        given = {"grading": self.job.grading, "checkpoint": checkpoint, "grader": self.job.grader, **changes}
        return LocalBench(folder, self.harness, *self.job.task.artifacts, number=self.job.try_number + 1, **given)

    def run(self, **how: Any) -> TryResult:
        self.result = super().run(**how)
        return self.result

    @property
    def kept(self) -> dict[str, bytes]:
        """The files of the try's directory by relative path."""
        top = self.directory.directory
        return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}

    @property
    def artifacts(self) -> dict[str, bytes]:
        """The files that were taken out."""
        return {
            name.removeprefix("artifacts/"): data for name, data in self.kept.items() if name.startswith("artifacts/")
        }
