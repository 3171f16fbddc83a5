"""Images are made ready once each, a few at a time, with a stall limit (spec 06 V4)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from virtual_loop import run_virtually, settled

from proctor.errors import Fault
from proctor.model.environment import Build, Compose, EnvironmentSpec
from proctor.plugins.api import Say
from proctor.runtime.images import Images, image_name, log_name
from proctor.testing.fake_provider import FakeProvider


class Builds(FakeProvider):
    """Builds that end when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str | None] = []
        self.ended: list[str | None] = []
        self.cancelled: list[str | None] = []
        self.says: dict[str | None, Say] = {}
        self.gates: dict[str | None, asyncio.Event] = {}
        self.errors: dict[str | None, BaseException] = {}

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        name = environment.image
        self.begun.append(name)
        self.says[name] = say
        try:
            await self.gate(name).wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        if name in self.errors:
            raise self.errors[name]
        self.ended.append(name)

    def gate(self, name: str | None) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def running(self) -> int:
        return len(self.begun) - len(self.ended) - len(self.cancelled)


def image(name: str, **more: Any) -> EnvironmentSpec:
    return EnvironmentSpec(image=name, **more)


def virtually(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(lambda _: test())


def test_V4_an_image_is_made_ready_once_however_many_want_it() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        tries = [asyncio.create_task(images.ready(builds, image("a", env={"N": str(n)}))) for n in range(50)]
        await asyncio.sleep(0.1)
        assert builds.begun == ["a"]
        assert not any(one.done() for one in tries)
        builds.gate("a").set()
        await asyncio.gather(*tries)
        await images.ready(builds, image("a"))
        assert builds.begun == ["a"]

    virtually(test)


def test_V4_a_few_at_a_time_and_in_order() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        tries = [asyncio.create_task(images.ready(builds, image(name))) for name in "abcde"]
        await asyncio.sleep(0.1)
        assert builds.begun == ["a", "b"]
        for number, name in enumerate("abcde", 3):
            builds.gate(name).set()
            await asyncio.sleep(0.1)
            assert builds.begun == list("abcde"[:number])
            assert builds.running() <= 2
        await asyncio.gather(*tries)

    virtually(test)


def test_V4_who_shares_a_failed_build_is_told_and_the_others_run() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        builds.errors["a"] = Fault("image.build_failed", "no such package")
        builds.gate("a").set()
        builds.gate("b").set()
        names = ["a", "b", "a", "a", "b"]
        ends = await asyncio.gather(*(images.ready(builds, image(name)) for name in names), return_exceptions=True)
        assert [isinstance(end, Fault) and end.code for end in ends if end is not None] == ["image.build_failed"] * 3
        with pytest.raises(Fault, match="no such package"):
            await images.ready(builds, image("a"))
        assert builds.begun == ["a", "b"], "what cannot help is not tried again"

    virtually(test)


def test_a_failure_that_may_pass_is_not_remembered() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        builds.errors["a"] = ConnectionResetError("the engine went away")
        builds.gate("a").set()
        ends = await asyncio.gather(*(images.ready(builds, image("a")) for _ in range(3)), return_exceptions=True)
        assert [isinstance(end, Fault) and end.code for end in ends] == ["provider.open_failed"] * 3
        assert builds.begun == ["a"]
        builds.errors.clear()
        await images.ready(builds, image("a"))
        assert builds.begun == ["a", "a"]

    virtually(test)


def test_V4_one_that_says_nothing_for_too_long_is_given_up() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1, stall_seconds=600)
        loop = asyncio.get_running_loop()
        started = loop.time()
        stalls = asyncio.create_task(images.ready(builds, image("a")))
        waits = asyncio.create_task(images.ready(builds, image("b")))
        await asyncio.sleep(500)
        builds.says["a"]("step 1")
        with pytest.raises(Fault, match=r"said nothing for 600 s; it said last:\nstep 1") as caught:
            await stalls
        assert caught.value.code == "image.build_stalled"
        assert loop.time() - started == pytest.approx(1100, abs=1)
        assert builds.cancelled == ["a"]
        await asyncio.sleep(599)  # waiting for a turn is no stall
        assert not waits.done()
        builds.gate("b").set()
        await waits

    virtually(test)


def test_without_a_stall_limit_a_build_may_be_silent() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1, stall_seconds=None)
        waits = asyncio.create_task(images.ready(builds, image("a")))
        await asyncio.sleep(1_000_000)
        builds.gate("a").set()
        await waits

    virtually(test)


def test_who_leaves_does_not_take_the_work_from_the_others() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        first, second = (asyncio.create_task(images.ready(builds, image("a"))) for _ in range(2))
        await asyncio.sleep(0.1)
        first.cancel()
        await settled_but(second)
        assert first.cancelled()
        assert builds.cancelled == []
        builds.gate("a").set()
        await second
        assert builds.ended == ["a"]

    virtually(test)


async def settled_but(*others: asyncio.Task[Any]) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(one.done() for one in others)


