"""What tasks with tests of their own ask of the rest: limits of grading, places, room, images (spec 02, 03 G10, 06)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proctor.core.environments import as_graded, environment_of
from proctor.core.host_room import declared_by
from proctor.core.task_limits import limits_of
from proctor.data.build_context import folder_digest
from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Resources
from proctor.model.spec import Component, Task, TimeLimits
from proctor.plugins.api import Say
from proctor.plugins.capabilities import refusals
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.local import LocalProvider
from proctor.runtime.images import Images
from proctor.testing.fake_provider import FakeProvider
from support.bwrap import needs_bwrap

PLACES = EnvironmentSpec(places=("/data", "/logs"))


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        (TimeLimits(), 1000.0),
        (TimeLimits(grade_seconds=30.0), 30.0),
        (TimeLimits(grade_seconds=None), None),
        (TimeLimits(grade_seconds=1200.0, task_factor=2.0), 2000.0),
        (TimeLimits(grade_seconds=60.0, task_factor=2.0), 60.0),
    ],
)
def test_02_the_limit_of_grading_of_a_task_holds_where_the_experiment_sets_none(
    limits: TimeLimits, seconds: float | None
) -> None:
    task = Task("t", Component("command"), grade_timeout_seconds=1000.0)
    assert limits_of(task, limits).grade_seconds == seconds


def test_03_G10_a_sandbox_for_grading_counts_by_what_it_declares_itself() -> None:
    small, large = (EnvironmentSpec(resources=Resources(cpus=n, memory_bytes=int(n) << 20)) for n in (1.0, 3.0))
    tasks = [
        Task("a", Component("command"), environment=small, grade_environment=large),
        Task("b", Component("command"), environment=large, grade_environment=small),
        Task("c", Component("command"), environment=small),
    ]
    found = declared_by(tasks, EnvironmentSpec())
    assert found.cpus == (3.0, 3.0, 1.0)
    assert found.memory_bytes == (3 << 20, 3 << 20, 1 << 20)


def test_the_environment_of_grading_takes_the_rest_from_the_experiment() -> None:
    own = EnvironmentSpec(provider="docker", image="x", env={"A": "1"})
    task = Task("t", Component("command"), grade_environment=EnvironmentSpec(image="y", env={"B": "2"}))
    assert environment_of(task, own) is own
    assert environment_of(as_graded(task), own) == EnvironmentSpec(
        provider="docker", image="y", env={"A": "1", "B": "2"}
    )


def test_06_places_are_refused_where_there_is_no_file_tree() -> None:
    says = ["provider local has no file tree of its own for `/data`, `/logs`: use bwrap or docker"]
    assert refusals(LocalProvider(), PLACES) == says
    assert refusals(BwrapProvider(), PLACES) == []
    [wrong] = refusals(BwrapProvider(), EnvironmentSpec(places=("/usr/own",)))
    assert "something else of this machine at `/usr/own`: choose another place" in wrong
    [wrong] = refusals(BwrapProvider(), EnvironmentSpec(places=("data",)))
    assert "the place must be an absolute path" in wrong


@needs_bwrap
def test_06_places_can_be_written_and_are_brought_back(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, str]:
        sandbox = await BwrapProvider(tmp_path / "base").open(PLACES, {})
        try:
            await sandbox.write("/logs/deep/first", "1")
            await sandbox.mark()
            wrote = (
                await sandbox.exec("echo 2 > /logs/deep/first; echo 3 > /data/x; cat /logs/deep/first /data/x")
            ).out
            await sandbox.reset()
            return wrote, (await sandbox.exec("cat /logs/deep/first; ls -A /data")).out
        finally:
            await sandbox.dispose()

    assert asyncio.run(scenario()) == ("2\n3\n", "1")


def test_06_V4_an_image_that_takes_longer_than_its_task_allows_is_given_up() -> None:
    class Endless(FakeProvider):
        async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
            while True:
                say("it goes on")
                await asyncio.sleep(0)

    async def scenario() -> None:
        await Images(1).ready(Endless(), EnvironmentSpec(image="big", image_timeout_seconds=0.05))

    with pytest.raises(Fault, match=r"big: it took longer than 0\.05 s") as caught:
        asyncio.run(scenario())
    assert caught.value.code == "image.build_failed"


def test_the_digest_of_a_folder_is_of_names_contents_links_and_programs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    digests = [folder_digest(tmp_path)]
    (tmp_path / "a").chmod(0o755)
    digests.append(folder_digest(tmp_path))
    (tmp_path / "a").write_text("2")
    digests.append(folder_digest(tmp_path))
    (tmp_path / ".dockerignore").write_text("*")
    digests.append(folder_digest(tmp_path))
    (tmp_path / "link").symlink_to("a")
    digests.append(folder_digest(tmp_path))
    assert len(set(digests)) == len(digests)
