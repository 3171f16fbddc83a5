"""The table of issue codes (spec 05): who owns it, how bad it is, whether trying again can help, how far it reaches.

Data only. `core.failure` decides by it, `docs/codes.md` is generated from it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """FATAL: there is no valid result. ERROR: something went wrong and a result exists. WARNING: worth knowing."""

    FATAL = "FATAL"
    ERROR = "ERROR"
    WARNING = "WARNING"


class Owner(StrEnum):
    """Whose doing a problem is."""

    PROVIDER = "provider"
    USER = "user"
    RUNNER = "runner"
    BENCHMARK = "benchmark"
    HARNESS = "harness"
    AGENT = "agent"
    MODEL = "model"
    GRADER = "grader"


class Scope(StrEnum):
    """What a permanent problem stops."""

    ATTEMPT = "attempt"
    TASK = "task"
    EXPERIMENT = "experiment"
    IMAGE = "image"
    PROVIDER = "provider"
    MODEL = "model"
    INVOCATION = "invocation"


class CodeRow(NamedTuple):
    """One row of the table."""

    code: str
    owner: Owner
    severity: Severity
    permanent: bool
    scope: Scope
    when: str
    action: str


_ROWS = (
    CodeRow("provider.open_failed", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "a sandbox could not be opened",
        "read the message of the provider"),
    CodeRow("provider.open_timeout", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "opening a sandbox took longer than its limit",
        "lower the concurrency"),
    CodeRow("provider.lost", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "a sandbox vanished while it was in use",
        "look for the exit status or signal in the message; memory is the usual cause"),
    CodeRow("provider.unavailable", Owner.PROVIDER, Severity.FATAL, True, Scope.PROVIDER, "the provider is absent or refuses its credentials",
        "start the daemon or give the credentials"),
    CodeRow("image.missing", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "an image does not exist", "build or name the image"),
    CodeRow("image.build_failed", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "an image could not be built", "read the build log"),
    CodeRow("image.build_stalled", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "a build gave no output for too long",
        "read the build log"),
    CodeRow("experiment.setup_failed", Owner.USER, Severity.FATAL, True, Scope.EXPERIMENT, "the setup hook of the experiment failed",
        "mend the hook"),
    CodeRow("experiment.fatal", Owner.USER, Severity.FATAL, True, Scope.EXPERIMENT, "ExperimentFatal was raised", "read its message"),
    CodeRow("task.fatal", Owner.USER, Severity.FATAL, True, Scope.TASK, "TaskFatal was raised", "read its message"),
    CodeRow("sandbox.setup_failed", Owner.USER, Severity.FATAL, False, Scope.ATTEMPT, "sandbox_setup failed", "mend the hook"),
    CodeRow("environment.too_large", Owner.RUNNER, Severity.FATAL, True, Scope.ATTEMPT, "the task needs more than the host has",
        "run it on a larger host"),
    CodeRow("task.setup_failed", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "the task's own preparation failed",
        "read the message; the benchmark is at fault"),
    CodeRow("harness.crashed", Owner.HARNESS, Severity.FATAL, False, Scope.ATTEMPT, "the harness raised an exception",
        "read the traceback in try.log"),
    CodeRow("harness.exit_nonzero", Owner.HARNESS, Severity.ERROR, False, Scope.ATTEMPT, "the agent program ended with a non-zero status",
        "read its output; graded all the same"),
    CodeRow("harness.limit", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a limit of the harness (steps, tokens, cost) was reached",
        "raise the limit if it was too low; graded all the same"),
    CodeRow("model.refused_auth", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "the endpoint refused the key (401, 403)",
        "check the API key of the model"),
    CodeRow("model.payment", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "the endpoint wants payment (402)", "add credit"),
    CodeRow("model.not_found", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "endpoint or model id does not exist (404)",
        "check model id and model.base_url"),
    CodeRow("model.rate_limited", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint limits the rate of calls (429)",
        "lower the concurrency, or set a limit on the model with headroom"),
    CodeRow("model.overloaded", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint is overloaded (409, 425, 503, 529)",
        "try again later or lower the concurrency"),
    CodeRow("model.server", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint failed (other 5xx)", "try again"),
    CodeRow("model.timeout", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "a call got no answer in time (also 408)",
        "raise the call's limit or look at the endpoint"),
    CodeRow("model.connection", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint could not be reached, or the connection broke",
        "check model.base_url and the network"),
    CodeRow("model.invalid_request", Owner.MODEL, Severity.FATAL, True, Scope.ATTEMPT, "the endpoint refused the request (400, 413, 422, other 4xx)",
        "read its message; a context that is too long is the usual cause"),
    CodeRow("model.refusal", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a content filter stopped the answer", "graded as it is"),
    CodeRow("model.malformed", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the answer could not be parsed", "graded as it is"),
    CodeRow("time.agent", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the agent reached its time limit",
        "graded on what was collected; raise --timeout if it was too low"),
    CodeRow("time.attempt", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the try reached its time limit in the agent phase",
        "graded on what was collected"),
    CodeRow("time.idle", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the agent gave no sign of life for too long",
        "graded on what was collected; raise agent_idle_timeout_seconds if it was too low"),
    CodeRow("time.setup", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "setup reached its time limit", "look in try.log for what took so long"),
    CodeRow("time.collect", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "collect reached its time limit", "look in try.log for what took so long"),
    CodeRow("time.grade", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "grading reached its time limit", "raise it with `--set grade_timeout_seconds=SECONDS`"),
    CodeRow("collect.required_missing", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a required artifact was not produced",
        "graded as it is"),
    CodeRow("collect.failed", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "files could not be taken out of the sandbox",
        "read the message of the provider"),
    CodeRow("artifact.too_large", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "an artifact was cut at its limit",
        "nothing to do"),
    CodeRow("checkpoint.damaged", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT,
        "what grading needs was saved, and cannot be read or has changed since", "the next try does the work again"),
    CodeRow("grade.time", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code ran past the grader's own limit",
        "failed; the code is too slow or never ends"),
    CodeRow("grade.memory", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code used more memory than the grader allows",
        "failed"),
    CodeRow("grade.output", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code printed more than the grader allows", "failed"),
    CodeRow("grade.incomplete", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code ended before its tests did", "failed"),
    CodeRow("grader.crashed", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the grader raised an exception",
        "read the traceback in try.log"),
    CodeRow("grader.invalid_score", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the grader returned something that is not a score",
        "mend the grader: finite numbers from 0 to 1"),
    CodeRow("worker.lost", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT, "a process of the runner died", "see pid and signal in the message"),
    CodeRow("engine.lost", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT, "a node of the engine died", "see the message"),
    CodeRow("experiment.teardown_failed", Owner.USER, Severity.WARNING, False, Scope.ATTEMPT, "the teardown hook of the experiment failed",
        "undo by hand what it should have undone"),
    CodeRow("dispose.failed", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "a sandbox could not be disposed of", "remove it by hand"),
    CodeRow("output.truncated", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "output was cut to head and tail", "nothing to do"),
    CodeRow("usage.missing", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "the endpoint reported no usage", "cost is unknown"),
    CodeRow("price.unknown", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "no price is known for the model", "set a price"),
    CodeRow("budget.no_retry", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "the budget left no room for a retry", "raise the budget"),
    CodeRow("store.full", Owner.RUNNER, Severity.FATAL, True, Scope.INVOCATION, "results cannot be written: disk full or read-only",
        "free space, then run it again"),
    CodeRow("internal", Owner.RUNNER, Severity.FATAL, True, Scope.INVOCATION, "a bug of proctor", "keep the run directory and report it"),
)  # fmt: skip

CODES: dict[str, CodeRow] = {row.code: row for row in _ROWS}
"""Every issue code by name."""


def code_row(code: str) -> CodeRow:
    """Return the row of `code`; raises `KeyError` when the table does not have it."""
    return CODES[code]
