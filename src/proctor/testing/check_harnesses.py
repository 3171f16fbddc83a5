"""The conformance suite of harnesses: what `plugins.api` says of `Harness` and `Session`, as checks.

@pytest.mark.parametrize("check", check_harness(MyHarness), ids=str)
def test_my_harness(check):
    asyncio.run(check())
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Json, ModelSpec, Reference, Task
from proctor.models.mock import MockModel
from proctor.models.shell_agent import shell_agent
from proctor.plugins.api import Harness, Model, Provider
from proctor.plugins.registry import Kind
from proctor.providers.local import LocalProvider
from proctor.testing.check_context import GatedSandbox, HarnessWorld, WatchedModel, opened
from proctor.testing.check_plugin import Making, PluginCheck

SECRET = "the-solution-that-nobody-may-see"  # noqa: S105 - no password
TASK = Task(
    "check/1", Component("text", {"expected": SECRET}), "Say what 6 times 7 is.", reference=Reference(answer=SECRET)
)


def agent_model() -> Model:
    """Return the model that is asked unless another is given: it runs one command if it can, then says `42`."""
    spec = ModelSpec("mock/agent")
    return MockModel(spec, shell_agent(["echo working"], "42", spec.id))


@dataclass(frozen=True, slots=True)
class HarnessBench:
    """What the checks of a harness work with."""

    making: Making
    make_model: Callable[[], Model]
    make_provider: Callable[[], Provider]
    environment: EnvironmentSpec
    task: Task

    def made(self) -> Harness:
        """Make the harness."""
        return self.making()

    @asynccontextmanager
    async def world(self, harness: Harness, prompt: str | None = None) -> AsyncGenerator[HarnessWorld]:
        """Give a context for one try with as much in it as the harness and the task ask for."""
        task = self.task if prompt is None else replace(self.task, prompt=prompt)
        attempt = os.urandom(6).hex()
        model = self.make_model() if harness.needs_model else None
        watched = None if model is None else WatchedModel(model)
        try:
            if harness.needs_sandbox or task.needs_sandbox or task.artifacts:
                async with opened(self.make_provider, self.environment) as sandbox:
                    yield HarnessWorld(task, attempt, watched, GatedSandbox(sandbox))
            else:
                yield HarnessWorld(task, attempt, watched, None)
        finally:
            if model is not None:
                await model.close()


def check_harness(
    make_harness: Callable[[Any], Harness],
    params: Mapping[str, Json] | None = None,
    *,
    model: Callable[[], Model] = agent_model,
    provider: Callable[[], Provider] = LocalProvider,
    environment: EnvironmentSpec | None = None,
    task: Task = TASK,
) -> list[PluginCheck]:
    """Return the checks of a harness with these parameters, each independent of the others.

    `make_harness` is what is registered: it has `options`, and makes a harness when it is called with them. `model`
    and `provider` make what the harness is given, where it declares that it needs them. `task` is what it works on: it
    has to come to an end with that model, whether it solves it or not. Nothing is made before a check is called.
    """
    from proctor.testing import _harness_faults, _harness_turns  # noqa: PLC0415 - they import this

    making = Making(Kind.HARNESS, make_harness, params or {})
    bench = HarnessBench(making, model, provider, environment or EnvironmentSpec(), task)
    bodies = (*_harness_turns.CHECKS, *_harness_faults.CHECKS)
    return [PluginCheck(body.__name__, partial(body, bench)) for body in bodies]


__all__ = ["HarnessBench", "agent_model", "check_harness"]
