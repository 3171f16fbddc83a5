"""One try: its phases, what each failure becomes, and that nothing is left behind (spec 05)."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest

from proctor.errors import Fault, SkipTask
from proctor.model.attempt import Grade, GradingMode, Outcome, Phase, TryResult, Usage, Verdict, verdict_of
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    WorkCheckpointed,
)
from proctor.model.spec import TimeLimits
from proctor.runtime.job import TryJob
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import for_ever, raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeClock, FakeGrader, FakeHarness, fake_task

SOON = 0.02
SECRET = "sk-verysecretvalue1234"


class Bench:
    """A try with everything that can be told to fail."""

    def __init__(self, **changes: Any) -> None:
        self.provider = changes.pop("provider", None) or FakeProvider()
        self.harness = changes.pop("harness", None) or FakeHarness(on_send=ok)
        self.saved: dict[str, Any] = {}
        self.save = changes.pop("save", self.saved.__setitem__)
        self.events: list[Any] = []
        self.job = replace(
            TryJob(
                attempt="a",
                try_number=1,
                task=fake_task(),
                benchmark=FakeBenchmark(),
                harness=self.harness,
                grader=FakeGrader(),
                grading=GradingMode.NONE,
                provider=self.provider,
                environment=EnvironmentSpec(provider="fake"),
                agent_sandbox=True,
                limits=TimeLimits(),
            ),
            **changes,
        )
        self.runner: TryRunner | None = None

    def run(self, *, cancel_when: type | None = None, grant: bool = True) -> TryResult:
        async def drive() -> None:
            def emit(event: Any) -> None:
                self.events.append(event)
                if isinstance(event, GradingQueued) and grant:
                    assert self.runner is not None
                    self.runner.grant()
                if cancel_when is not None and isinstance(event, cancel_when):
                    task.cancel()

            self.runner = TryRunner(self.job, emit=emit, save=self.save, clock=FakeClock(), redactor=Redactor([SECRET]))
            task = asyncio.get_running_loop().create_task(self.runner.run())
            await asyncio.wait({task})
            assert task.exception() is None
            left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            assert not left, left

        asyncio.run(drive())
        ends = [event for event in self.events if isinstance(event, TryEnded)]
        assert len(ends) == 1
        assert self.events[-1] is ends[0]
        return ends[0].result

    @property
    def phases(self) -> list[str]:
        return [event.phase.value for event in self.events if isinstance(event, PhaseStarted)]


async def ok() -> str:
    return "ok"


def codes(result: TryResult) -> list[str]:
    return [issue.code for issue in result.issues]


@pytest.mark.parametrize(
    ("grading", "phases"),
    [
        (GradingMode.NONE, ["open", "setup", "agent", "collect", "dispose", "grade"]),
        (GradingMode.FRESH, ["open", "setup", "agent", "collect", "dispose", "open", "grade", "dispose"]),
        (GradingMode.REUSE, ["open", "setup", "agent", "collect", "grade", "dispose"]),
    ],
)
def test_05_phases_in_order_for_each_grading_mode(grading: GradingMode, phases: list[str]) -> None:
    bench = Bench(grading=grading)
    result = bench.run()
    assert verdict_of(result) is Verdict.PASSED
    assert bench.phases == phases
    assert [e.phase.value for e in bench.events if isinstance(e, PhaseEnded)] == phases
    assert not bench.provider.live
    opened = [e.sandbox for e in bench.events if isinstance(e, SandboxOpened)]
    assert opened == [e.sandbox for e in bench.events if isinstance(e, SandboxDisposed)]


def test_no_sandbox_is_opened_where_nobody_needs_one() -> None:
    bench = Bench(agent_sandbox=False)
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert bench.phases == ["setup", "agent", "collect", "grade"]
    assert bench.provider.opened == 0


def test_fresh_grading_waits_for_its_grant_holding_no_sandbox() -> None:
    bench = Bench(grading=GradingMode.FRESH)

    async def drive() -> None:
        runner = TryRunner(
            bench.job, emit=bench.events.append, save=bench.saved.__setitem__, clock=FakeClock(), redactor=Redactor()
        )
        task = asyncio.create_task(runner.run())
        while not any(isinstance(event, GradingQueued) for event in bench.events):
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not bench.provider.live
        assert bench.provider.opened == 1
        runner.grant()
        await task

    asyncio.run(drive())
    assert bench.provider.opened == 2
    assert isinstance(bench.events[-1], TryEnded)


FAULTY = [
    # step that fails, what the harness or provider does, expected code, phases that still run
    ("open", "provider.open_failed"),
    ("setup", "task.setup_failed"),
    ("start", "harness.crashed"),
    ("send", "harness.crashed"),
    ("collect", "collect.failed"),
    ("grade", "grader.crashed"),
]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


ODD_ERRORS: list[BaseException] = [
    RuntimeError("boom"),
    Unprintable(),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    BaseException("base"),
    ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    TimeoutError("its own"),
    asyncio.CancelledError("itself"),
]


def faulty(step: str, action: Any, grading: GradingMode = GradingMode.NONE) -> Bench:
    async def grade(_: Any) -> Any:
        await action()

    harness = FakeHarness(
        on_send=action if step == "send" else ok,
        **({f"on_{step}": action} if step in ("start", "collect", "close") else {}),
    )
    provider = FakeProvider(**({f"on_{step}": action} if step in ("open", "dispose") else {}))
    changes: dict[str, Any] = {"harness": harness, "provider": provider, "grading": grading}
    if step == "setup":
        changes["benchmark"] = FakeBenchmark(on_setup=action)
    if step == "grade":
        changes["grader"] = FakeGrader(grade)
    return Bench(**changes)


@pytest.mark.parametrize("grading", list(GradingMode))
@pytest.mark.parametrize("error", ODD_ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(("step", "code"), FAULTY)
def test_05_whatever_a_plugin_raises_becomes_one_fatal_issue(
    step: str, code: str, error: BaseException, grading: GradingMode
) -> None:
    bench = faulty(step, raises(error), grading)
    result = bench.run()
    assert result.outcome is Outcome.BROKEN
    assert verdict_of(result) is Verdict.ERRORED
    assert [issue.code for issue in result.issues if issue.fatal] == [code]
    assert not bench.provider.live


@pytest.mark.parametrize("error", ODD_ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("step", ["dispose", "close"])
def test_05_trouble_of_disposal_is_beside_the_outcome_never_instead_of_it(step: str, error: BaseException) -> None:
    result = faulty(step, raises(error)).run()
    assert verdict_of(result) is Verdict.PASSED
    assert codes(result) == ["dispose.failed"]


@pytest.mark.parametrize(
    ("step", "limit", "code"),
    [
        ("open", "open_seconds", "provider.open_timeout"),
        ("setup", "setup_seconds", "time.setup"),
        ("start", "setup_seconds", "time.setup"),
        ("collect", "collect_seconds", "time.collect"),
        ("grade", "grade_seconds", "time.grade"),
    ],
)
def test_05_time_limit_of_each_phase(step: str, limit: str, code: str) -> None:
    bench = faulty(step, for_ever)
    bench.job = replace(bench.job, limits=replace(TimeLimits(), **{limit: SOON}))
    result = bench.run()
    assert verdict_of(result) is Verdict.ERRORED
    assert codes(result) == [code]
    assert not bench.provider.live


def test_05_agent_timeout_is_graded_on_what_was_collected() -> None:
    bench = faulty("send", for_ever)
    bench.job = replace(bench.job, limits=TimeLimits(agent_seconds=SOON))
    result = bench.run()
    assert verdict_of(result) is Verdict.FAILED
    assert codes(result) == ["time.agent"]
    assert bench.phases == ["open", "setup", "agent", "collect", "dispose", "grade"]


@pytest.mark.parametrize("step", ["dispose", "close"])
def test_05_disposal_that_never_ends_is_given_up_and_said(step: str) -> None:
    async def ignores_cancellation() -> None:
        for _ in range(3):
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                continue

    bench = faulty(step, ignores_cancellation)
    bench.job = replace(bench.job, limits=TimeLimits(dispose_seconds=SOON))

    async def drive() -> None:
        runner = TryRunner(
            bench.job, emit=bench.events.append, save=bench.saved.__setitem__, clock=FakeClock(), redactor=Redactor()
        )
        await runner.run()

    asyncio.run(drive())
    result = bench.events[-1].result
    assert verdict_of(result) is Verdict.PASSED
    assert codes(result) == ["dispose.failed"]
    assert "not gone within 0.02 s" in result.issues[0].message


def test_05_collect_runs_after_an_agent_failure_and_the_first_fault_counts() -> None:
    async def boom() -> None:
        raise RuntimeError("second")

    bench = Bench(harness=FakeHarness(on_send=raises(RuntimeError("first")), on_collect=boom))
    result = bench.run()
    assert "collect" in bench.phases
    assert [(i.code, i.phase) for i in result.issues] == [
        ("harness.crashed", Phase.AGENT),
        ("collect.failed", Phase.COLLECT),
    ]


@pytest.mark.parametrize("code", ["harness.exit_nonzero", "harness.limit", "model.refusal"])
def test_05_an_error_of_the_agent_is_graded_all_the_same(code: str) -> None:
    bench = Bench(harness=FakeHarness(on_send=raises(Fault(code, "seen"))))
    result = bench.run()
    assert verdict_of(result) is Verdict.FAILED
    assert codes(result) == [code]


def test_a_skipped_task_has_no_score() -> None:
    result = Bench(harness=FakeHarness(on_start=raises(SkipTask("no gpu")))).run()
    assert verdict_of(result) is Verdict.SKIPPED
    assert result.grade is None
    assert not result.issues


@pytest.mark.parametrize(
    ("grading", "when"),
    [
        *itertools.product(GradingMode, [SandboxOpened, PhaseStarted, PhaseEnded, SandboxDisposed, WorkCheckpointed]),
        (GradingMode.FRESH, GradingQueued),
    ],
)
def test_05_cancelled_at_any_event_leaves_no_sandbox(grading: GradingMode, when: type) -> None:
    # Cancelling at every event of one kind also means: again and again while it cleans up.
    bench = Bench(grading=grading)
    result = bench.run(cancel_when=when, grant=when is not GradingQueued)
    if any(isinstance(event, when) for event in bench.events[:-2]):
        assert result.outcome in (Outcome.CANCELLED, Outcome.GRADED)
    assert not bench.provider.live
    opened = [e.sandbox for e in bench.events if isinstance(e, SandboxOpened)]
    assert opened == [e.sandbox for e in bench.events if isinstance(e, SandboxDisposed)]


@pytest.mark.parametrize("steps", range(40))
@pytest.mark.parametrize("grading", list(GradingMode))
def test_05_cancelled_at_every_await_leaves_no_sandbox_and_one_end(grading: GradingMode, steps: int) -> None:
    async def pause() -> None:
        await asyncio.sleep(0)

    async def paused_ok() -> str:
        await asyncio.sleep(0)
        return "ok"

    provider = FakeProvider(on_open=pause, on_dispose=pause)
    harness = FakeHarness(on_start=pause, on_send=paused_ok, on_collect=pause, on_close=pause)
    bench = Bench(grading=grading, provider=provider, harness=harness, benchmark=FakeBenchmark(on_setup=pause))

    async def drive() -> None:
        def emit(event: Any) -> None:
            bench.events.append(event)
            if isinstance(event, GradingQueued):
                runner.grant()

        runner = TryRunner(bench.job, emit=emit, save=bench.saved.__setitem__, clock=FakeClock(), redactor=Redactor())
        task = asyncio.create_task(runner.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        before_first_step = steps == 0
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() == before_first_step
        assert {t for t in asyncio.all_tasks() if t is not asyncio.current_task()} == set()

    asyncio.run(drive())
    assert not provider.live
    ends = [event for event in bench.events if isinstance(event, TryEnded)]
    assert len(ends) == (steps > 0)
    opened = [e.sandbox for e in bench.events if isinstance(e, SandboxOpened)]
    assert opened == [e.sandbox for e in bench.events if isinstance(e, SandboxDisposed)]


@pytest.mark.parametrize(
    "grade", [lambda: Grade(True, float("nan")), lambda: Grade(True, 1.5), lambda: Grade("yes", 1.0), lambda: None]
)
def test_09_M5_what_is_not_a_score_is_an_error_at_the_boundary(grade: Any) -> None:
    async def on_grade(_: Any) -> Any:
        return grade()

    result = Bench(grader=FakeGrader(on_grade)).run()
    assert verdict_of(result) is Verdict.ERRORED
    assert codes(result) == ["grader.invalid_score"]


def test_an_ordinary_value_error_of_a_grader_is_a_crash() -> None:
    async def on_grade(_: Any) -> Any:
        raise ValueError("not about scores")

    assert codes(Bench(grader=FakeGrader(on_grade)).run()) == ["grader.crashed"]


def test_evidence_is_kept_and_usage_counts_even_if_the_try_fails() -> None:
    harness = FakeHarness()

    async def send() -> None:
        harness.contexts[0].usage(Usage(calls=1, input_tokens=5, output_tokens=7))
        raise RuntimeError(f"leaked {SECRET}")

    harness.on_send = send
    bench = Bench(harness=harness)
    result = bench.run()
    assert result.usage == Usage(calls=1, input_tokens=5, output_tokens=7)
    assert SECRET not in result.issues[0].message
    log = bench.saved["try.log"].decode()
    assert "RuntimeError" in log
    assert SECRET not in log
    assert all(SECRET not in e.issue.message for e in bench.events if isinstance(e, IssueRaised))


def test_05_checkpoint_keeps_the_answer_and_its_digest() -> None:
    bench = Bench(grading=GradingMode.FRESH)
    bench.run()
    assert bench.saved["checkpoint/answer.txt"] == b"ok"
    [checkpoint] = [e for e in bench.events if isinstance(e, WorkCheckpointed)]
    assert checkpoint.answer_sha256 == "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"


def test_an_answer_with_half_a_character_pair_is_kept() -> None:
    async def half() -> str:
        return "ok\ud800"

    bench = Bench(harness=FakeHarness(on_send=half))
    assert verdict_of(bench.run()) is Verdict.FAILED
    assert bench.saved["checkpoint/answer.txt"].decode("utf-8", "surrogatepass") == "ok\ud800"


def test_nothing_is_saved_where_nothing_happened() -> None:
    bench = Bench(harness=FakeHarness(), agent_sandbox=False)
    bench.run()
    assert bench.saved == {}
