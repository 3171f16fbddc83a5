"""A whole run in this process whose plugins misbehave where they are told to, under a clock that never waits."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fault_plugins import ARTIFACT, REWARD, Case, Plugin, Provider, Site, World
from virtual_loop import LoopClock, Steps, VirtualLoop, run_virtually, settled

from proctor.cli.experiment_hooks import ExperimentHooks, Hooks
from proctor.core.commands import StartTry
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan, RetryPolicy
from proctor.core.scheduler import Scheduler
from proctor.errors import Fault
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import AttemptSealed, Interrupted, IssueRaised, TryEnded, WorkCheckpointed
from proctor.model.spec import Artifact, Component, Task, TimeLimits
from proctor.report.view import RunView
from proctor.runtime.job import Checkpoint, TryJob
from proctor.runtime.loop import Loop
from proctor.runtime.redact import Redactor
from proctor.store.codec import encode
from proctor.store.coordination import coordination_path
from proctor.store.fold import AttemptEvent, AttemptFold
from proctor.store.lease_info import LeaseWait
from proctor.store.leases import Leases
from proctor.store.owed_teardowns import OwedTeardowns
from proctor.store.owner import this_owner
from proctor.store.plain import NotEncodable, encode_json


class Folder:
    """The directory of a try; what is saved is kept in memory until somebody wants to read it there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.saved: dict[str, bytes] = {}

    def path(self, name: str) -> Path:
        return self.directory / name

    def name_of(self, text: str) -> str:
        return quote(text, safe="")

    def is_plain(self, name: str) -> bool:
        return name.isalnum()

    def save(self, name: str, content: Any) -> None:
        try:
            self.saved[name] = content if isinstance(content, bytes) else encode_json(content, name)
        except NotEncodable as error:  # as the program does
            raise Fault("harness.crashed", f"{name} cannot be kept: {error.message}") from error

    def write(self) -> Path:
        for name, content in self.saved.items():
            self.path(name).parent.mkdir(parents=True, exist_ok=True)
            self.path(name).write_bytes(content)
        return self.directory


class Sink:
    """A journal in memory, which takes only what a real one takes, with what is derived from it."""

    def __init__(self, slots: int) -> None:
        self.events: list[Any] = []
        self.results: dict[str, Any] = {}
        """The content of result.json by task."""
        self.view = RunView("e", total=slots)
        self._folds: dict[str, AttemptFold] = {}

    def append(self, event: Any, at: float) -> None:
        encode(event, at)
        self.events.append(event)
        self.view.add(event, at)
        if isinstance(event, AttemptEvent):
            fold = self._folds.setdefault(event.attempt, AttemptFold(event.attempt))
            fold.add(event, at)
            if isinstance(event, AttemptSealed):
                self.results[event.task] = json.loads(fold.encoded())

    def flush(self) -> None:
        pass

    def commit(self) -> None:
        pass


