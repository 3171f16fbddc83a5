"""Which network holds in which phase, and that nothing runs with more than was declared (spec 06 V3)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from test_lanes import LaneBench
from test_try_runner import Bench, codes, ok

from proctor.errors import Fault, SkipTask
from proctor.model.attempt import GradingMode, Outcome, Phase, Verdict, verdict_of
from proctor.model.environment import FULL_NETWORK, EnvironmentSpec, Network
from proctor.model.events import GradingQueued, Purpose, SandboxOpened
from proctor.testing.fake_provider import FakeProvider, FakeSandbox
from proctor.testing.fakes import FakeBenchmark, FakeGrader, FakeHarness

NOTHING = Network("none")
SOME = Network("allow", ("example.org",))
ENVIRONMENT = EnvironmentSpec(provider="fake", network=NOTHING, setup_network=FULL_NETWORK, grade_network=SOME)


class Watching:
    """A provider that notes with which environment it opened, and what holds whenever something of a try runs."""

    def __init__(self, broken: Any = None) -> None:
        self.opened: list[EnvironmentSpec] = []
        self.now: dict[str, Network] = {}
        self.seen: list[tuple[str, Network]] = []
        watching = self

        class Box(FakeSandbox):
            async def set_network(self, network: Network) -> None:
                if broken is not None:
                    raise broken
                watching.now[self.id] = network

        class Provider(FakeProvider):
            async def open(self, environment: Any, labels: Any) -> FakeSandbox:
                made = await super().open(environment, labels)
                self.live[made.id] = box = Box(self, made.id, labels)
                watching.opened.append(environment)
                watching.now[made.id] = environment.network_of(Phase.SETUP)
                return box

        self.provider = Provider()

    def look(self, what: str) -> None:
        """Note what holds now in the sandbox that was opened last."""
        self.seen.append((what, self.now[f"fake-{self.provider.opened}"]))

    def plugins(self) -> dict[str, Any]:
        """Return plugins that look wherever they are called."""

        async def setup() -> None:
            self.look("setup")

        async def start() -> None:
            self.look("start")

        async def send() -> str:
            self.look("send")
            return "ok"

        async def collect() -> None:
            self.look("collect")

        async def grade(context: Any) -> Any:
            self.look("grade")
            return await FakeGrader().grade(context)

        return {
            "provider": self.provider,
            "benchmark": FakeBenchmark(on_setup=setup),
            "harness": FakeHarness(on_start=start, on_send=send, on_collect=collect),
            "grader": FakeGrader(grade),
        }


def test_V3_the_policy_of_each_phase_holds_before_anything_of_it_runs() -> None:
    watching = Watching()
    result = Bench(grading=GradingMode.REUSE, environment=ENVIRONMENT, **watching.plugins()).run()
    assert verdict_of(result) is Verdict.PASSED
    assert watching.seen == [
        ("setup", FULL_NETWORK), ("start", FULL_NETWORK), ("send", NOTHING), ("collect", NOTHING), ("grade", SOME),
    ]  # fmt: skip


def test_V3_a_fresh_grading_sandbox_is_opened_with_the_policy_of_grading() -> None:
    watching = Watching()
    bench = Bench(grading=GradingMode.FRESH, environment=ENVIRONMENT, **watching.plugins())
    assert verdict_of(bench.run()) is Verdict.PASSED
    agent, grade = watching.opened
    assert agent == ENVIRONMENT
    assert {grade.network_of(phase) for phase in Phase} == {SOME}
    assert watching.seen[-1] == ("grade", SOME)


def test_V3_where_nothing_changes_the_provider_is_not_asked() -> None:
    watching = Watching(broken=Fault("provider.lost", "must not be called"))
    same = EnvironmentSpec(provider="fake", network=NOTHING)
    bench = Bench(grading=GradingMode.REUSE, environment=same, **watching.plugins())
    assert verdict_of(bench.run()) is Verdict.PASSED


@pytest.mark.parametrize(
    "error",
    [OSError("no rights"), Fault("harness.limit", "not fatal by itself"), SkipTask("no"), Fault("provider.lost", "x")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("at", ["agent", "grade"])
def test_V3_where_a_network_cannot_be_changed_nothing_of_the_phase_runs(error: Exception, at: str) -> None:
    watching = Watching(broken=error)
    environment = ENVIRONMENT if at == "agent" else replace(ENVIRONMENT, network=FULL_NETWORK)
    bench = Bench(grading=GradingMode.REUSE, environment=environment, **watching.plugins())
    result = bench.run()
    assert result.outcome is Outcome.BROKEN
    assert codes(result) == ["provider.lost"]
    assert "fake-1 could not be given network" in result.issues[0].message
    ran = [what for what, _ in watching.seen]
    assert ran == (["setup", "start"] if at == "agent" else ["setup", "start", "send", "collect"])
    assert not bench.provider.live


def test_V3_in_a_lane_each_attempt_is_set_up_with_the_policy_of_setup_again() -> None:
    watching = Watching()
    bench = LaneBench(watching.provider)
    plugins = {name: one for name, one in watching.plugins().items() if name != "provider"}

    async def drive() -> None:
        for attempt in ("a", "b"):
            ended = await bench.run(bench.job(attempt, grading=GradingMode.REUSE, environment=ENVIRONMENT, **plugins))
            assert verdict_of(ended.result) is Verdict.PASSED
        await bench.close()

    asyncio.run(drive())
    once = [("setup", FULL_NETWORK), ("start", FULL_NETWORK), ("send", NOTHING), ("collect", NOTHING), ("grade", SOME)]
    assert watching.seen == [*once, *once]
    assert watching.provider.opened == 1


def test_V1_labels_say_when_a_sandbox_was_asked_for_and_for_what() -> None:
    bench = Bench(grading=GradingMode.FRESH, labels={"invocation": "i"}, keep="all", harness=FakeHarness(on_send=ok))
    bench.run()
    found = {box.labels["purpose"]: box.labels for box in bench.provider.live.values()}
    assert set(found) == {"agent", "grade"}
    for labels in found.values():
        assert labels["invocation"] == "i"
        assert (labels["attempt"], labels["try"]) == ("a", "1")
        assert labels["opened"] == "2027-01-15T08:00:00Z", "by the clock of the runner"
    opened = [event.purpose for event in bench.events if isinstance(event, SandboxOpened)]
    assert opened == [Purpose.AGENT, Purpose.GRADE]
    assert any(isinstance(event, GradingQueued) for event in bench.events)
