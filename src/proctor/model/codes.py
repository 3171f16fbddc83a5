"""The table of issue codes (spec 05): who owns it, how bad it is, whether trying again can help, how far it reaches.

Data only. `core.failure` decides by it, the pages below docs/codes are generated from it.
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
    """One row of the table: `action` is something that a person can do, `example` a message as it may come."""

    code: str
    owner: Owner
    severity: Severity
    permanent: bool
    scope: Scope
    when: str
    action: str
    example: str = ""


_ROWS = (
    CodeRow("provider.open_failed", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "a sandbox could not be opened",
        "mend what the message of the provider names, such as a full disk; try again with `--max-retries 2` where it is a passing trouble",
        "no work directory could be made: OSError: [Errno 28] No space left on device"),
    CodeRow("provider.open_timeout", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "opening a sandbox took longer than its limit",
        "lower `--provider-limit NAME=N`, or set a pace with `--env-open-qps NAME=RATE`", "open reached its limit of 600 s"),
    CodeRow("provider.lost", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "a sandbox vanished while it was in use",
        "look up the status or signal of the message; where memory ran out, lower `--task-concurrency N`",
        "supervisor was killed by signal 9"),
    CodeRow("provider.unavailable", Owner.PROVIDER, Severity.FATAL, True, Scope.PROVIDER, "the provider is absent or refuses its credentials",
        "start its daemon, or give it credentials that it takes, and run it again"),
    CodeRow("image.missing", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "an image does not exist, or its registry does not hand it out",
        "build or pull the image, log in to its registry, or correct its name in the environment",
        "image `example.org/tool:9` cannot be had: manifest unknown"),
    CodeRow("image.build_failed", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "an image could not be built",
        "read the build log below `images/` of the run, mend the Dockerfile, compose file or archive, and run it again",
        "cannot build `box`: The command '/bin/sh -c make' returned a non-zero code: 2"),
    CodeRow("image.build_stalled", Owner.PROVIDER, Severity.FATAL, True, Scope.IMAGE, "a build or a pull gave no output for too long",
        "read the end of the build log below `images/` of the run; check the network and the registry that it waits for",
        "build of box: it said nothing for 600 s"),
    CodeRow("experiment.setup_failed", Owner.USER, Severity.FATAL, True, Scope.EXPERIMENT, "the setup hook of the experiment failed",
        "mend the hook; run.log has what it printed", "hook `hooks:prepare`: it ended with status 1; it said last: RuntimeError: no licence"),
    CodeRow("experiment.fatal", Owner.USER, Severity.FATAL, True, Scope.EXPERIMENT, "ExperimentFatal was raised",
        "mend what the message names: your own code raised it to stop the experiment"),
    CodeRow("task.fatal", Owner.USER, Severity.FATAL, True, Scope.TASK, "TaskFatal was raised",
        "mend what the message names, or leave the task out with `--tasks`: your own code raised it to stop the task"),
    CodeRow("task.crashed", Owner.USER, Severity.FATAL, False, Scope.ATTEMPT, "the function of a Python task raised an exception of its own",
        "mend the function at the line that the message names; try.log has the traceback",
        "evals/naps.py:12: ZeroDivisionError: division by zero"),
    CodeRow("sandbox.setup_failed", Owner.USER, Severity.FATAL, False, Scope.ATTEMPT, "sandbox_setup failed",
        "mend the hook; try.log has its traceback"),
    CodeRow("environment.too_large", Owner.RUNNER, Severity.FATAL, True, Scope.ATTEMPT, "the task needs more than the host has",
        "run it on a larger host, or leave the task out with `--tasks`"),
    CodeRow("task.setup_failed", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "the task's own preparation failed",
        "read the traceback in try.log and tell the author of the benchmark; leave the task out with `--tasks` meanwhile",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/inputs.tar'"),
    CodeRow("tool.crashed", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "a tool of the benchmark raised an exception, or broke a limit; what it says of a wrong call is no such thing",
        "read the call in tool-calls.json and the traceback in try.log, and tell the author of the benchmark; leave the task out with `--tasks` meanwhile",
        "tool `send_money` failed (time): its process ended with status -24"),
    CodeRow("harness.crashed", Owner.HARNESS, Severity.FATAL, False, Scope.ATTEMPT, "the harness raised an exception, or its program was ended by a signal",
        "read the traceback in try.log and mend the harness, or tell its author", "KeyError: 'tool_calls'"),
    CodeRow("harness.out_of_memory", Owner.HARNESS, Severity.FATAL, False, Scope.ATTEMPT, "the agent program was ended for want of memory",
        "give the environment more memory, or lower `--task-concurrency N`", "out of memory (signal 9 (SIGKILL))"),
    CodeRow("harness.exit_nonzero", Owner.HARNESS, Severity.ERROR, False, Scope.ATTEMPT, "the agent program ended with a non-zero status",
        "read what it printed last in try.log; with `--retry-pattern harness.exit_nonzero` it is tried again", "status 3"),
    CodeRow("harness.limit", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a limit of the harness (steps, tokens, cost) was reached",
        "raise that limit of the harness if it was too low", "the limit of 50 steps was reached"),
    CodeRow("model.refused_auth", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "the endpoint refused the key (401, 403)",
        "set model.api_key, or the variable of the key, to one that the endpoint takes",
        "model `openai/m` at api.example.org: status 401: invalid key"),
    CodeRow("model.payment", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "the endpoint wants payment (402), or a quota is used up",
        "add credit, or raise the quota, at whoever runs the endpoint",
        "model `openai/m` at api.example.org: status 429: You exceeded your current quota"),
    CodeRow("model.not_found", Owner.MODEL, Severity.FATAL, True, Scope.MODEL, "endpoint or model id does not exist (404)",
        "check the id of the model, and model.base_url", "model `openai/m` at 127.0.0.1:8000: status 404: the model `m` does not exist"),
    CodeRow("model.rate_limited", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint limits the rate of calls (429)",
        "set model.requests_per_minute or model.max_connections below what the endpoint allows",
        "model `openai/m` at api.example.org: status 429: too many requests"),
    CodeRow("model.overloaded", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint is overloaded (409, 425, 503, 529)",
        "run it again later, or lower model.max_connections", "model `openai/m` at api.example.org: status 529: overloaded"),
    CodeRow("model.server", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint failed (other 5xx), or what it sent is no answer",
        "try again with `--max-retries 2`; look at the log of the endpoint where it is yours",
        "model `openai/m` at 127.0.0.1:8000: status 500: CUDA out of memory"),
    CodeRow("model.timeout", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "a call got no answer in time (also 408)",
        "raise model.params.timeout_seconds, or lower model.max_connections so that the endpoint answers sooner",
        "model `openai/m` at 127.0.0.1:8000: no answer within 600 s"),
    CodeRow("model.connection", Owner.MODEL, Severity.FATAL, False, Scope.ATTEMPT, "the endpoint could not be reached, or the connection broke",
        "check model.base_url, the network, and that the endpoint runs",
        "model `openai/m` at 127.0.0.1:8000: no connection: ConnectionRefusedError: [Errno 111] Connection refused"),
    CodeRow("model.invalid_request", Owner.MODEL, Severity.FATAL, True, Scope.ATTEMPT, "the endpoint refused the request (400, 413, 422, other 4xx); after calls that it answered this is an ERROR, and what the agent did is graded",
        "change what the message names: the parameters of the model, or a context that is too long",
        "model `openai/m` at api.example.org: status 400: maximum context length is 8192 tokens"),
    CodeRow("model.refusal", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a content filter stopped the answer",
        "read the trajectory: the model was not allowed to answer this task", "a content filter stopped the answer of openai/m"),
    CodeRow("model.malformed", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the model's answer could not be used: it cannot be parsed, or it has no end",
        "read the trajectory; where it is too long, set model.params.max_tokens",
        "model `openai/m` at 127.0.0.1:8000: the answer is longer than 67,108,864 bytes"),
    CodeRow("time.agent", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the agent reached its time limit",
        "raise `--timeout SECONDS` if it was too low", "agent reached its limit of 1200 s"),
    CodeRow("time.attempt", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the try reached its time limit in the agent phase",
        "raise it with `--set timeout_seconds=SECONDS` if it was too low"),
    CodeRow("time.idle", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "the agent gave no sign of life for too long",
        "raise it with `--set agent_idle_timeout_seconds=SECONDS` if it was too low"),
    CodeRow("time.setup", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "setup reached its time limit",
        "look in try.log for what took so long, and raise it with `--set setup_timeout_seconds=SECONDS`", "setup reached its limit of 600 s"),
    CodeRow("time.collect", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "collect reached its time limit",
        "look in try.log for what took so long, and raise it with `--set collect_timeout_seconds=SECONDS`", "collect reached its limit of 120 s"),
    CodeRow("time.grade", Owner.BENCHMARK, Severity.FATAL, False, Scope.ATTEMPT, "grading reached its time limit",
        "raise it with `--set grade_timeout_seconds=SECONDS`", "grade reached its limit of 600 s"),
    CodeRow("collect.required_missing", Owner.AGENT, Severity.ERROR, False, Scope.ATTEMPT, "a required artifact was not produced",
        "read the trajectory: the agent did not make the file that the task asks for"),
    CodeRow("collect.failed", Owner.PROVIDER, Severity.FATAL, False, Scope.ATTEMPT, "files could not be taken out of the sandbox",
        "mend what the message of the provider names; try again with `--max-retries 2` where it is a passing trouble"),
    CodeRow("artifact.too_large", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "an artifact was cut at its limit",
        "raise the limit of the artifact if what was cut is needed"),
    CodeRow("checkpoint.damaged", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT,
        "what grading needs was saved, and cannot be read or has changed since",
        "run it again with `--max-retries 1`: another try does the work again; leave the files of a run alone while it runs"),
    CodeRow("grade.time", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code ran past the grader's own limit",
        "look at the answer: its code is too slow or never ends", "the code did not end within 10 s"),
    CodeRow("grade.memory", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code used more memory than the grader allows",
        "look at the answer: its code needs more memory than the task allows", "the code used more than 2147483648 bytes of memory"),
    CodeRow("grade.output", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code printed more than the grader allows",
        "look at the answer: its code prints without end", "the code printed more than 1048576 bytes"),
    CodeRow("grade.incomplete", Owner.AGENT, Severity.ERROR, True, Scope.ATTEMPT, "the graded code ended before its tests did",
        "look at the answer: its code ends the program, or crashes it", "the code ended with status 0 before its tests were done"),
    CodeRow("grader.crashed", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the grader raised an exception",
        "read the traceback in try.log and mend the grader, or tell its author", "ZeroDivisionError: division by zero"),
    CodeRow("grader.judge_failed", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the model that judges gave no verdict that can be used",
        "read what it said in try.log; raise judge.params.max_tokens where it was cut, or take another judge",
        "`openai/m` gave no verdict in 3 answers; the last: it does not end with a JSON object"),
    CodeRow("grader.no_reward", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the command that grades ended, and left no reward file",
        "read what it printed in try.log and mend it: it has to write a reward whatever the agent did",
        "the command ended with status 1 and left neither of /logs/verifier/reward.json, /logs/verifier/reward.txt"),
    CodeRow("grader.invalid_score", Owner.GRADER, Severity.FATAL, False, Scope.ATTEMPT, "the grader returned something that is not a score",
        "mend the grader: a score is a finite number from 0 to 1", "score must be a finite number from 0 to 1, not nan"),
    CodeRow("worker.lost", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT, "a process of the runner died",
        "look up pid and signal of the message in the log of the system; where memory ran out, lower `--task-concurrency N`"),
    CodeRow("engine.lost", Owner.RUNNER, Severity.FATAL, False, Scope.ATTEMPT, "a node of the engine died",
        "look at the node that the message names, and run it again"),
    CodeRow("experiment.teardown_failed", Owner.USER, Severity.WARNING, False, Scope.ATTEMPT, "the teardown hook of the experiment failed",
        "undo by hand what it should have undone, and mend the hook", "hook `hooks:clear`: it did not end within 600 s, and was ended"),
    CodeRow("sandbox.teardown_failed", Owner.USER, Severity.WARNING, False, Scope.ATTEMPT, "sandbox_teardown failed",
        "mend the hook; the sandbox was disposed of all the same"),
    CodeRow("dispose.failed", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "a sandbox could not be disposed of",
        "remove by hand the sandbox that the message names", "dispose reached its limit of 60 s"),
    CodeRow("output.truncated", Owner.PROVIDER, Severity.WARNING, False, Scope.ATTEMPT, "what was said or returned was too long: its middle is left out",
        "have the agent or the plugin print less where the part that is missing matters", "try.log: 12,345,678 bytes in the middle are left out"),
    CodeRow("usage.missing", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "the endpoint reported no usage",
        "have the endpoint report usage where the cost matters: it is unknown now", "openai/m reported no usage for a call"),
    CodeRow("price.unknown", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "no price is known for the model",
        "set model.price in US dollars per million tokens (docs/costs.md) and run it again; until then the cost is unknown, not 0",
        "no price is known for model `openai/m` at https://models.example.com/v1: what its calls cost is unknown (said once in a run)"),
    CodeRow("budget.no_retry", Owner.RUNNER, Severity.WARNING, False, Scope.ATTEMPT, "the budget left no room for a retry",
        "raise `--budget USD` and run it again", "the budget leaves no room for another try"),
    CodeRow("store.full", Owner.RUNNER, Severity.FATAL, True, Scope.INVOCATION, "results cannot be written: disk full or read-only",
        "free space, or choose another `--results-dir`, then run it again",
        "could not write results/none_trivial_nop/20261130T163035/journal.jsonl: no space left on device"),
    CodeRow("internal", Owner.RUNNER, Severity.FATAL, True, Scope.INVOCATION, "a bug of proctor",
        "keep the run directory and report it with the traceback", "AssertionError: a sealed attempt has a slot"),
)  # fmt: skip

CODES: dict[str, CodeRow] = {row.code: row for row in _ROWS}
"""Every issue code by name."""


def code_row(code: str) -> CodeRow:
    """Return the row of `code`; raises `KeyError` when the table does not have it."""
    return CODES[code]


_CODES_OF_STATUSES = {
    401: "model.refused_auth",
    402: "model.payment",
    403: "model.refused_auth",
    404: "model.not_found",
    408: "model.timeout",
    409: "model.overloaded",
    425: "model.overloaded",
    429: "model.rate_limited",
    503: "model.overloaded",
    529: "model.overloaded",
}


def code_of_status(status: int) -> str:
    """Return the issue code of an HTTP status that is not a success (the table of spec 05)."""
    known = _CODES_OF_STATUSES.get(status)
    if known is not None:
        return known
    return "model.invalid_request" if 400 <= status < 500 else "model.server"
