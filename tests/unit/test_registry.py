"""Finding plugins: what is found can be what it is used as, or the error says what it lacks (spec 11)."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from proctor.errors import PluginLoadError
from proctor.model.attempt import GradingMode
from proctor.plugins.registry import Kind, check_made, load, names


class Options(BaseModel):
    pass


class LateVersion:
    """A benchmark whose version is known only once it has read its data."""

    name = "late"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = Options

    def __init__(self, options: Options) -> None:
        self.version = "1"

    async def tasks(self) -> list[Any]:
        return []

    async def setup(self, ctx: Any) -> None:
        pass


class Versionless(LateVersion):
    def __init__(self, options: Options) -> None:
        pass


class TasksIsNoMethod(LateVersion):
    tasks = ()


class GradedNowhere(LateVersion):
    gradings = ()


class GradedSomewhere(LateVersion):
    gradings = ("none", "here")


class OneReward:
    name = "one"
    version = "1"
    options = Options
    reward_files: Any = "logs/reward.txt"

    def __init__(self, options: Options) -> None:
        pass

    async def grade(self, ctx: Any) -> None:
        pass


class EmptyReward(OneReward):
    reward_files = ("/",)


class NoOptions:
    name = "bare"
    version = "1"

    async def grade(self, ctx: Any) -> None:
        pass


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that plugins can be named in."""
    made = ModuleType("registry_cases")
    plugins = (LateVersion, Versionless, TasksIsNoMethod, GradedNowhere, GradedSomewhere, OneReward, EmptyReward)
    for found in (*plugins, NoOptions):
        setattr(made, found.__name__, found)
    made.__dict__.update(text="abc", make=LateVersion)
    monkeypatch.setitem(sys.modules, "registry_cases", made)
    return "registry_cases"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in Kind for name in names(kind)])
def test_everything_that_is_installed_is_what_it_is_registered_as(kind: Kind, name: str) -> None:
    assert callable(load(kind, name))


def test_what_is_known_only_when_it_is_made_is_looked_at_then(module: str) -> None:
    check_made(Kind.BENCHMARK, "x", load(Kind.BENCHMARK, f"{module}:LateVersion")(Options()))
    made = load(Kind.BENCHMARK, f"{module}:Versionless")(Options())
    with pytest.raises(PluginLoadError, match="`x` is no benchmark: it has no `version`"):
        check_made(Kind.BENCHMARK, "x", made)


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (Kind.BENCHMARK, "TasksIsNoMethod", "is no benchmark: it has no `tasks`"),
        (Kind.HARNESS, "LateVersion", "is no harness: it has no `needs_model`, `start`"),
        (Kind.GRADER, "NoOptions", "is no grader: it has no `options`"),
        (
            Kind.PROVIDER,
            "NoOptions",
            "is no provider: it has no `refuse`, `unavailable`",
        ),
        (Kind.GRADER, "text", "is no grader: it cannot be called"),
        (Kind.GRADER, "missing", "cannot be loaded: AttributeError"),
        (Kind.GRADER, "", "cannot be loaded"),
    ],
)
def test_what_is_no_plugin_of_the_kind_says_what_it_lacks(module: str, kind: Kind, name: str, says: str) -> None:
    with pytest.raises(PluginLoadError) as caught:
        load(kind, f"{module}:{name}")
    assert says in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        (Kind.BENCHMARK, "GradedNowhere", r"its `grading` \(none\) is not among its `gradings`"),
        (Kind.BENCHMARK, "GradedSomewhere", "its `gradings` must be a tuple of grading modes"),
        (Kind.GRADER, "OneReward", "its `reward_files` must be a tuple of paths in the sandbox, not 'logs/reward.txt'"),
        (Kind.GRADER, "EmptyReward", "its `reward_files` must be a tuple of paths in the sandbox"),
    ],
)
def test_what_a_plugin_declares_is_checked_before_anything_uses_it(
    module: str, kind: Kind, name: str, says: str
) -> None:
    made = load(kind, f"{module}:{name}")(Options())
    with pytest.raises(PluginLoadError, match=f"`x` is no {kind.value}: {says}"):
        check_made(kind, "x", made)


@pytest.mark.parametrize("kind", list(Kind))
def test_nothing_at_all_is_a_plugin_of_no_kind(kind: Kind) -> None:
    with pytest.raises(PluginLoadError, match=f"is no {kind.value}: it has no"):
        check_made(kind, "x", None)
