"""The harness `mini-swe-agent`: a small agent in Python, in an environment of its own. It speaks chat completions.

Read is the trajectory that it writes after each step, with what the endpoint answered in each call.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel

from proctor.harnesses.command import ProgramHarness, ProgramOptions
from proctor.harnesses.command_declaration import Declaration
from proctor.harnesses.command_output import (
    JsonObject,
    Parser,
    ProgramReport,
    ProgramRun,
    at,
    cost,
    count,
    distinct,
    json_or_none,
    mapping,
    objects,
    openai_usage,
    text_of,
    unanswered,
)
from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import A_CALL, ToolCall

TRAJECTORY = "{state}/trajectory.json"
_INSTALL = """
set -e
if ! python3 -m venv "$PROCTOR_TOOLS/venv"; then
    apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv
    python3 -m venv --clear "$PROCTOR_TOOLS/venv"
fi
"$PROCTOR_TOOLS/venv/bin/pip" install --quiet "mini-swe-agent${PROCTOR_VERSION:+==$PROCTOR_VERSION}"
"""
_INSTALLED = """
mini=$(command -v mini) && python=$(sed -n '1s/^#!//p' "$mini") && found=$("$python" -c '
from importlib.metadata import version
print(version("mini-swe-agent"))') && [ "$found" = "${PROCTOR_VERSION:-$found}" ]
"""
_VERSION = 'python=$(sed -n "1s/^#!//p" "$(command -v mini)"); "$python" -c "$1"'
_PRINT_VERSION = 'from importlib.metadata import version; print(version("mini-swe-agent"))'
_ENDS: dict[str, str | None] = {
    "": None,
    "Submitted": None,
    "LimitsExceeded": "harness.limit",
    "TimeExceeded": "harness.limit",
    "RepeatedFormatError": "model.malformed",
    "AuthenticationError": "model.refused_auth",
    "PermissionDeniedError": "model.refused_auth",
    "NotFoundError": "model.not_found",
    "RateLimitError": "model.rate_limited",
    "ServiceUnavailableError": "model.overloaded",
    "Timeout": "model.timeout",
    "BadRequestError": "model.invalid_request",
    "ContextWindowExceededError": "model.invalid_request",
    "UnprocessableEntityError": "model.invalid_request",
    "UnsupportedParamsError": "model.invalid_request",
    "ContentPolicyViolationError": "model.refusal",
    "InternalServerError": "model.server",
    "BadGatewayError": "model.server",
    "APIError": "model.server",
    "APIResponseValidationError": "model.server",
    "APIConnectionError": "model.connection",
}
"""What its ends mean, by the name that it gives them; any other is an exception that it did not expect."""


class MiniSweAgentOptions(ProgramOptions):
    """Parameters of `mini-swe-agent`."""

    version: str | None = "2.4.6"


class MiniSweAgentHarness(ProgramHarness):
    """Runs mini-SWE-agent in the sandbox."""

    name = "mini-swe-agent"
    turns: int | None = 1
    options: type[BaseModel] = MiniSweAgentOptions

    def __init__(self, options: MiniSweAgentOptions) -> None:
        self._options = options

    def declared(self, family: str) -> Declaration:
        """Return how it is installed and started."""
        address = (
            {"ANTHROPIC_API_KEY": "{key}", "ANTHROPIC_API_BASE": "{root_url}"}
            if family == "anthropic"
            else {"OPENAI_API_KEY": "{key}", "OPENAI_API_BASE": "{base_url}", "OPENAI_BASE_URL": "{base_url}"}
        )
        start = ("mini", "--yolo", "--exit-immediately", "--cost-limit", "0", "--output", TRAJECTORY)
        return Declaration(
            name=self.name,
            command=(*start, "--model", f"{family}/{{model}}", *self._options.args, "--task", "{prompt}"),
            env={
                **address,
                "MSWEA_CONFIGURED": "1",  # or it asks a person
                "MSWEA_SILENT_STARTUP": "1",
                "MSWEA_GLOBAL_CONFIG_DIR": "{state}/config",
                "MSWEA_COST_TRACKING": "ignore_errors",  # or it stops at a model of which it knows no price
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "PYTHONUNBUFFERED": "1",
                **self._options.env,
            },
            version=self._options.version,
            version_command=("sh", "-c", _VERSION, "sh", _PRINT_VERSION),
            installed=_INSTALLED,
            install=_INSTALL,
            path=("{tools}/venv/bin",),
            keep=(TRAJECTORY,),
        )

    def parser(self) -> Parser:
        """Return what reads its trajectory."""
        return read_mini_swe_agent


def read_mini_swe_agent(run: ProgramRun) -> ProgramReport:
    """Return what its trajectory says; it has one turn."""
    written = mapping(json_or_none(next(iter(run.files.values()), b"")))
    info = mapping(written.get("info"))
    trajectory = run.trajectory()
    calls: list[Usage] = []
    last: str | None = None
    last_said = ""
    for message in objects(written.get("messages")):
        text = text_of(message.get("content"))
        role = message.get("role")
        # Of an answer that it could not use it keeps what came, in what it says to it.
        unused = mapping(at(message, "extra.response.choices.0.message")) if role == "user" else {}
        if role == "assistant" or at(message, "extra.response") is not None:
            used = _usage_of(message)
            calls.append(used or A_CALL)
            said = text if role == "assistant" else text_of(unused.get("content"))
            last = said or last
            made = distinct(_calls(message if role == "assistant" else unused))
            trajectory.act(said, usage=used, calls=made, model=_model_of(message))
        match role:
            case "system" | "user":
                trajectory.say("system" if role == "system" else "user", text)
            case "tool":
                trajectory.observe(text, text_of(message.get("tool_call_id")))
            case "exit":
                last_said = text
            case _:
                pass
    if not written:
        trajectory.say("user", run.turns[-1].prompt)
    answer = text_of(info.get("submission")).strip() or last
    problems = _problems(info, last_said)
    failed = sum(code.startswith("model.") and code != "model.malformed" for code, _ in problems)
    lost = count(at(info, "model_stats.api_calls")) - failed - len(calls)
    if A_CALL in calls and sum(calls, NO_USAGE) != Usage(calls=len(calls)):
        calls.remove(A_CALL)  # the part that is missing
        lost += 1
    usage = sum(calls, NO_USAGE) if calls or written else None
    waiting = None if calls else unanswered(run)
    return ProgramReport(
        answer, usage, trajectory.value(), len(calls) or None, problems, partial=lost > 0, waiting=waiting
    )


def _usage_of(message: JsonObject) -> Usage | None:
    reported = mapping(at(message, "extra.response.usage"))
    if not reported:
        return None
    # Nothing is free for it: 0 is what it says of a model without a price.
    return replace(openai_usage(reported), cost_usd=cost(at(message, "extra.cost")) or None)


def _model_of(message: JsonObject) -> str | None:
    return text_of(at(message, "extra.response.model")) or None


def _calls(message: JsonObject) -> list[ToolCall]:
    return [
        ToolCall(text_of(call.get("id")), text_of(at(call, "function.name")), text_of(at(call, "function.arguments")))
        for call in objects(message.get("tool_calls"))
    ]


def _problems(info: JsonObject, last_said: str) -> list[tuple[str, str]]:
    """Return why it ended, where it did not hand in: it gives the name of an exception, and what that says."""
    ended = text_of(info.get("exit_status"))
    code = _ENDS.get(ended, "harness.crashed")
    if code is None:
        return []
    said = ended if last_said in {"", ended} else f"{ended}: {last_said}"
    if code == "model.server" and "Connection error" in said:
        code = "model.connection"
    return [(code, f"mini-swe-agent: {said}")]
