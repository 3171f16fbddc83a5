"""Harness `oracle`: applies the reference solution of a task. A task that it does not pass cannot be graded rightly."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from proctor.data import env_templates
from proctor.errors import Fault
from proctor.model.spec import Reference
from proctor.plugins.api import AttemptContext, Collected, ExecResult, Message, Sandbox, Turn

SCRIPT_NAME = ".proctor-reference"


class OracleOptions(BaseModel):
    """There are none."""

    model_config = ConfigDict(extra="forbid")


class OracleHarness:
    """Answers with the reference answer, after the reference script and the reference calls, if there are any."""

    name = "oracle"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    takes_tools = True
    options: type[BaseModel] = OracleOptions

    def __init__(self, options: OracleOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> OracleSession:
        """Look for the reference solution; raises `Fault` (task.setup_failed) where there is none."""
        reference = ctx.task.reference
        if reference is None or reference == Reference(folders=reference.folders, env=reference.env):
            raise Fault("task.setup_failed", f"task {ctx.task.id} has no reference solution")
        return OracleSession(ctx, reference)


class OracleSession:
    """The application of one reference solution."""

    def __init__(self, ctx: AttemptContext, reference: Reference) -> None:
        self._ctx = ctx
        self._reference = reference
        self._files: dict[str, bytes] = {}

    async def send(self, message: Message) -> Turn:
        """Run the script and the calls, if there are any, and return the answer, if there is one."""
        reference = self._reference if message.step is None else self._reference.steps.get(message.step)
        if reference is None:
            raise Fault("task.setup_failed", f"step `{message.step}` of the task has no reference solution")
        if reference.script is not None or reference.command is not None:
            sandbox = self._ctx.sandbox
            env = _variables(reference)
            for place, folder in reference.folders.items():
                await sandbox.upload(Path(folder.path), place)
            results: list[ExecResult] = []
            if reference.script is not None:
                results.append(await run_script(sandbox, reference.script, env))
            if reference.command is not None:
                results.append(await sandbox.exec(reference.command, env=env))
            self._note(results)
        for call in reference.calls:
            await self._ctx.tools.call(call["name"], call["arguments"])
        return Turn(answer=reference.answer)

    def _note(self, results: Sequence[ExecResult]) -> None:
        """Keep what was printed, and say what ended otherwise than well."""
        for name, stream in (("oracle.stdout", "stdout"), ("oracle.stderr", "stderr")):
            printed = [self._files.get(name, b""), *(getattr(one, stream) for one in results)]
            self._files[name] = b"".join(printed)
        for result in results:
            if not result.ok:
                end = f"signal {result.signal}" if result.signal else f"status {result.exit_code}"
                self._ctx.issue("harness.exit_nonzero", f"the reference script ended with {result.lost or end}")

    async def collect(self) -> Collected:
        """Return what the script printed."""
        return Collected(files=self._files)

    async def close(self) -> None:
        """Free nothing: the sandbox ends what the script left running."""


def _variables(reference: Reference) -> dict[str, str]:
    try:
        return env_templates.resolved(reference.env, os.environ)
    except LookupError as error:
        raise Fault("task.setup_failed", f"the reference solution cannot be applied: {error.args[0]}") from error


async def run_script(sandbox: Sandbox, script: str, env: Mapping[str, str] | None = None) -> ExecResult:
    """Run a script in the work directory, by the interpreter that its first line names, else by `sh`."""
    await sandbox.write(SCRIPT_NAME, script)
    first = script.partition("\n")[0]
    interpreter = first[2:].strip() if first.startswith("#!") else "sh"
    words = shlex.join(shlex.split(interpreter))
    return await sandbox.exec(f"{words} ./{SCRIPT_NAME}; status=$?; rm -f ./{SCRIPT_NAME}; exit $status", env=env)
