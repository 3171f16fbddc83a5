"""Who makes sandboxes where nobody says it: `bwrap` where it works, else `local`, and why (spec 06)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proctor.config import default_provider as module
from proctor.errors import PluginLoadError, UnknownName

Bwrap = Callable[..., None]


@pytest.fixture
def bwrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Put in the place of `bwrap` what answers so, or raises it."""
    monkeypatch.delenv(module.VARIABLE)
    module.forget_default()

    def put(answer: Any) -> None:
        class Provider:
            async def unavailable(self) -> str | None:
                if isinstance(answer, Exception):
                    raise answer
                return answer

        def load(kind: object, name: str) -> Any:
            if isinstance(answer, PluginLoadError):
                raise answer
            return Provider

        monkeypatch.setattr(module, "load", load)
        monkeypatch.setattr(module, "names", lambda _: ["bwrap", "docker", "local"])

    yield put
    module.forget_default()


def test_bwrap_is_the_default_where_it_works(bwrap: Bwrap) -> None:
    bwrap(None)
    assert module.default_provider() == "bwrap"
    assert module.why_not_preferred() is None
    assert module.why_default() == "bwrap works here"
    assert module.found_working("bwrap")
    assert not module.found_working("local")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no user namespaces", "no user namespaces"),
        (RuntimeError("odd"), "RuntimeError: odd"),
        (PluginLoadError("it is broken"), "it is broken"),
    ],
)
def test_else_it_is_local_with_the_reason(bwrap: Bwrap, answer: object, why: str) -> None:
    bwrap(answer)
    assert module.default_provider() == "local"
    assert module.why_not_preferred() == why
    assert module.why_default() == f"bwrap does not work here: {why}"
    assert not module.found_working("bwrap")


def test_it_is_found_out_once(bwrap: Bwrap) -> None:
    bwrap("first")
    assert module.default_provider() == "local"
    bwrap(None)
    assert module.default_provider() == "local"


def test_it_is_found_out_inside_of_an_event_loop_as_well(bwrap: Bwrap) -> None:
    async def ask() -> str:
        return module.default_provider()

    bwrap(None)
    assert asyncio.run(ask()) == "bwrap"


def test_a_provider_that_is_not_installed_is_no_default(bwrap: Bwrap, monkeypatch: pytest.MonkeyPatch) -> None:
    bwrap(None)
    monkeypatch.setattr(module, "names", lambda _: ["local"])
    assert (module.default_provider(), module.why_not_preferred()) == ("local", "it is not installed")


def test_a_variable_names_another_default(bwrap: Bwrap, monkeypatch: pytest.MonkeyPatch) -> None:
    bwrap("not asked yet")
    assert not module.found_working("bwrap"), "nobody asked"
    monkeypatch.setenv(module.VARIABLE, "docker")
    assert (module.default_provider(), module.why_not_preferred()) == ("docker", None)
    assert module.why_default() == "PROCTOR_PROVIDER says so"
    monkeypatch.setenv(module.VARIABLE, "package.module:Name")
    assert module.default_provider() == "package.module:Name"
    monkeypatch.setenv(module.VARIABLE, "")
    assert module.default_provider() == "local"
    monkeypatch.setenv(module.VARIABLE, "dokcer")
    with pytest.raises(UnknownName, match="PROCTOR_PROVIDER: unknown provider `dokcer`; did you mean `docker`"):
        module.default_provider()
