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


def _rows() -> list[CodeRow]:
    o, fatal, error, warning, s = Owner, Severity.FATAL, Severity.ERROR, Severity.WARNING, Scope
    row = CodeRow
    return [
        row("provider.open_failed", o.PROVIDER, fatal, False, s.ATTEMPT, "a sandbox could not be opened",
            "read the message of the provider; raise --max-retries if it passes by itself"),
        row("provider.open_timeout", o.PROVIDER, fatal, False, s.ATTEMPT, "opening a sandbox took longer than its limit",
            "lower the concurrency or raise the open limit"),
        row("provider.lost", o.PROVIDER, fatal, False, s.ATTEMPT, "a sandbox vanished while it was in use",
            "look for the exit status or signal in the message; memory is the usual cause"),
        row("provider.unavailable", o.PROVIDER, fatal, True, s.PROVIDER, "the provider is absent or refuses its credentials",
            "start the daemon or give the credentials"),
        row("image.missing", o.PROVIDER, fatal, True, s.IMAGE, "an image does not exist", "build or name the image"),
        row("image.build_failed", o.PROVIDER, fatal, True, s.IMAGE, "an image could not be built", "read the build log"),
        row("image.build_stalled", o.PROVIDER, fatal, True, s.IMAGE, "a build gave no output for too long",
            "read the build log"),
        row("experiment.setup_failed", o.USER, fatal, True, s.EXPERIMENT, "the setup hook of the experiment failed",
            "mend the hook"),
        row("experiment.fatal", o.USER, fatal, True, s.EXPERIMENT, "ExperimentFatal was raised", "read its message"),
        row("task.fatal", o.USER, fatal, True, s.TASK, "TaskFatal was raised", "read its message"),
        row("sandbox.setup_failed", o.USER, fatal, False, s.ATTEMPT, "sandbox_setup failed", "mend the hook"),
        row("environment.too_large", o.RUNNER, fatal, True, s.ATTEMPT, "the task needs more than the host has",
            "run it on a larger host or raise --host-cpus and --host-memory"),
        row("task.setup_failed", o.BENCHMARK, fatal, False, s.ATTEMPT, "the task's own preparation failed",
            "read the message; the benchmark is at fault"),
        row("harness.crashed", o.HARNESS, fatal, False, s.ATTEMPT, "the harness raised an exception",
            "read the traceback in try.log"),
        row("harness.exit_nonzero", o.HARNESS, error, False, s.ATTEMPT, "the agent program ended with a non-zero status",
            "read its output; graded all the same"),
        row("harness.limit", o.AGENT, error, False, s.ATTEMPT, "a limit of the harness (steps, tokens, cost) was reached",
            "raise the limit if it was too low; graded all the same"),
        row("model.refused_auth", o.MODEL, fatal, True, s.MODEL, "the endpoint refused the key (401, 403)",
            "check the API key of the model"),
        row("model.payment", o.MODEL, fatal, True, s.MODEL, "the endpoint wants payment (402)", "add credit"),
        row("model.not_found", o.MODEL, fatal, True, s.MODEL, "endpoint or model id does not exist (404)",
            "check model id and model.base_url"),
        row("model.rate_limited", o.MODEL, fatal, False, s.ATTEMPT, "the endpoint limits the rate of calls (429)",
            "lower the concurrency, or set a limit on the model with headroom"),
        row("model.overloaded", o.MODEL, fatal, False, s.ATTEMPT, "the endpoint is overloaded (409, 425, 503, 529)",
            "try again later or lower the concurrency"),
        row("model.server", o.MODEL, fatal, False, s.ATTEMPT, "the endpoint failed (other 5xx)", "try again"),
        row("model.timeout", o.MODEL, fatal, False, s.ATTEMPT, "a call got no answer in time (also 408)",
            "raise the call's limit or look at the endpoint"),
        row("model.connection", o.MODEL, fatal, False, s.ATTEMPT, "the endpoint could not be reached, or the connection broke",
            "check model.base_url and the network"),
        row("model.invalid_request", o.MODEL, fatal, True, s.ATTEMPT, "the endpoint refused the request (400, 413, 422, other 4xx)",
            "read its message; a context that is too long is the usual cause"),
        row("model.refusal", o.AGENT, error, False, s.ATTEMPT, "a content filter stopped the answer", "graded as it is"),
        row("model.malformed", o.AGENT, error, False, s.ATTEMPT, "the answer could not be parsed", "graded as it is"),
        row("time.agent", o.AGENT, error, False, s.ATTEMPT, "the agent reached its time limit",
            "graded on what was collected; raise --timeout if it was too low"),
        row("time.attempt", o.AGENT, error, False, s.ATTEMPT, "the try reached its time limit in the agent phase",
            "graded on what was collected"),
        row("time.setup", o.BENCHMARK, fatal, False, s.ATTEMPT, "setup reached its time limit", "raise the setup limit"),
        row("time.collect", o.BENCHMARK, fatal, False, s.ATTEMPT, "collect reached its time limit", "raise the collect limit"),
        row("time.grade", o.BENCHMARK, fatal, False, s.ATTEMPT, "grading reached its time limit", "raise the grade limit"),
        row("collect.required_missing", o.AGENT, error, False, s.ATTEMPT, "a required artifact was not produced",
            "graded as it is"),
        row("collect.failed", o.PROVIDER, fatal, False, s.ATTEMPT, "files could not be taken out of the sandbox",
            "read the message of the provider"),
        row("artifact.too_large", o.PROVIDER, warning, False, s.ATTEMPT, "an artifact was cut at its limit",
            "raise max_bytes of the artifact"),
        row("grade.time", o.AGENT, error, True, s.ATTEMPT, "the graded code ran past the grader's own limit",
            "failed; the code is too slow or never ends"),
        row("grade.memory", o.AGENT, error, True, s.ATTEMPT, "the graded code used more memory than the grader allows",
            "failed"),
        row("grade.output", o.AGENT, error, True, s.ATTEMPT, "the graded code printed more than the grader allows", "failed"),
        row("grade.incomplete", o.AGENT, error, True, s.ATTEMPT, "the graded code ended before its tests did", "failed"),
        row("grader.crashed", o.GRADER, fatal, False, s.ATTEMPT, "the grader raised an exception",
            "read the traceback in try.log"),
        row("grader.invalid_score", o.GRADER, fatal, False, s.ATTEMPT, "the grader returned something that is not a score",
            "mend the grader: finite numbers from 0 to 1"),
        row("worker.lost", o.RUNNER, fatal, False, s.ATTEMPT, "a process of the runner died", "see pid and signal in the message"),
        row("engine.lost", o.RUNNER, fatal, False, s.ATTEMPT, "a node of the engine died", "see the message"),
        row("experiment.teardown_failed", o.USER, warning, False, s.ATTEMPT, "the teardown hook of the experiment failed",
            "undo by hand what it should have undone"),
        row("dispose.failed", o.PROVIDER, warning, False, s.ATTEMPT, "a sandbox could not be disposed of", "remove it by hand"),
        row("output.truncated", o.PROVIDER, warning, False, s.ATTEMPT, "output was cut to head and tail", "nothing to do"),
        row("usage.missing", o.RUNNER, warning, False, s.ATTEMPT, "the endpoint reported no usage", "cost is unknown"),
        row("price.unknown", o.RUNNER, warning, False, s.ATTEMPT, "no price is known for the model", "set a price"),
        row("budget.no_retry", o.RUNNER, warning, False, s.ATTEMPT, "the budget left no room for a retry", "raise the budget"),
        row("store.full", o.RUNNER, fatal, True, s.INVOCATION, "results cannot be written: disk full or read-only",
            "free space, then continue with --reuse"),
        row("internal", o.RUNNER, fatal, True, s.INVOCATION, "a bug of proctor", "keep the run directory and report it"),
    ]  # fmt: skip


CODES: dict[str, CodeRow] = {row.code: row for row in _rows()}
"""Every issue code by name."""


def code_row(code: str) -> CodeRow:
    """Return the row of `code`; raises `KeyError` when the table does not have it."""
    return CODES[code]
