"""Harness `oracle`: applies the reference solution of a task. A task that it does not pass cannot be graded rightly."""

from __future__ import annotations

import shlex

from pydantic import BaseModel, ConfigDict

from proctor.errors import Fault
from proctor.model.spec import Reference
from proctor.plugins.api import AttemptContext, Collected, ExecResult, Message, Sandbox, Turn

SCRIPT_NAME = ".proctor-reference"


class OracleOptions(BaseModel):
    """There are none."""

    model_config = ConfigDict(extra="forbid")


class OracleHarness:
    """Answers with the reference answer, after running the reference script in the sandbox if there is one."""

    name = "oracle"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options: type[BaseModel] = OracleOptions

    def __init__(self, options: OracleOptions) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> OracleSession:
        """Look for the reference solution; raises `Fault` (task.setup_failed) where there is none."""
        reference = ctx.task.reference
        if reference is None or (reference.answer is None and reference.script is None):
            raise Fault("task.setup_failed", f"task {ctx.task.id} has no reference solution")
        return OracleSession(ctx, reference)


class OracleSession:
    """The application of one reference solution."""

    def __init__(self, ctx: AttemptContext, reference: Reference) -> None:
        self._ctx = ctx
        self._reference = reference
        self._files: dict[str, bytes] = {}

    async def send(self, message: Message) -> Turn:
        """Run the script, if there is one, and return the answer, if there is one."""
        if self._reference.script is not None:
            result = await run_script(self._ctx.sandbox, self._reference.script)
            self._files = {"oracle.stdout": result.stdout, "oracle.stderr": result.stderr}
            if not result.ok:
                end = f"signal {result.signal}" if result.signal else f"status {result.exit_code}"
                self._ctx.issue("harness.exit_nonzero", f"the reference script ended with {result.lost or end}")
        return Turn(answer=self._reference.answer)

    async def collect(self) -> Collected:
        """Return what the script printed."""
        return Collected(files=self._files)

    async def close(self) -> None:
        """Free nothing: the sandbox ends what the script left running."""


async def run_script(sandbox: Sandbox, script: str) -> ExecResult:
    """Run a script in the work directory, by the interpreter that its first line names, else by `sh`."""
    await sandbox.write(SCRIPT_NAME, script)
    first = script.partition("\n")[0]
    interpreter = first[2:].strip() if first.startswith("#!") else "sh"
    words = shlex.join(shlex.split(interpreter))
    return await sandbox.exec(f"{words} ./{SCRIPT_NAME}; status=$?; rm -f ./{SCRIPT_NAME}; exit $status")
