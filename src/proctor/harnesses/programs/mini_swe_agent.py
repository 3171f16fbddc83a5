"""The harness `mini-swe-agent`: a small agent in Python, in an environment of its own. It speaks chat completions.

Read is the trajectory that it writes after each step, with what the endpoint answered in each call.
"""

from __future__ import annotations

from pydantic import BaseModel

from proctor.harnesses.command import ProgramHarness, ProgramOptions
from proctor.harnesses.command_declaration import Declaration, Failure
from proctor.harnesses.command_output import (
    JsonObject,
    Parser,
    ProgramReport,
    ProgramRun,
    at,
    cost,
    distinct,
    json_or_none,
    mapping,
    objects,
    openai_usage,
    text_of,
)
from proctor.model.attempt import NO_USAGE, Usage
from proctor.plugins.api import ToolCall

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
            failures=(
                Failure(code="model.refused_auth", pattern="AuthenticationError|PermissionDeniedError"),
                Failure(code="model.not_found", pattern=r"litellm\.NotFoundError"),
                Failure(code="model.rate_limited", pattern="RateLimitError"),
                Failure(code="model.overloaded", pattern="ServiceUnavailableError"),
                Failure(code="model.timeout", pattern=r"litellm\.Timeout"),
                Failure(code="model.invalid_request", pattern="BadRequestError|ContextWindowExceededError"),
                Failure(code="model.server", pattern="InternalServerError"),
                Failure(code="model.connection", pattern="APIConnectionError"),
            ),
        )

    def parser(self) -> Parser:
        """Return what reads its trajectory."""
        return read_mini_swe_agent


def read_mini_swe_agent(run: ProgramRun) -> ProgramReport:
    """Return what its trajectory says; it has one turn."""
    written = mapping(json_or_none(next(iter(run.files.values()), b"")))
    info = mapping(written.get("info"))
    trajectory = run.trajectory()
    usage: Usage | None = None
    last: str | None = None
    for message in objects(written.get("messages")):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "system" | "user" as role:
                trajectory.say("system" if role == "system" else "user", text)
            case "assistant":
                used = _usage_of(message)
                usage = (usage or NO_USAGE) + (used or Usage(calls=1))
                last = text or last
                trajectory.act(text, usage=used, calls=distinct(_calls(message)), model=_model_of(message))
            case "tool":
                trajectory.observe(text, text_of(message.get("tool_call_id")))
            case _:
                pass
    if not written:
        trajectory.say("user", run.turns[-1].prompt)
    answer = text_of(info.get("submission")).strip() or last
    steps = None if usage is None else usage.calls
    return ProgramReport(answer, usage, trajectory.value(), steps, _problems(info))


def _usage_of(message: JsonObject) -> Usage | None:
    reported = mapping(at(message, "extra.response.usage"))
    if not reported:
        return None
    price = cost(at(message, "extra.cost"))
    used = openai_usage(reported)
    # Nothing is free for it: 0 is what it says of a model without a price.
    return Usage(
        used.calls, used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens,
        used.reasoning_tokens, price or None,
    )  # fmt: skip


def _model_of(message: JsonObject) -> str | None:
    return text_of(at(message, "extra.response.model")) or None


def _calls(message: JsonObject) -> list[ToolCall]:
    return [
        ToolCall(text_of(call.get("id")), text_of(at(call, "function.name")), text_of(at(call, "function.arguments")))
        for call in objects(message.get("tool_calls"))
    ]


def _problems(info: JsonObject) -> list[tuple[str, str]]:
    ended = text_of(info.get("exit_status"))
    if ended in {"LimitsExceeded", "TimeExceeded"}:
        return [("harness.limit", f"mini-swe-agent: {ended}")]
    return []
