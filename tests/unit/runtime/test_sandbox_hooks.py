"""Hooks of sandboxes: once per physical sandbox, with a state of its own, undone whatever happens (spec 03 L5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_lanes import LaneBench
from test_try_runner import Bench, codes, ok

from proctor.authoring.project_files import import_file
from proctor.errors import ExperimentFatal, Fault, SkipTask, TaskFatal
from proctor.model.attempt import GradingMode, Verdict, verdict_of
from proctor.model.events import LaneClosed, PhaseStarted, SandboxDisposed
from proctor.model.spec import TimeLimits
from proctor.runtime.agent_box import SandboxHooks
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import for_ever, raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeClock, FakeHarness

SOON = 0.02


class Trace:
    """Hooks that note in which order they were called, and with which sandbox."""

    def __init__(self, owner: str = "experiment `e`", lines: list[str] | None = None) -> None:
        self.owner = owner
        self.lines: list[str] = [] if lines is None else lines
        self.on_setup: Callable[[Any], Any] = lambda sandbox: None
        self.on_teardown: Callable[[Any], Any] = lambda sandbox: None

    async def setup(self, sandbox: Any) -> None:
        self.lines.append(f"setup {self.owner} {sandbox.id}")
        sandbox.state[self.owner] = sandbox.id
        await _awaited(self.on_setup(sandbox))

    async def teardown(self, sandbox: Any) -> None:
        self.lines.append(f"teardown {self.owner} {sandbox.id} {sandbox.state.get(self.owner)}")
        await _awaited(self.on_teardown(sandbox))

    @property
    def hooks(self) -> SandboxHooks:
        return SandboxHooks(self.owner, self.setup, self.teardown)


async def _awaited(result: Any) -> None:
    if result is not None:
        await result


@pytest.mark.parametrize("grading", list(GradingMode))
def test_L5_only_the_sandbox_of_the_agent_is_set_up_and_torn_down_once(grading: GradingMode) -> None:
    trace = Trace()
    bench = Bench(sandbox_hooks=(trace.hooks,), grading=grading)
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert trace.lines == ["setup experiment `e` fake-1", "teardown experiment `e` fake-1 fake-1"]
    assert not bench.provider.live


def test_L5_setup_comes_before_the_preparation_of_the_task_in_phase_setup() -> None:
    trace = Trace()

    async def prepare() -> None:
        trace.lines.append("benchmark")

    async def start() -> None:
        trace.lines.append("harness")

    phases: list[str] = []
    bench = Bench(
        sandbox_hooks=(trace.hooks,),
        benchmark=FakeBenchmark(on_setup=prepare),
        harness=FakeHarness(on_start=start, on_send=ok),
    )
    trace.on_setup = lambda sandbox: phases.extend(e.phase.value for e in bench.events if isinstance(e, PhaseStarted))
    bench.run()
    assert [line.split()[0] for line in trace.lines] == ["setup", "benchmark", "harness", "teardown"]
    assert phases == ["open", "setup"]


def test_L5_the_task_sees_the_state_that_setup_left_and_teardown_what_the_task_left() -> None:
    trace, seen = Trace(), list[Any]()
    harness = FakeHarness()

    async def send() -> str:
        state = harness.contexts[0].sandbox.state
        seen.append(dict(state))
        state["port"] = 8000
        return "ok"

    harness.on_send = send
    trace.on_teardown = lambda sandbox: seen.append(dict(sandbox.state))
    Bench(sandbox_hooks=(trace.hooks,), harness=harness).run()
    assert seen == [{"experiment `e`": "fake-1"}, {"experiment `e`": "fake-1", "port": 8000}]


def test_L5_sandboxes_that_live_at_once_never_see_each_others_state() -> None:
    provider, states = FakeProvider(), list[Any]()
    everybody = asyncio.Event()

    async def setup(sandbox: Any) -> None:
        sandbox.state["mine"] = sandbox.id
        states.append(sandbox.state)
        if len(states) == 3:
            everybody.set()
        await everybody.wait()

    hooks = (SandboxHooks("experiment `e`", setup),)

    async def drive() -> None:
        jobs = [Bench(provider=provider, attempt=name, sandbox_hooks=hooks).job for name in "abc"]
        runners = [
            TryRunner(job, emit=lambda _: None, save=lambda *_: None, clock=FakeClock(), redactor=Redactor())
            for job in jobs
        ]
        await asyncio.gather(*(runner.run() for runner in runners))

    asyncio.run(drive())
    assert sorted(state["mine"] for state in states) == ["fake-1", "fake-2", "fake-3"]
    assert len({id(state) for state in states}) == 3


def test_hooks_may_be_plain_functions_and_each_may_be_left_out() -> None:
    called: list[str] = []
    hooks = (
        SandboxHooks("a", lambda sandbox: called.append("setup")),
        SandboxHooks("b", teardown=lambda sandbox: called.append("teardown")),
        SandboxHooks("c"),
    )
    assert verdict_of(Bench(sandbox_hooks=hooks).run()) is Verdict.PASSED
    assert called == ["setup", "teardown"]


def test_a_group_is_set_up_inside_its_experiment_and_torn_down_before() -> None:
    lines: list[str] = []
    outer, inner = Trace("experiment", lines), Trace("group", lines)
    Bench(sandbox_hooks=(outer.hooks, inner.hooks)).run()
    assert lines == [
        "setup experiment fake-1",
        "setup group fake-1",
        "teardown group fake-1 fake-1",
        "teardown experiment fake-1 fake-1",
    ]


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (RuntimeError("no licence"), "sandbox.setup_failed"),
        (SystemExit(3), "sandbox.setup_failed"),
        (SkipTask("not here"), "sandbox.setup_failed"),
        (TaskFatal("broken"), "task.fatal"),
        (ExperimentFatal("broken"), "experiment.fatal"),
    ],
    ids=lambda what: type(what).__name__ if isinstance(what, BaseException) else None,
)
def test_05_a_failed_setup_errors_the_attempt_and_is_undone(what: BaseException, code: str) -> None:
    lines: list[str] = []
    outer, inner = Trace("outer", lines), Trace("inner", lines)
    outer.on_setup = lambda sandbox: raises(what)()
    bench = Bench(sandbox_hooks=(outer.hooks, inner.hooks))
    result = bench.run()
    assert codes(result) == [code]
    assert result.issues[0].phase is not None
    assert result.issues[0].phase.value == "setup"
    assert verdict_of(result) is Verdict.ERRORED
    assert lines == ["setup outer fake-1", "teardown outer fake-1 fake-1"], "what did not begin is not undone"
    assert not bench.provider.live


def test_05_setup_is_bound_by_the_limit_of_phase_setup() -> None:
    trace = Trace()
    trace.on_setup = lambda sandbox: for_ever()
    result = Bench(sandbox_hooks=(trace.hooks,), limits=TimeLimits(setup_seconds=SOON)).run()
    assert codes(result) == ["time.setup"]
    assert [line.split()[0] for line in trace.lines] == ["setup", "teardown"]


def test_L5_a_cancelled_attempt_tears_its_sandbox_down() -> None:
    trace = Trace()
    bench = Bench(sandbox_hooks=(trace.hooks,), harness=FakeHarness(on_send=for_ever))

    async def send() -> str:
        asyncio.get_running_loop().call_soon(_cancel_runner)
        await for_ever()
        return "never"

    def _cancel_runner() -> None:
        for task in asyncio.all_tasks():
            if getattr(task.get_coro(), "__qualname__", "") == "TryRunner.run":
                task.cancel()

    bench.harness.on_send = send
    result = bench.run()
    assert result.outcome.value == "cancelled"
    assert [line.split()[0] for line in trace.lines] == ["setup", "teardown"]
    assert not bench.provider.live


@pytest.mark.parametrize("deed", ["raises", "hangs", "skips"])
def test_a_failed_teardown_is_a_warning_beside_the_outcome(deed: str) -> None:
    trace = Trace()
    deeds = {"raises": raises(OSError("busy")), "hangs": for_ever, "skips": raises(SkipTask("no"))}
    trace.on_teardown = lambda sandbox: deeds[deed]()
    bench = Bench(sandbox_hooks=(trace.hooks,), limits=TimeLimits(dispose_seconds=SOON))
    result = bench.run()
    assert verdict_of(result) is Verdict.PASSED
    assert codes(result) == ["sandbox.teardown_failed"]
    assert "experiment `e`, sandbox fake-1" in result.issues[0].message
    assert not bench.provider.live, "it is disposed of all the same"
    assert any(isinstance(event, SandboxDisposed) for event in bench.events)


def test_every_teardown_is_called_though_another_fails() -> None:
    lines: list[str] = []
    outer, inner = Trace("outer", lines), Trace("inner", lines)
    inner.on_teardown = lambda sandbox: raises(OSError("busy"))()
    assert codes(Bench(sandbox_hooks=(outer.hooks, inner.hooks)).run()) == ["sandbox.teardown_failed"]
    assert [line.split()[:2] for line in lines][2:] == [["teardown", "inner"], ["teardown", "outer"]]


# ----------------------------------------------------------------------------------------------------------- lanes


def test_L5_a_lane_is_set_up_by_its_first_attempt_and_torn_down_when_it_closes() -> None:
    bench, trace = LaneBench(), Trace()
    states: list[Any] = []

    async def drive() -> None:
        for attempt in "abc":
            harness = FakeHarness(on_send=ok)
            ended = await bench.run(bench.job(attempt, sandbox_hooks=(trace.hooks,), harness=harness))
            assert ended.sandbox_reusable
            states.append(harness.contexts[0].sandbox.state)
        assert [line.split()[0] for line in trace.lines] == ["setup"]
        assert await bench.close() == LaneClosed("l1", "e", "fake-1")

    asyncio.run(drive())
    assert [line.split()[0] for line in trace.lines] == ["setup", "teardown"]
    assert states[0] is states[1] is states[2], "one sandbox, one state"


def test_L2_what_setup_wrote_is_there_for_every_attempt_of_a_lane() -> None:
    bench, trace = LaneBench(), Trace()
    trace.on_setup = lambda sandbox: sandbox.write("common", "1")
    seen: list[list[str]] = []

    async def look() -> str:
        sandbox = bench.provider.live["fake-1"]
        seen.append(sorted(sandbox.files))
        sandbox.files["own"] = b""
        return "ok"

    async def drive() -> None:
        for attempt in "ab":
            await bench.run(bench.job(attempt, sandbox_hooks=(trace.hooks,), harness=FakeHarness(on_send=look)))

    asyncio.run(drive())
    assert seen == [["common"], ["common"]]


def test_L2_a_sandbox_that_could_not_be_set_up_is_retired() -> None:
    bench, trace = LaneBench(), Trace()
    trace.on_setup = lambda sandbox: raises(RuntimeError("no"))()

    async def drive() -> None:
        ended = await bench.run(bench.job("a", sandbox_hooks=(trace.hooks,)))
        assert codes(ended.result) == ["sandbox.setup_failed"]
        assert not ended.sandbox_reusable
        await bench.close()

    asyncio.run(drive())
    assert [line.split()[0] for line in trace.lines] == ["setup", "teardown"]
    assert not bench.provider.live


@pytest.mark.parametrize("hangs", [False, True])
def test_a_lane_says_that_its_teardown_failed_and_disposes_of_its_sandbox(hangs: bool) -> None:
    bench, trace = LaneBench(), Trace()
    bench.lane._dispose_seconds = SOON
    trace.on_teardown = lambda sandbox: for_ever() if hangs else raises(OSError("busy"))()

    async def drive() -> LaneClosed:
        await bench.run(bench.job("a", sandbox_hooks=(trace.hooks,)))
        return await bench.close()

    closed = asyncio.run(drive())
    assert closed.sandbox == "fake-1"
    assert closed.issue is not None
    assert closed.issue.code == "sandbox.teardown_failed"
    assert ("not over within" if hangs else "busy") in closed.issue.message
    assert not bench.provider.live


def test_a_lane_of_a_cancelled_attempt_is_torn_down() -> None:
    bench, trace = LaneBench(), Trace()

    async def drive() -> None:
        harness = FakeHarness(on_send=for_ever)
        ended = await bench.run(bench.job("a", sandbox_hooks=(trace.hooks,), harness=harness), cancel=True)
        assert not ended.sandbox_reusable
        await bench.close()

    asyncio.run(drive())
    assert [line.split()[0] for line in trace.lines] == ["setup", "teardown"]
    assert not bench.provider.live


def test_05_what_a_setup_raises_is_said_with_the_hook_and_its_place(tmp_path: Path) -> None:
    path = tmp_path / "experiments" / "e.py"
    path.parent.mkdir()
    path.write_text("def up(sandbox):\n    raise ValueError('no seed')\n")
    setup = import_file(path, tmp_path).module.up
    result = Bench(sandbox_hooks=(SandboxHooks("experiment `e`", setup),)).run()
    said = "sandbox_setup of experiment `e`: experiments/e.py:2: ValueError: no seed"
    assert [(issue.code, issue.message) for issue in result.issues] == [("sandbox.setup_failed", said)]


def test_05_the_hook_is_named_once_in_what_a_teardown_raises() -> None:
    trace = Trace()
    trace.on_teardown = lambda sandbox: raises(SkipTask("not here"))()
    [issue] = Bench(sandbox_hooks=(trace.hooks,)).run().issues
    assert issue.code == "sandbox.teardown_failed"
    assert issue.message.count("sandbox_teardown") == 1
    assert "SkipTask, which only a task may: SkipTask: not here" in issue.message


@pytest.mark.parametrize("what", [TaskFatal, ExperimentFatal])
def test_a_fatal_may_be_raised_without_a_reason(what: type[Fault]) -> None:
    with pytest.raises(what) as caught:
        raise what
    assert str(caught.value) == caught.value.issue.message == "no reason was given"