def test_the_last_who_leaves_ends_it_and_the_next_begins_anew() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1)
        tries = [asyncio.create_task(images.ready(builds, image("a"))) for _ in range(3)]
        await asyncio.sleep(0.1)
        for one in tries:
            one.cancel()
        await settled()
        assert all(one.cancelled() for one in tries)
        assert builds.cancelled == ["a"]
        builds.gate("a").set()
        await images.ready(builds, image("a"))
        assert builds.begun == ["a", "a"]

    virtually(test)


def test_who_leaves_while_it_waits_for_a_turn_leaves_nothing() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1)
        runs = asyncio.create_task(images.ready(builds, image("a")))
        waits = asyncio.create_task(images.ready(builds, image("b")))
        await asyncio.sleep(0.1)
        waits.cancel()
        await settled_but(runs)
        builds.gate("a").set()
        await runs
        assert builds.begun == ["a"]

    virtually(test)


def test_closing_ends_all_of_them() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1)
        tries = [asyncio.create_task(images.ready(builds, image(name))) for name in "ab"]
        await asyncio.sleep(0.1)
        await images.close()
        ends = await asyncio.gather(*tries, return_exceptions=True)
        assert all(isinstance(end, Fault) for end in ends)
        assert builds.cancelled == ["a"]

    virtually(test)


def test_an_environment_without_image_costs_nothing() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(1)
        work = images.ready(builds, EnvironmentSpec())
        with pytest.raises(StopIteration):
            work.send(None)
        assert builds.begun == []

    virtually(test)


def test_all_that_is_said_goes_to_the_log_and_to_who_waits() -> None:
    class Log(io.StringIO):
        kept = ""

        def close(self) -> None:
            self.kept = self.getvalue()
            super().close()

    logs: dict[str, Log] = {}

    async def test() -> None:
        builds, heard = Builds(), list[str]()
        images = Images(1, log_of=lambda name: logs.setdefault(name, Log()))
        waits = asyncio.create_task(images.ready(builds, image("a"), heard.append))
        await asyncio.sleep(0.1)
        builds.says["a"]("step 1")
        builds.says["a"]("step 2")
        builds.gate("a").set()
        await waits
        assert heard == ["step 1", "step 2"]
        assert logs[log_name(image("a"))].kept == "step 1\nstep 2\n"

    virtually(test)


def test_a_log_that_cannot_be_written_does_not_fail_the_build(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        def write(self, text: str) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    async def test() -> None:
        builds, images = Builds(), Images(1, log_of=lambda _: Full())
        waits = asyncio.create_task(images.ready(builds, image("a")))
        await asyncio.sleep(0.1)
        builds.says["a"]("step 1")
        builds.says["a"]("step 2")
        builds.gate("a").set()
        await waits
        assert caplog.text.count("No space left") == 1

    virtually(test)


def test_the_name_of_an_image_is_safe_and_no_other_s() -> None:
    # spec 06 V6
    names = [
        log_name(one)
        for one in (
            image("a/../../b:1"),
            image("a/../../b:2"),
            image("x" * 500),
            EnvironmentSpec(build=Build("/some/where/..", "d1")),
            EnvironmentSpec(build=Build("/some/where/..", "d2")),
            EnvironmentSpec(compose=Compose("c.yaml", "d")),
            EnvironmentSpec(compose=Compose("c.yaml", "d"), env={"A": "1"}),
        )
    ]
    assert len(set(names)) == len(names)
    assert all("/" not in name and "." not in name and len(name) < 100 for name in names)


def test_what_an_image_is_called() -> None:
    assert image_name(image("a:1")) == "a:1"
    assert image_name(EnvironmentSpec(build=Build("ctx", "d"))) == "build of ctx"
    assert image_name(EnvironmentSpec(compose=Compose("c.yaml", "d"))) == "compose file c.yaml"


def test_what_is_settled_needs_no_wait() -> None:
    async def test() -> None:
        builds, images = Builds(), Images(2)
        assert images.settled(builds, EnvironmentSpec())
        assert not images.settled(builds, image("a"))
        waits = asyncio.create_task(images.ready(builds, image("a")))
        await asyncio.sleep(0.1)
        assert not images.settled(builds, image("a"))
        builds.gate("a").set()
        await waits
        assert images.settled(builds, image("a"))
        builds.errors["b"] = Fault("image.missing", "gone")
        builds.gate("b").set()
        faults = [await failure(images.ready(builds, image("b"))) for _ in range(2)]
        assert faults[0] is not faults[1], "each who is told may set a phase on it"
        assert not images.settled(builds, image("b"))

    virtually(test)


async def failure(work: Coroutine[Any, Any, None]) -> Fault:
    with pytest.raises(Fault, match="gone") as caught:
        await work
    return caught.value


def test_a_build_that_ignores_its_end_holds_nobody() -> None:
    class Deaf(Builds):
        async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
            self.begun.append(environment.image)
            while not self.gate(environment.image).is_set():
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    self.cancelled.append(environment.image)

    async def test() -> None:
        builds, images = Deaf(), Images(1, stall_seconds=10)
        with pytest.raises(Fault, match="said nothing"):
            await images.ready(builds, image("a"))
        builds.gate("a").set()
        builds.gate("b").set()
        await images.ready(builds, image("b"))
        await asyncio.sleep(2000)  # what was left to itself ends meanwhile

    virtually(test)
