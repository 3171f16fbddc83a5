"""A session of a harness that runs a program, in a sandbox of this machine, with all that it reports."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager

from proctor.model.attempt import NO_USAGE
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, ModelSpec, Task
from proctor.providers.local import LocalProvider


class NoModel:
    """A model that only its specification is asked of."""

    def __init__(self, spec):
        self.spec = spec

    async def complete(self, messages, tools=()):
        raise AssertionError("the program calls the model, and nobody else")

    async def close(self):
        pass


class Context:
    """The context of one try, which keeps what is reported."""

    def __init__(self, sandbox, spec=None, prompt="Make hello.txt."):
        self.task = Task(id="t", grader=Component("text"), prompt=prompt)
        self.attempt = "abcdefgh2345"
        self.flags = {}
        self.log = logging.getLogger("test.programs")
        self.sandbox = sandbox
        self._spec = spec
        self.issues = []
        self.used = NO_USAGE
        self.said = []

    @property
    def model(self):
        if self._spec is None:
            raise RuntimeError("no model")
        return NoModel(self._spec)

    def progress(self, text):
        self.said.append(text)

    def issue(self, code, message):
        self.issues.append((code, message))

    def usage(self, usage):
        self.used += usage


@asynccontextmanager
async def sandbox_of(base, *, provider=None, env=None, **fields):
    """Open a sandbox, and leave nothing of it."""
    provider = provider or LocalProvider(base, grace_seconds=0.5)
    sandbox = await provider.open(
        EnvironmentSpec(provider=provider.name, env=env or {}, **fields), {"test": "programs"}
    )
    try:
        yield sandbox
    finally:
        await sandbox.dispose()
        await provider.finalize()


def model_at(base_url, family="openai", key="sk-test-0123456789"):
    """Return the specification of a model of the scripted server."""
    return ModelSpec(id=f"{family}/scripted", base_url=base_url, api_key=key)
