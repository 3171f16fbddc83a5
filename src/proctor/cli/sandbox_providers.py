"""The providers that a command about sandboxes asks: all that work here, or those that were named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from proctor.authoring.project_files import make_importable
from proctor.cli.resolve_parts import making
from proctor.cli.results_place import current_directory
from proctor.errors import MissingPackage, ProctorError, describe
from proctor.model.project import PROJECT_FILE, project_directory
from proctor.plugins.api import Provider
from proctor.plugins.registry import Kind, check_made, load, names
from proctor.report.wording import plural

PROBE_SECONDS = 2.0
"""How long a provider may take to say whether it works here, where only that is asked."""

REASON_SECONDS = 10.0
"""How long it may take to say why it could not list what it has."""

LIST_SECONDS = 30.0
"""How long it may take to list what it has."""

CLEAN_SECONDS = 2.0
"""How long what was cut short may take to clear up after itself, such as a sandbox that it tries."""

CLOSE_SECONDS = 5.0
"""How long it may take to close its connections."""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Probed:
    """A provider, and whether it works here; `provider` is None where it cannot even be made."""

    name: str
    provider: Provider | None = None
    works: bool | None = True
    """None where it did not answer."""
    why_not: str | None = None
    hint: str | None = None


def make_provider(name: str) -> Provider:
    """Return a provider of its own. Raises `UsageError` where there is none, or it cannot be loaded or made."""
    make_one = load(Kind.PROVIDER, name)
    with making(Kind.PROVIDER, name, {}):
        provider: Provider = make_one()
        check_made(Kind.PROVIDER, name, provider)
    return provider


async def probe(name: str) -> Probed:
    """Return a provider and whether it works here, within `PROBE_SECONDS`; raises nothing."""
    try:
        provider = make_provider(name)
    except ProctorError as error:
        return Probed(name, None, False, error.message, error.hint)
    try:
        why_not = await within(PROBE_SECONDS, provider.unavailable())
    except TimeoutError:
        return Probed(name, provider, None, f"it did not answer within {PROBE_SECONDS:g} s")
    except Exception as error:
        return Probed(name, provider, False, describe(error))
    return Probed(name, provider, why_not is None, why_not)


async def probe_all() -> list[Probed]:
    """Return all providers that are installed, each probed, all at once."""
    return list(await asyncio.gather(*map(probe, names(Kind.PROVIDER))))


@dataclass(slots=True)
class Asked:
    """What the providers have: labels of sandboxes by provider, and what could not be asked."""

    made: dict[str, Provider] = field(default_factory=dict[str, Provider])
    labels: dict[str, Sequence[Mapping[str, str]]] = field(default_factory=dict[str, Sequence[Mapping[str, str]]])
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """Providers that do not work here, with the reason; nothing of them is known."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Providers that should have answered and did not, with the reason."""

    async def ask(self, name: str) -> None:
        """Ask a provider for its sandboxes, whether it says that it works or not; what goes wrong is noted."""
        try:
            provider = self.made[name] = self.made.get(name) or make_provider(name)
        except MissingPackage as error:
            self.absent[name] = error.message
            return
        except ProctorError as error:
            self.failed[name] = error.message
            return
        try:
            listed = await within(LIST_SECONDS, provider.list({}))
        except TimeoutError:
            self.failed[name] = f"it did not list its sandboxes within {LIST_SECONDS:g} s"
        except Exception as error:
            reason = await _reason(provider)
            (self.failed if reason is None else self.absent)[name] = reason or describe(error)
        else:
            self.labels[name] = [labels for labels in listed if "sandbox" in labels]
            if nameless := len(listed) - len(self.labels[name]):
                self.failed[name] = f"{plural(nameless, 'sandbox', 'sandboxes')} of its list have no id"

    async def ask_again(self) -> None:
        """Ask those that answered once more."""
        known, self.labels = list(self.labels), {}
        await asyncio.gather(*map(self.ask, known))

    async def close(self) -> dict[str, str]:
        """Close the connections of all; return what went wrong, by provider."""
        wrong: dict[str, str] = {}
        for name, provider in self.made.items():
            if (why := await problem_of(within(CLOSE_SECONDS, provider.finalize()))) is not None:
                wrong[name] = why
        return wrong


async def _reason(provider: Provider) -> str | None:
    """Return why a provider that could not list does not work here; None where it should work."""
    try:
        return await within(REASON_SECONDS, provider.unavailable())
    except Exception as error:
        log.debug("provider %s does not say why it does not work: %s", provider.name, describe(error))
        return None


async def ask_all(named: Sequence[str] = ()) -> Asked:
    """Ask the providers that are named, or all that are installed, for their sandboxes. Raises `UnknownName`.

    One that does not work here is `absent`; where it was named, it is `failed`.
    """
    if any(":" in name for name in named):  # it may be the project's own
        project = project_directory(current_directory())
        make_importable(project, first=(project / PROJECT_FILE).is_file())
    for name in named:
        load(Kind.PROVIDER, name)
    asked = Asked()
    await asyncio.gather(*map(asked.ask, dict.fromkeys(named or names(Kind.PROVIDER))))
    if named:
        asked.failed, asked.absent = {**asked.absent, **asked.failed}, {}
    return asked


async def within(seconds: float, work: Coroutine[Any, Any, T], *, clean_seconds: float | None = None) -> T:
    """Wait for work of a plugin for some time, and then for its clearing up (default: `CLEAN_SECONDS`).

    Raises `TimeoutError`.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            task.cancel()
            await asyncio.wait({task}, timeout=CLEAN_SECONDS if clean_seconds is None else clean_seconds)
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()


async def problem_of(work: Awaitable[object]) -> str | None:
    """Wait for work of a plugin and return what went wrong, or None."""
    try:
        await work
    except TimeoutError:
        return "it took too long"
    except Exception as error:
        return describe(error)
    return None


__all__ = [
    "CLEAN_SECONDS", "CLOSE_SECONDS", "LIST_SECONDS", "PROBE_SECONDS", "REASON_SECONDS", "Asked", "Probed", "ask_all",
    "make_provider", "probe", "probe_all", "problem_of", "within",
]  # fmt: skip
