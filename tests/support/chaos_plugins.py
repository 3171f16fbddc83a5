"""A benchmark, harness, provider and grader that do at random what plugins and agents do, as `CHAOS_SEED` says.

What happens depends on the seed, the task, the place and how often that place was come to, and on nothing else. Every
process that is started in a sandbox carries `CHAOS_MARK`: in its environment, or where that is cleared as the number
of seconds that it sleeps.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel

from proctor.errors import Fault, SkipTask
from proctor.model.attempt import Grade, GradingMode, Usage
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Artifact, Component, Task
from proctor.plugins.api import AttemptContext, Collected, GradeContext, Message, Sandbox, Turn
from proctor.providers.local import LocalProvider

SEED = os.environ.get("CHAOS_SEED", "0")
MARK = os.environ.get("CHAOS_MARK", "1000.0")
FOR_EVER = 3600.0
STUBBORN_SECONDS = 2.0
"""How long what ignores its cancellation goes on."""

_come_to: Counter[str] = Counter()


def dice(place: str, task: str) -> random.Random:
    """Return what decides at a place; the next time another one."""
    name = f"{SEED}/{place}/{task}"
    _come_to[name] += 1
    return random.Random(f"{name}/{_come_to[name]}")


# ---------------------------------------------------------------------------------------------------------- troubles


class Unpicklable(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__("cannot be pickled")
        self.keeps = (first, second, lambda: None)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Base(BaseException):
    pass


class Unmade(Fault):
    """A fault whose constructor was never called."""

    def __init__(self) -> None:
        pass


ERRORS: list[Callable[[], BaseException]] = [
    lambda: RuntimeError("boom"),
    lambda: RuntimeError("half \ud800 of a character, \x1b[2J and \0"),
    lambda: RuntimeError("long " * 100_000),
    lambda: Unpicklable(1, 2),
    Unprintable,
    lambda: Base("base"),
    lambda: SystemExit(3),
    KeyboardInterrupt,
    lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    lambda: asyncio.CancelledError("its own"),
    lambda: TimeoutError("its own"),
    lambda: OSError(24, "too many open files"),
    Unmade,
    lambda: Fault("model.server", "status 500", retry_after="0.05"),
    lambda: Fault("model.server", "status 500", retry_after=7),  # type: ignore[arg-type]
    lambda: Fault("harness.exit_nonzero", "status 3"),
    lambda: Fault("model.invalid_request", "status 400: too long"),
    lambda: Fault("provider.lost", "it vanished"),
    lambda: Fault("harness.limit", "50 steps"),
]


async def raises(die: random.Random) -> None:
    if die.random() < 0.5:
        await asyncio.sleep(die.random() * 0.02)
    raise die.choice(ERRORS)()


async def cancels_itself(die: random.Random) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def hangs(die: random.Random) -> None:
    await asyncio.sleep(FOR_EVER)


async def hangs_badly(die: random.Random) -> None:
    """Ignore cancellation for a while, then end, or raise something else."""
    end = time.monotonic() + STUBBORN_SECONDS
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
    raise RuntimeError("gave in")


async def blocks_a_thread(die: random.Random) -> None:
    await asyncio.to_thread(time.sleep, die.random() * STUBBORN_SECONDS)


async def holds_the_loop(die: random.Random) -> None:
    time.sleep(die.random() * 0.2)


async def takes_a_while(die: random.Random) -> None:
    await asyncio.sleep(die.random() * 0.1)


async def trouble(place: str, task: str, share: float) -> None:
    """Do something bad in this share of cases."""
    die = dice(place, task)
    if die.random() < share:
        kinds = [
            raises, raises, raises, cancels_itself, hangs, takes_a_while, takes_a_while, blocks_a_thread,
            holds_the_loop,
        ]  # fmt: skip
        await die.choice(kinds)(die)


COMMANDS = [
    "echo made > out.txt",
    "mkdir -p deep/er; echo made > out.txt; ln -s / deep/root; mkfifo deep/pipe",
    # Daemons: with sessions of their own, forked twice, and one with nothing left in its environment.
    "(setsid sh -c 'sleep $MARK & sleep $MARK' > out.txt 2>&1 &) ; sleep 0.05",
    '(setsid env -i sh -c "(setsid sleep $MARK &) ; sleep $MARK" &) ; sleep 0.05; echo made > out.txt',
    "sleep $MARK",
    "trap '' TERM HUP INT; sleep $MARK & sleep $MARK & wait; wait; sleep $MARK",
    "nohup sh -c \"trap '' TERM; while :; do sleep $MARK; done\" > /dev/null 2>&1 & wait",
    "head -c 12000000 /dev/zero",
    "yes | head -c 2000000 >&2; exit 3",
    "kill -9 $$",
    "(sleep $MARK & kill -TERM $$) ; wait",
    "exec 1>&- 2>&-; sleep $MARK",
    "i=0; while [ $i -lt 15 ]; do (sleep $MARK &); i=$((i + 1)); done",
    "printf '\\377\\376\\000\\355\\240\\200'; echo made > out.txt",
    "rm -rf ../work/* .; echo made > out.txt",
]


async def works(sandbox: Sandbox, die: random.Random) -> None:
    """Run a command or two as an agent does."""
    for _ in range(die.choice([1, 1, 1, 2])):
        command = die.choice(COMMANDS)
        limit = die.choice([None, 0.2, 0.2, 0.5])
        await sandbox.exec(command, env={"MARK": MARK, "CHAOS_MARK": MARK}, timeout_seconds=limit)


# ----------------------------------------------------------------------------------------------------------- plugins


class ChaosOptions(BaseModel):
    tasks: int = 200
    grading: Literal["none", "fresh", "reuse"] = "none"


class NoOptions(BaseModel):
    pass


class ChaosBenchmark:
    """Tasks of all kinds."""

    name = "chaos"
    version = "1"
    isolated_attempts = True
    gradings = tuple(GradingMode)
    options = ChaosOptions

    def __init__(self, options: ChaosOptions) -> None:
        self.settings = options
        self.grading = GradingMode(options.grading)

    async def tasks(self) -> list[Task]:
        return [self._task(f"c{number:03d}") for number in range(self.settings.tasks)]

    def _task(self, name: str) -> Task:
        die = dice("task", name)
        artifacts = die.choice([(), (), (Artifact("out.txt"),), (Artifact("out.txt", required=True), Artifact("deep"))])
        return Task(
            id=name,
            grader=Component(f"chaos_plugins:{'WaryGrader' if die.random() < 0.1 else 'ChaosGrader'}"),
            prompt="do it",
            needs_sandbox=die.random() < 0.45,
            artifacts=artifacts,
        )

    async def setup(self, ctx: AttemptContext) -> None:
        await trouble("setup", ctx.task.id, 0.08)
        if dice("material", ctx.task.id).random() < 0.3:
            await ctx.sandbox.write("task/material.txt", "material")


class ChaosHarness:
    """Does anything."""

    name = "chaos"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = NoOptions

    def __init__(self, options: NoOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> ChaosSession:
        await trouble("start", ctx.task.id, 0.08)
        if dice("skip", ctx.task.id).random() < 0.02:
            raise SkipTask("not here")
        return ChaosSession(ctx)


class ChaosSession:
    def __init__(self, ctx: AttemptContext) -> None:
        self._ctx = ctx

    async def send(self, message: Message) -> Turn:
        ctx, die = self._ctx, dice("send", self._ctx.task.id)
        if die.random() < 0.2:
            await self._wait(die)
        await trouble("agent", ctx.task.id, 0.15)
        if die.random() < 0.01:
            await hangs_badly(die)
        if ctx.task.needs_sandbox and die.random() < 0.7:
            await works(ctx.sandbox, die)
        if die.random() < 0.3:
            ctx.usage(Usage(calls=1, input_tokens=3, output_tokens=5))
        if die.random() < 0.1:
            ctx.issue("harness.limit", "a limit was reached")
        ctx.progress(f"done with {ctx.task.id}")
        return Turn(die.choice(["ok", "ok", "ok", "wrong", "half \ud800", None]))

    async def _wait(self, die: random.Random) -> None:
        """Wait as for a model: once, or several times at once, one of which may be given up."""
        waits = [self._ctx.backoff(die.random() * 0.1, "model.rate_limited") for _ in range(die.choice([1, 1, 3]))]
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        if len(tasks) > 1 and die.random() < 0.5:
            await asyncio.sleep(0)
            tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def collect(self) -> Collected:
        await trouble("collect", self._ctx.task.id, 0.05)
        die = dice("kept", self._ctx.task.id)
        files = {"answer.bin": b"\xff\0"} if die.random() < 0.2 else {}
        return Collected({"steps": [{"text": "x"}]} if die.random() < 0.3 else None, files)

    async def close(self) -> None:
        await trouble("close", self._ctx.task.id, 0.05)


class ChaosGrader:
    """Grades, or does something else."""

    name = "chaos"
    version = "1"
    options = NoOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: NoOptions) -> None:
        pass

    async def grade(self, ctx: GradeContext) -> Grade:
        await trouble("grade", ctx.task.id, 0.1)
        die = dice("score", ctx.task.id)
        with suppress(RuntimeError):  # there is none in mode none
            if die.random() < 0.1:
                done = await ctx.sandbox.exec("sleep 0.01; ls -a", env={"CHAOS_MARK": MARK}, timeout_seconds=2.0)
                ctx.log.info("found %s", done.out)
        odd: list[Callable[[], Any]] = [
            lambda: Grade(True, float("nan")), lambda: None, lambda: 1.0, lambda: Grade(True, 2.0), spoilt,
        ]  # fmt: skip
        if die.random() < 0.05:
            return die.choice(odd)()
        if die.random() < 0.05:
            ctx.issue("grade.time", "too slow")
            return Grade(False, 0.0)
        return Grade(ctx.answer == "ok", float(ctx.answer == "ok"), {"length": float(len(ctx.answer or ""))})


def spoilt() -> Grade:
    """Return a grade that was changed after it was made."""
    grade = Grade(True, 1.0)
    object.__setattr__(grade, "score", float("nan"))
    return grade


class WaryGrader(ChaosGrader):
    """Has a file that an agent could plant."""

    reward_files = ("reward.txt",)


class ChaosProvider(LocalProvider):
    """Local sandboxes that are refused, fail, hang and go with trouble; none is kept."""

    name = "chaos"
    default_limit = None
    warning = None

    def __init__(self) -> None:
        super().__init__(grace_seconds=0.3)
        self._refused: Counter[str] = Counter()

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Any:
        name = labels["attempt"]  # another one in each run: what happens here is not repeated by the seed
        die = dice("open", name)
        if die.random() < 0.1 and self._refused[name] < 3:
            self._refused[name] += 1
            raise Fault("provider.open_failed", "quota", refused=True, retry_after=die.choice([None, "0.01", "x"]))
        await trouble("opening", name, 0.05)
        if die.random() < 0.02:  # it does not listen at once, and there is a sandbox in the end
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(FOR_EVER)
        return ChaosSandbox(await super().open(environment, labels), name)


class ChaosSandbox:
    """A local sandbox whose disposal may complain, take its time, or be asked for twice."""

    def __init__(self, sandbox: Any, name: str) -> None:
        self._sandbox = sandbox
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def dispose(self) -> None:
        die = dice("dispose", self._name)
        if die.random() < 0.1:
            await asyncio.sleep(die.random() * 0.2)
        await self._sandbox.dispose()
        if die.random() < 0.1:
            await self._sandbox.dispose()
        if die.random() < 0.05:
            raise die.choice(ERRORS)()