class Listener(logging.Handler):
    """Keeps warnings."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self._kept.append(record.getMessage())


class ListeningLoop(Loop):
    """Keeps what was reported to it, in order."""

    heard: list[Any]
    world: World

    def emit(self, event: Any) -> None:
        self.heard.append(event)
        if isinstance(event, TryEnded):
            self.world.over.add((event.attempt, event.try_number))
        super().emit(event)


@dataclass(repr=False)
class House:
    """One experiment: its cases, one attempt each, in one run. `lanes` says that sandboxes are used again."""

    folder: Path
    cases: Sequence[Case]
    grading: GradingMode = GradingMode.NONE
    lanes: bool = False
    concurrency: int = 5
    limits: TimeLimits = field(default_factory=TimeLimits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    stop_on_repeated: int = 0
    interrupts: tuple[float, ...] = ()
    """After so many seconds it is interrupted."""
    interrupt_steps: tuple[int, ...] = ()
    """After so many steps of the event loop it is interrupted, each counted from the one before."""
    lets_go: float | None = None
    """After so many seconds what hangs for good goes on; else when the run is over."""
    troubles: list[str] = field(default_factory=list)
    """What the hooks told."""

    def __post_init__(self) -> None:
        self.tasks = [f"{number} {case.name}" for number, case in enumerate(self.cases)]
        self.case_of = dict(zip(self.tasks, self.cases, strict=True))
        self.sink = Sink(len(self.tasks))
        self.grading_only: list[str] = []
        self.folders: dict[tuple[str, int], Folder] = {}
        self.log: list[str] = []
        """What was logged as worth a warning."""
        self.seconds = 0.0
        self.interrupted = 0
        """How often it was interrupted after a step."""

    @property
    def named(self) -> set[str]:
        """Every word that was said of trouble with a disposal."""
        events = [event for event in self.sink.events if isinstance(event, IssueRaised)]
        said = [event.issue.message for event in events if event.issue.code == "dispose.failed"]
        return {word.strip(":") for text in said + self.log for word in text.split()}

    def run(self) -> House:
        listener, logger = Listener(self.log), logging.getLogger("proctor")
        logger.addHandler(listener)
        before, logger.propagate = logger.propagate, False  # what is logged is as odd as what was raised
        try:
            run_virtually(self._run)
        finally:
            logger.removeHandler(listener)
            logger.propagate = before
        return self

    async def _run(self, virtual: VirtualLoop) -> None:
        self.world = World(self.case_of, asyncio.Event())
        self.provider = Provider(self.world)
        plan = ExperimentPlan(
            "e", tuple(self.tasks), 1, "fake", (True,) * len(self.tasks), self.grading, retry=self.retry,
            stop_on_repeated=self.stop_on_repeated, sandbox_reuse=self.lanes, model="m",
        )  # fmt: skip
        ids = itertools.count()
        self.scheduler = Scheduler([plan], GateLimits(self.concurrency), lambda: f"id{next(ids)}")
        self.before = self.scheduler.snapshot()
        self.hooks = self._hooks()
        self.loop = ListeningLoop(
            scheduler=self.scheduler, prepare=self.prepare, runs={"e": self.sink}, show=lambda _: None,
            clock=LoopClock(), redactor=Redactor(), hooks=self.hooks,
        )  # fmt: skip
        self.loop.heard = []
        self.loop.world = self.world
        began = virtual.now
        for seconds in self.interrupts:
            virtual.call_later(seconds, self.loop.interrupt, Interrupted(15))
        if self.lets_go is not None:
            virtual.call_later(self.lets_go, self.world.let_go.set)
        self._interrupt_after(virtual, self.interrupt_steps)
        await self.loop.run()
        virtual.on_step = None
        self.seconds = virtual.now - began
        self.after = self.scheduler.snapshot()
        self.scheduler.validate()
        self.left = dict(self.world.live)
        self.heard_at_end = len(self.loop.heard)
        self.world.let_go.set()
        await settled()

    def _interrupt_after(self, virtual: VirtualLoop, steps: tuple[int, ...]) -> None:
        """Interrupt after each of so many steps."""

        def interrupt() -> None:
            self.interrupted += 1
            self.loop.interrupt(Interrupted(15))
            self._interrupt_after(virtual, steps[1:])

        virtual.on_step = None
        if steps:
            Steps(virtual, steps[0], interrupt)

    def _hooks(self) -> ExperimentHooks:
        clock = LoopClock()
        return ExperimentHooks(
            {"e": Hooks(dispose_seconds=self.limits.dispose_seconds)},
            leases=Leases(coordination_path(self.folder), this_owner(), clock),
            teardowns=OwedTeardowns(coordination_path(self.folder), this_owner(), clock),
            project=self.folder,
            wait=LeaseWait(60.0),
            clock=clock,
            tell=self.troubles.append,
        )

    def prepare(self, command: StartTry) -> tuple[TryJob, Any]:
        attempt, task, world = command.attempt, command.slot.task, self.world
        world.users[attempt] = task, command.try_number
        if command.lane is not None:
            world.lanes[attempt] = command.lane
            world.users[command.lane] = task, command.try_number
        case = self.case_of[task]
        plugin = Plugin(world, attempt, (REWARD,) if case.site in (Site.EXEC, Site.CHECK) else ())
        artifacts = (Artifact(ARTIFACT, required=True),) if case.site in (Site.DOWNLOAD, Site.UPLOAD) else ()
        folder = Folder(self.folder / attempt / str(command.try_number))
        self.folders[attempt, command.try_number] = folder
        job = TryJob(
            attempt=attempt,
            try_number=command.try_number,
            task=Task(task, Component("rigged"), "do it", needs_sandbox=True, artifacts=artifacts),
            benchmark=plugin,
            harness=plugin,
            grader=plugin,
            grading=self.grading,
            provider=self.provider,
            environment=EnvironmentSpec("fake"),
            agent_sandbox=True,
            limits=self.limits,
            artifacts=artifacts,
            folder=folder,
            lane=self.hooks.lanes[command.lane] if command.lane is not None else None,
        )
        if command.grading_only:
            self.grading_only.append(attempt)
            job = replace(job, checkpoint=self._checkpoint(attempt))
        return job, folder.save

    def _checkpoint(self, attempt: str) -> Checkpoint:
        made = [event for event in self.sink.events if isinstance(event, WorkCheckpointed) and event.attempt == attempt]
        return Checkpoint(self.folders[attempt, made[-1].try_number].write(), made[-1].answer_sha256, made[-1].files)


def by_attempt(events: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the events of each attempt."""
    found: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        attempt = getattr(event, "attempt", None)
        if attempt is not None:
            found[attempt].append(event)
    return found
