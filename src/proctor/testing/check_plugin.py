"""What the conformance suites of harnesses, benchmarks and graders share: a check, and what a plugin declares."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from proctor.errors import UsageError, describe
from proctor.model.spec import Json
from proctor.plugins.registry import Kind, check_made
from proctor.runtime import _killing
from proctor.testing.conformance import CHECK_SECONDS, NotConforming, require, require_equal

LOOKS, LOOK_SECONDS = 200, 0.01
"""How often is looked, and after how long again, before a task or process counts as left running."""
INJECTED = "injected"
INJECTIONS = {
    "one with a command in it": "$(touch injected) `touch injected`",
    "one that ends a command": "; touch injected #",
    "one that ends a single quote": "'; touch injected; '",
    "one that ends a double quote": '"; touch injected; "',
}
"""Texts that make a file `INJECTED` in the work directory where a shell reads them."""
OF_PROCTOR = ("_spawner.main", "resource_tracker", "_supervisor")
"""What stands in the command lines of processes that this program keeps for itself."""


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """One thing that a plugin must do; call it and await the result."""

    name: str
    body: Callable[[], Awaitable[None]]

    def __str__(self) -> str:
        return self.name

    async def __call__(self) -> None:
        """Run the check, and look whether it left anything running; raises `NotConforming`."""
        tasks, processes = asyncio.all_tasks(), _killing.descendants(os.getpid())
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.body()
        except TimeoutError as error:
            raise NotConforming(f"it did not come to an end within {CHECK_SECONDS:g} seconds") from error
        left: list[str] = []
        for _ in range(LOOKS):
            left = [*_tasks_beside(tasks), *_processes_beside(processes)]
            if not left:
                return
            await asyncio.sleep(LOOK_SECONDS)  # what was told to end may take a moment
        raise NotConforming(f"left running: {'; '.join(left)}")


def _tasks_beside(known: set[asyncio.Task[Any]]) -> list[str]:
    return [f"the asyncio task {task.get_name()}" for task in asyncio.all_tasks() - known]


def _processes_beside(known: set[int]) -> list[str]:
    """Return the processes below this one that are not known, but for those that the program keeps for itself."""
    fresh = _killing.living(_killing.descendants(os.getpid()) - known)
    lines = {pid: _killing.read_text(f"/proc/{pid}/cmdline").replace("\0", " ").strip() for pid in sorted(fresh)}
    ours = {pid for pid, line in lines.items() if not line or any(one in line for one in OF_PROCTOR)}
    return [f"the process {pid}, `{line:.200}`" for pid, line in lines.items() if pid not in ours]


@dataclass(frozen=True, slots=True)
class Making:
    """How a plugin is made: what is registered, and the parameters for it."""

    kind: Kind
    make: Callable[[Any], Any]
    params: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def name(self) -> str:
        """What the plugin is called in messages."""
        return str(getattr(self.make, "name", None) or getattr(self.make, "__name__", self.kind.value))

    def options(self) -> BaseModel:
        """Return the validated parameters. Raises `NotConforming`."""
        model: Any = getattr(self.make, "options", None)
        is_model = isinstance(model, type) and issubclass(cast("type[Any]", model), BaseModel)
        require(is_model, f"`options` of {self.name} must be a pydantic model, not {model!r}")
        try:
            return cast("type[BaseModel]", model).model_validate(dict(self.params))
        except ValidationError as error:
            raise NotConforming(f"`options` of {self.name} does not take the parameters given: {error}") from error

    def __call__(self) -> Any:
        """Make one. Raises `NotConforming`."""
        options = self.options()
        with refusing(f"making {self.name}"):
            plugin = self.make(options)
        try:
            check_made(self.kind, self.name, plugin)
        except UsageError as error:
            raise NotConforming(error.message) from error
        return plugin

    def check_declared(self, flags: tuple[str, ...]) -> Any:
        """Return a plugin whose name, version and `flags` (bool) are what they must be. Raises `NotConforming`."""
        plugin = self()
        for attribute in ("name", "version"):
            value: Any = getattr(plugin, attribute)
            require(
                isinstance(value, str) and bool(value.strip()),
                f"`{attribute}` of {self.name} must be a text that is not empty, not {value!r}",
            )
        for flag in flags:
            value = getattr(plugin, flag)
            require(type(value) is bool, f"`{flag}` of {self.name} must be True or False, not {value!r}")
        require_equal(f"`version` of {self.name}, made a second time", self().version, plugin.version)
        return plugin

    def check_options(self) -> None:
        """Raise `NotConforming` where a parameter that there is not is taken, or the parameters are no JSON."""
        unknown = "no_such_parameter"
        options = self.options()
        try:
            type(options).model_validate({**self.params, unknown: 1})
        except ValidationError:
            pass  # as it must be: a typing error in a file is to be found at planning
        else:
            raise NotConforming(
                f"`options` of {self.name} takes a parameter that there is not (`{unknown}`), so that a typing error "
                'goes unseen: give the model `model_config = ConfigDict(extra="forbid")`'
            )
        with refusing(f"writing the parameters of {self.name} as JSON"):
            options.model_dump_json()


@contextmanager
def refusing(what: str) -> Generator[None]:
    """Turn whatever is raised inside into `NotConforming`: `what` raised it, and must not."""
    try:
        yield
    except NotConforming:
        raise
    except Exception as error:
        raise NotConforming(f"{what} raised {describe(error)}") from error


__all__ = ["INJECTED", "INJECTIONS", "Making", "PluginCheck", "refusing"]
